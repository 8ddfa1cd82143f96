"""A run of self-learning in a folder: begun, watched, and gone on with after a kill.

The folder holds `learn.json` (the order), `trajectories.jsonl` (explored and refined ones), `validated.jsonl`
(attempts at validation questions), `training-N.jsonl` (what iteration N trained on), `policy-N-*` (what came
of it), `checkpoints.sqlite` (the state of the graph) and, in the end, `report.json` and `settings.yaml`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from langchain_core.runnables import RunnableConfig

from triplewise.graphs.build import build_graph
from triplewise.graphs.cli.runs import lock_file, open_saver
from triplewise.graphs.presets import find_preset
from triplewise.graphs.self_learning import build_self_learning
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.learning.course import TRAJECTORIES, VALIDATED, Course, Learning, Order, Progress
from triplewise.nodes.learning.learners import learner_of
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.learning.journal import Journal
from triplewise.tools.learning.policies import Learner
from triplewise.tools.learning.questions import Question, read_questions, split

ORDER, CHECKPOINTS, REPORT, SETTINGS = "learn.json", "checkpoints.sqlite", "report.json", "settings.yaml"
_THREAD: RunnableConfig = {"configurable": {"thread_id": "learn"}}

Tell = Callable[[Progress], object]
Notify = Callable[[str], None]


def learn(
    order: Order | None,
    folder: Path,
    *,
    learner: Learner | None = None,
    tell: Tell = lambda progress: None,
    notify: Notify = lambda message: None,
) -> Iterator[Learning]:
    """Run self-learning, or go on with it: the state after each phase as it happens, and the final one.

    Args:
        order: what to learn; None goes on with what the folder holds.
        folder: where everything is kept.
        learner: what updates the policy, instead of the policy's own.
        tell: is told how far a phase is. notify: is told, in words, what a person should know.

    Raises:
        ConfigurationError: an order that cannot work, or a folder that holds another one.
        DataError: a file that cannot be read. RunError: a service failed; the run can be gone on with.
    """
    with ExitStack() as stack:
        stack.enter_context(_held(folder))
        order = _ordered(order, folder)
        course = stack.enter_context(_course(order, folder, learner, tell, notify))
        _keep(order, folder)
        saver = open_saver(folder / CHECKPOINTS, notify)
        stack.callback(saver.conn.close)
        graph = build_self_learning(checkpointer=saver)
        begun = bool(graph.get_state(_THREAD).values)
        for values in graph.stream(
            None if begun else {"iteration": 0},
            _THREAD,
            context=course,
            stream_mode="values",
            # No phase begins before the one before it is on disk.
            durability="sync",
        ):
            yield Learning.model_validate(values)
        final = Learning.model_validate(graph.get_state(_THREAD).values)
        _conclude(final, course)
        yield final


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder. Raises `ConfigurationError` if another process learns in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+", encoding="utf-8") as file:
        if not lock_file(file):
            raise ConfigurationError(f"another process is learning in {folder}; wait for it to end")
        yield


def _ordered(order: Order | None, folder: Path) -> Order:
    """The order to carry out, given or kept. Raises `ConfigurationError` on a mix-up of two."""
    path = folder / ORDER
    kept = read_order(folder) if path.is_file() else None
    if order is None and kept is None:
        raise ConfigurationError(f"there is no run to go on with in {folder}")
    if order is not None and kept is not None and order != kept:
        raise ConfigurationError(
            f"{folder} holds a run with other settings; go on with it by --resume, or name another folder"
        )
    found = kept or order
    assert found is not None, "one of the two is there"
    return found


def _keep(order: Order, folder: Path) -> None:
    """Keep an order in its folder, once everything that it names could be opened."""
    path = folder / ORDER
    _write(path, json.dumps(order.json(), indent=1, ensure_ascii=False))


def _write(path: Path, text: str) -> None:
    """Write a file, complete or not at all, for its owner only: the URL of a server may hold a password."""
    beside = path.with_suffix(".part")
    beside.touch(mode=0o600)
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def read_order(folder: Path) -> Order:
    """The order that a folder holds. Raises `DataError` if it cannot be read."""
    path = folder / ORDER
    try:
        return Order(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"cannot read what is learned here: {error}", path) from error


@contextmanager
def _course(
    order: Order, folder: Path, learner: Learner | None, tell: Tell, notify: Notify
) -> Iterator[Course]:
    """Everything a run needs, opened at once to fail early."""
    defaults = find_preset(order.preset).settings
    context = Context(**order.context).resolved(defaults)
    if context.embedded != (order.policy == "embedded"):
        raise ConfigurationError(
            f"policy {order.policy} cannot learn with --model {context.model}: the embedded policy acts "
            "without a language model, the model policy with one"
        )
    kg = environment(context).kg
    if not context.embedded:
        _ = environment(context).model
    questions, validation = _questions(order)
    journal = Journal(folder / TRAJECTORIES, notify)
    validated = Journal(folder / VALIDATED, notify)
    try:
        yield Course(
            order=order,
            folder=folder,
            questions=questions,
            validation=validation,
            journal=journal,
            validated=validated,
            learner=learner or learner_of(order, context, kg),
            build=build_graph,
            defaults=defaults,
            tell=tell,
        )
    finally:
        journal.close()
        validated.close()


def _questions(order: Order) -> tuple[list[Question], list[Question]]:
    """What to explore, and what to validate on. Raises `DataError` where a question is in both."""
    questions = read_questions(Path(order.questions))
    if not order.validation:
        return split(questions, order.share, order.seed)
    validation = read_questions(Path(order.validation))
    asked = {q.question for q in questions}
    if both := [q for q in validation if q.question in asked]:
        raise DataError(
            f"{len(both)} validation questions are among those to learn from, e.g. {both[0].question!r}; "
            "validation needs questions that were not seen",
            order.validation,
        )
    return questions, validation


def _conclude(state: Learning, course: Course) -> None:
    """Write the report, and the settings of the best policy for `triplewise ask --config`."""
    report = json.dumps(state.model_dump(), indent=1, ensure_ascii=False)
    _write(course.folder / REPORT, report)
    settings = {"preset": course.order.preset, **course.order.context, **state.best}
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    _write(course.folder / SETTINGS, text)
