"""Self-learning (SymAgent 4.3) as a LangGraph graph, and its runs in folders, gone on with after a kill.

```
START → validate ─┬─→ explore → refine → merge → update ─┬─→ validate
                  └── gain negligible, or enough → END   └── nothing to learn from → END
```

The folder of a run holds `learn.json` (the configuration), `trajectories.jsonl` (explored and refined ones),
`validated.jsonl` (attempts at validation questions), `training-N.jsonl` (what iteration N trained on),
`policy-N-*` (what came of it), `checkpoints.sqlite` (the state of the graph) and, in the end, `report.json`
and `settings.yaml`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import yaml
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from triplewise.graphs.build import build_graph
from triplewise.graphs.presets import find_preset
from triplewise.graphs.runs import open_saver
from triplewise.nodes import learning as phases
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment
from triplewise.nodes.learning import LearningConfig, LearningContext, LearningState
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import exclusive, write_json, write_text
from triplewise.tools.learning.questions import Question, read_questions, split
from triplewise.tools.learning.trajectory import Journal

CONFIG, CHECKPOINTS, REPORT, SETTINGS = "learn.json", "checkpoints.sqlite", "report.json", "settings.yaml"
_THREAD: RunnableConfig = {"configurable": {"thread_id": "learn"}}


def after_validate(state: LearningState) -> Literal["explore", "__end__"]:
    """Explore with the newest policy, or stop."""
    return "__end__" if state.stopped else "explore"


def after_update(state: LearningState) -> Literal["validate", "__end__"]:
    """Validate what was learned; without anything learned, stop."""
    return "__end__" if state.stopped else "validate"


def build_self_learning(
    *, checkpointer: Any = None
) -> CompiledStateGraph[LearningState, LearningContext, Any, Any]:
    """Compile the graph of self-learning.

    With a checkpointer, a killed run goes on in the phase it was in, and inside it after the last question
    that is in the journal.
    """
    graph: StateGraph[LearningState, LearningContext, Any, Any] = StateGraph(
        LearningState, context_schema=LearningContext
    )
    graph.add_node("validate", phases.validate)
    graph.add_sequence([phases.explore, phases.refine, phases.merge, phases.update])
    graph.add_edge(START, "validate")
    graph.add_conditional_edges("validate", after_validate)
    graph.add_conditional_edges("update", after_update)
    return graph.compile(checkpointer=checkpointer, name="self-learning")


def learn(
    config: LearningConfig | None,
    folder: Path,
    *,
    learner: phases.Learner | None = None,
    report: Callable[[phases.Progress], object] = lambda progress: None,
    notify: Callable[[str], None] = lambda message: None,
) -> Iterator[LearningState]:
    """Run self-learning, or go on with it: the state after each phase as it happens, and the final one.

    Args:
        config: what to learn; None goes on with what the folder holds.
        folder: where everything is kept.
        learner: what updates the policy, instead of the policy's own.
        report: called with the progress of a phase. notify: called with a message for a person.

    Raises:
        ConfigurationError: a configuration that cannot work, or a folder that holds another one.
        DataError: a file that cannot be read. RunError: a service failed; the run can be gone on with.
    """
    busy = ConfigurationError(f"another process is learning in {folder}; wait for it to end")
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(exclusive(folder / "lock", busy))
        config = _stored_config(config, folder)
        defaults = find_preset(config.preset).settings
        context = Context(**config.context).resolved(defaults)
        if context.embedded != (config.policy == "embedded"):
            raise ConfigurationError(
                f"policy {config.policy} cannot learn with --model {context.model}: the embedded policy acts "
                "without a language model, the model policy with one"
            )
        opened = Environment(context)
        if not context.embedded:
            _ = opened.model
        questions, validation = _read_questions(config)
        learning = LearningContext(
            config=config,
            folder=folder,
            questions=questions,
            validation=validation,
            journal=stack.enter_context(closing(Journal(folder / phases.TRAJECTORIES, notify))),
            validated=stack.enter_context(closing(Journal(folder / phases.VALIDATED, notify))),
            learner=learner or phases.learner_for(config, context, opened.kg),
            build=build_graph,
            defaults=defaults,
            report=report,
        )
        # Stored once everything that it names could be opened.
        write_text(folder / CONFIG, json.dumps(asdict(config), indent=1, ensure_ascii=False), private=True)
        saver = open_saver(folder / CHECKPOINTS, notify)
        stack.callback(saver.conn.close)
        graph = build_self_learning(checkpointer=saver)
        begun = bool(graph.get_state(_THREAD).values)
        # No phase begins before the one before it is on disk.
        options: Any = {"context": learning, "stream_mode": "values", "durability": "sync"}
        for values in graph.stream(None if begun else {"iteration": 0}, _THREAD, **options):
            yield LearningState.model_validate(values)
        final = LearningState.model_validate(graph.get_state(_THREAD).values)
        write_json(folder / REPORT, final.model_dump(), indent=1)
        settings = {"preset": config.preset, **config.context, **final.best}
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        write_text(folder / SETTINGS, text, private=True)  # the URL of a server may hold a password
        yield final


def _stored_config(config: LearningConfig | None, folder: Path) -> LearningConfig:
    """Return the configuration to carry out. Raises `ConfigurationError` where the folder holds another."""
    path = folder / CONFIG
    if not path.is_file():
        if config is None:
            raise ConfigurationError(f"there is no run to go on with in {folder}")
        return config
    try:
        stored = LearningConfig(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"cannot read what is learned here: {error}", path) from error
    if config not in (None, stored):
        raise ConfigurationError(
            f"{folder} holds a run with other settings; go on with it by --resume, or name another folder"
        )
    return stored


def _read_questions(config: LearningConfig) -> tuple[list[Question], list[Question]]:
    """Read what to explore, and what to validate on. Raises `DataError` where a question is in both."""
    questions = read_questions(Path(config.questions))
    if not config.validation:
        return split(questions, config.share, config.seed)
    validation = read_questions(Path(config.validation))
    texts = {q.question for q in questions}
    if both := [q.question for q in validation if q.question in texts]:
        raise DataError(
            f"{len(both)} validation questions are among those to learn from, e.g. {both[0]!r}; "
            "validation needs questions that were not seen",
            config.validation,
        )
    return questions, validation
