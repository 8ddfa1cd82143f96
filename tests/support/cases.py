"""Case studies of the papers: scripted replies and what the machine must say to each, as YAML beside a graph.

```yaml
paper: QueryAgent, figure 6
preset: queryagent
graph: figure6.ttl
question: ...
entities: {live365: m.04rtjj}
steps:                       # one an action; `thought` and `action` are the reply, as the paper prints them
  - thought: ...
    action: get_relation(m.04rtjj)
    says: [phrases of the observation]
    error: no_action         # id of the guideline, where the paper has an ERROR_INFO
    values: ...              # the reply to the question that an answer action asks (ODA)
    reflect: ...             # the reply to the reflection that follows (ODA)
    memory: [...]            # paths of memory after this step (ODA)
    focus: [...]             # task-relevant entities after this step (ODA)
answer: {labels: [...], values: [...], sparql: ..., proof: [...]}
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, State, build_graph
from triplewise.nodes.hints import memory_lines
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.overlay.overlay import overlaid

CASES = Path(__file__).parent.parent / "cases"


@dataclass(frozen=True)
class Replay:
    """A case that was run: the phases in order, the state after each, and the model's server."""

    case: Mapping[str, Any]
    phases: tuple[str, ...]
    states: tuple[State, ...]
    server: OpenAIServer

    @property
    def state(self) -> State:
        """The final state."""
        return self.states[-1]

    @property
    def kg(self) -> KnowledgeGraph:
        """The graph of the case, with what was read from documents over it."""
        return overlaid(open_kg(str(graph_path(self.case)), profile=self.case["profile"]), self.state.facts)

    def settled(self, step: int) -> State:
        """The state in which the next step is decided on (or the final one)."""
        after = [s for p, s in zip(self.phases, self.states, strict=True) if p in ("correct", "reflect")]
        return [*after, self.state][step - 1]


def load_case(name: str) -> dict[str, Any]:
    """The case in `tests/cases/NAME.yaml`."""
    path = CASES / f"{name}.yaml"
    case: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"folder": path.parent, **case}


def graph_path(case: Mapping[str, Any]) -> Path:
    """Where the graph of a case lies."""
    path: Path = case["folder"] / case["graph"]
    return path


def replies(case: Mapping[str, Any]) -> list[str]:
    """All replies of the model, in the order in which the machine asks for them."""
    script: list[str] = [case["plan"]] if "plan" in case else []
    for n, step in enumerate(case["steps"], 1):
        script.append(step.get("reply") or f"Thought {n}: {step['thought']}\nAction {n}: {step['action']}")
        script += [step[key] for key in ("plan", "extract", "values", "reflect") if key in step]
    return script


def replay(name: str, openai_server: Callable[..., OpenAIServer], **settings: Any) -> Replay:
    """Run a case with its scripted model, and check what holds for every case."""
    case = load_case(name)
    server = openai_server(replies(case))
    if "documents" in case:
        settings["documents"] = str(case["folder"] / case["documents"])
    context = Context(
        kg=str(graph_path(case)),
        profile=case["profile"],
        model="openai:scripted",
        base_url=server.url,
        **settings,
    )
    graph = build_graph(case["preset"])
    given = {"question": case["question"], "entities": case["entities"]}
    phases: list[str] = []
    states: list[State] = []
    for mode, chunk in graph.stream(given, context=context, stream_mode=["updates", "values"]):
        if mode == "updates":
            phases += chunk
        elif phases:
            states.append(State.model_validate(chunk))
    done = Replay(case, tuple(phases), tuple(states), server)
    check_steps(done)
    check_answer(done)
    return done


def check_steps(done: Replay) -> None:
    """Errors at the same steps, guidelines that say the same, failed steps rolled back."""
    assert len(done.state.steps) == len(done.case["steps"])
    assert done.server.used == len(replies(done.case)), "every reply is used, and no other is asked for"
    for number, (step, wanted) in enumerate(zip(done.state.steps, done.case["steps"], strict=True), 1):
        error = wanted.get("error", "")
        assert (number, step.guideline if step.rolled_back else "") == (number, error)
        assert step.rolled_back is bool(error)
        for phrase in wanted.get("says", []):
            assert phrase in step.observation, f"step {number}: {phrase!r} not in {step.observation!r}"
        if error:
            assert step.observation.startswith("ERROR_INFO: ")
            assert done.settled(number).program == step.program_before
        if "call" in wanted:
            assert step.call == wanted["call"]
        if "memory" in wanted:
            assert memory_lines(done.kg, done.settled(number).memory) == wanted["memory"]
        if "focus" in wanted:
            assert list(done.settled(number).focus) == wanted["focus"]
    assert [c.step for c in done.state.corrections] == [
        n for n, wanted in enumerate(done.case["steps"], 1) if "error" in wanted
    ]


def check_answer(done: Replay) -> None:
    """The paper's answer, its query, and the facts that prove it."""
    answer, wanted = done.state.answer, done.case["answer"]
    assert answer is not None
    assert answer.status == "answered"
    assert sorted(answer.labels) == sorted(wanted["labels"])
    assert sorted(answer.values) == sorted(wanted["values"])
    assert answer.sparql.strip() == wanted["sparql"].strip()
    assert sorted(p.text for p in answer.proof) == sorted(wanted["proof"])
    assert answer.corrections == done.state.corrections
    assert answer.usage.calls == len(replies(done.case))
