"""Calls of a baseline to the model, made while the budgets of the question last."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from triplewise.evals.baselines.answering import asked
from triplewise.evals.baselines.wiring import own_prompt
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.phase import spent
from triplewise.nodes.state import State
from triplewise.nodes.usage import Usage


@dataclass(slots=True)
class Asker:
    """Asks the model within one run of a phase, as often as its question may still be asked.

    The budgets are looked at before every call, for a phase may make several, and what it used is added to
    the state only when it has ended.

    Attributes:
        state: when the phase began. context: of the run. prompt: name of the baseline's prompt.
        over: the budget that is spent, in words; "" while there is some left.
    """

    state: State
    context: Context
    prompt: str
    over: str = ""
    _used: Usage = field(default_factory=Usage)
    _begun: float = field(default_factory=time.perf_counter)

    def ask(self, part: str, **values: Any) -> str | None:
        """The reply to a part of the prompt; None, and `over` says why, where a budget is spent.

        Raises:
            ModelUnavailableError: the server gave no usable reply after all retries.
            ConfigurationError: what the person must mend (key, model name, address).
        """
        usage = self.state.usage + self._used + Usage(seconds=time.perf_counter() - self._begun)
        self.over = spent(self.state.model_copy(update={"usage": usage}), self.context)
        if self.over:
            return None
        text = own_prompt(self.prompt, self.context).render(part, **asked(self.state), **values)
        reply = environment(self.context).model.complete([{"role": "user", "content": text}])
        self._used += reply.usage
        return reply.text
