"""`python -m triplewise.evals.learning`: does the embedded policy learn? (SymAgent 4.3, without a model.)

Training questions are explored, refined and merged, the encoder is trained on what came of it, and the agent
is asked test questions before and after. All of it is kept in a folder: a killed run goes on where it was,
and runs of other seeds can share the folder.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.learning_data import NAMES, Name, Tested, TestSet, test_set, training_questions
from triplewise.evals.values import best_overlap
from triplewise.graphs import Context, build_graph
from triplewise.tools.core.errors import ConfigurationError, TriplewiseError
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.learning.embedded_policy import Explorer
from triplewise.tools.learning.embedded_training import train_encoder
from triplewise.tools.learning.journal import Journal, write_trajectories
from triplewise.tools.learning.merge import merge, rewarded
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.reward import Reward
from triplewise.tools.learning.trajectory import Trajectory
from triplewise.tools.planning.bodies import answers, without_topic
from triplewise.tools.planning.mining import Caps, Miner
from triplewise.tools.planning.seeds import Seed
from triplewise.tools.retrieval.encoder import EMBEDDED, open_encoder

HOPS = 2
"""Longest rule body: WebQuestionsSP needs no more (SymAgent, table 2). The same before and after."""
RECIPES = ("full", "no-refine", "no-merge")
GRAPHS = {"without": False, "with": True}
"""Whether the graph holds the facts that were made from gold answers of test questions."""

Tell = Callable[[str], None]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. `train`, `test`: questions drawn, 0 for all. `recipe`: see table 4 of the paper."""

    name: Name
    folder: Path
    train: int = 0
    test: int = 0
    iterations: int = 2
    recipe: str = "full"

    def path(self, *parts: str) -> Path:
        """A place in the folder."""
        return self.folder.joinpath(self.name, *parts)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Means over test questions, in [0, 1].

    Attributes:
        encoder: of the agent. graph: `with` or `without` the facts made from gold answers. questions: asked.
        accuracy: the first rule is as good as the best path. f1, hits: of the agent's answers.
        first: F1 of the first rule's answers. reachable: a path leads to an answer. seconds: a question.
    """

    encoder: str
    graph: str
    questions: int
    accuracy: float
    f1: float
    hits: float
    first: float
    reachable: float
    seconds: float


def measured(plan: Plan, seeds: Sequence[int], tell: Tell) -> list[dict[str, Any]]:
    """Outcomes before learning and after each iteration, for each seed and graph; what is done is kept."""
    found = [_kept(plan, "before", 0, 0, EMBEDDED, graph, tell) for graph in GRAPHS]
    for seed in seeds:
        encoder = EMBEDDED
        for iteration in range(1, plan.iterations + 1):
            encoder = learned(plan, seed, iteration, encoder, tell)
            found += [_kept(plan, plan.recipe, seed, iteration, encoder, g, tell) for g in GRAPHS]
    return found


def _kept(
    plan: Plan, what: str, seed: int, iteration: int, encoder: str, graph: str, tell: Tell
) -> dict[str, Any]:
    """One outcome, from the folder or measured now."""
    path = plan.path(f"{what}-{seed}-{iteration}-{graph}-{plan.test}.json")
    if not path.is_file():
        tested = test_set(plan.name, GRAPHS[graph])
        outcome = score(tested, plan.test, encoder, plan.path(f"best-{graph}.json"), graph, tell)
        about = {"benchmark": plan.name, "recipe": what, "seed": seed, "iteration": iteration}
        _write(path, {**about, **asdict(outcome)})
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    tell(f"{path.stem}: accuracy {record['accuracy']:.3f}, F1 {record['f1']:.3f}")
    return record


def _write(path: Path, record: Any) -> None:
    """Write JSON so that it is there complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(record, indent=1), encoding="utf-8")
    beside.replace(path)


def learned(plan: Plan, seed: int, iteration: int, encoder: str, tell: Tell) -> str:
    """The encoder after an iteration of exploring with `encoder` and training it (SymAgent 4.3)."""
    name = f"{plan.recipe}-{seed}-{iteration}"
    into = plan.path(name)
    if into.is_dir():
        return str(into)
    kg = _training_graph(plan.name)
    trajectories = training_set(plan, kg, seed, iteration, encoder, tell)
    write_trajectories(plan.path(f"{name}.jsonl"), trajectories)
    tell(f"{name}: {len(trajectories)} trajectories")
    start = time.perf_counter()
    found = train_encoder(
        trajectories, into, base=encoder, kg=kg, seed=seed,
        progress=lambda what, done, total: tell(f"{name}: {what}") if what != "training" else None,
    )  # fmt: skip
    tell(f"{name}: trained in {time.perf_counter() - start:.0f} s")
    return found


def _training_graph(name: Name) -> KnowledgeGraph:
    """The graph that is learned on: without facts made from gold answers, whichever graph is tested."""
    tested = test_set(name, gold_derived=False)
    return open_kg(tested.kg, profile=tested.profile)


def training_set(
    plan: Plan, kg: KnowledgeGraph, seed: int, iteration: int, encoder: str, tell: Tell
) -> list[Trajectory]:
    """Explored and refined trajectories, merged (equation 7), or an ablation of it (table 4)."""
    questions = training_questions(plan.name, kg)
    random.Random(0).shuffle(questions)
    questions = questions[: plan.train or None]
    explored, refined = _attempts(plan, kg, questions, seed, iteration, encoder, tell)
    if plan.recipe == "no-refine":
        return rewarded(explored.values())
    if plan.recipe == "no-merge":
        return rewarded(refined.values())
    return merge(explored, refined)


_rewards: dict[tuple[str, str], Reward] = {}


def _attempts(
    plan: Plan,
    kg: KnowledgeGraph,
    questions: Sequence[Question],
    seed: int,
    iteration: int,
    encoder: str,
    tell: Tell,
) -> tuple[dict[str, Trajectory], dict[str, Trajectory]]:
    """Explored and refined trajectories of the questions; those in the journal are not made again."""
    # The first iteration explores with the same encoder whatever the seed.
    whose = f"{plan.recipe}-{seed}-{iteration}" if encoder != EMBEDDED else "all-0-1"
    explorer = Explorer(kg, open_encoder(encoder), iteration=iteration, rewards=_rewards)
    journal = Journal(plan.path(f"journal-{whose}.jsonl"))
    for number, question in enumerate(questions):
        if (iteration, "refined", question.id) in journal:
            continue
        explored = explorer.explore(question)
        if (iteration, "explored", question.id) not in journal:
            journal.append(explored)
        journal.append(explorer.refine(question, explored))
        if number % 50 == 0:
            tell(f"{whose}: {number} of {len(questions)} questions explored")
    asked = {q.id for q in questions}
    kept = [
        {i: t for i, t in journal.of(iteration, o).items() if i in asked} for o in ("explored", "refined")
    ]
    journal.close()
    return kept[0], kept[1]


def score(
    tested: TestSet, count: int, encoder: str, best: Path, graph: str, tell: Tell, **more: Any
) -> Outcome:
    """Ask the agent test questions; `best`: file that keeps how good the best path of each question is."""
    kg = open_kg(tested.kg, profile=tested.profile)
    context = Context(kg=tested.kg, profile=tested.profile, encoder=encoder, plan_hops=HOPS, **more)
    agent = build_graph("agent", link="given", checkpointer=False)
    asked = tested.questions[: count or None]
    ceiling = best_paths(kg, asked, best)
    rows, start = [], time.perf_counter()
    for number, question in enumerate(asked):
        given = {"question": question.question.question, "entities": dict(question.question.entities)}
        state = agent.invoke(given, context=context)
        rows.append(_judged(kg, question, state, ceiling[question.question.id]))
        if number % 50 == 0:
            tell(f"{graph}: {number} of {len(asked)} questions asked")
    accuracy, f1, hits, first, reachable = map(statistics.fmean, zip(*rows, strict=True))
    seconds = (time.perf_counter() - start) / len(asked)
    return Outcome(encoder, graph, len(asked), accuracy, f1, hits, first, reachable, seconds)


def _judged(kg: KnowledgeGraph, asked: Tested, state: dict[str, Any], best: float) -> Iterator[float]:
    """Accuracy of the first rule, F1, Hits@1, F1 of the first rule, and whether there is a path at all."""
    first = rule_f1(kg, state["rules"][0], asked) if state["rules"] else 0.0
    found = best_overlap(state["answer"].values, asked.gold_sets)
    yield from (float(first > 0 and first >= best - 1e-6), found.f1, found.hits_at_1, first, float(best > 0))


def rule_f1(kg: KnowledgeGraph, rule: Rule, asked: Tested) -> float:
    """F1 of the answers of a rule."""
    short = kg.profile.short
    found = answers(kg, without_topic(kg, rule))
    values = [short(v) if isinstance(v, IRI) else str(getattr(v, "value", v)) for v in found]
    return best_overlap(values, asked.gold_sets).f1


def best_paths(kg: KnowledgeGraph, asked: Sequence[Tested], kept: Path) -> dict[str, float]:
    """F1 of the best closed path of each question, 0 where no path leads to an answer."""
    known: dict[str, float] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    miner = Miner(kg, Caps(hops=HOPS))
    for one in asked:
        if one.question.id not in known:
            seeds = [
                Seed(one.question.question, (i,), gold)
                for i in one.question.entities.values() if i for gold in one.gold_sets[:2]
            ]  # fmt: skip
            qualities = [q.f1 for s in seeds for q in miner.of_seed(s).values()]
            known[one.question.id] = max(qualities, default=0.0)
    _write(kept, known)
    return known


def table(records: Sequence[dict[str, Any]]) -> Table:
    """Mean and spread over seeds of each benchmark, graph and iteration."""
    shown = Table(title="Self-learning of the embedded policy: mean (standard deviation) over seeds")
    for heading in (
        "benchmark",
        "graph",
        "recipe",
        "iteration",
        "seeds",
        "questions",
        "accuracy",
        "F1",
        "Hits@1",
    ):
        shown.add_column(heading)
    keys = ("benchmark", "graph", "recipe", "iteration")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(tuple(record[k] for k in keys), []).append(record)
    for key, group in sorted(groups.items(), key=lambda x: (x[0][0], x[0][1], x[0][3], x[0][2])):
        cells = (_spread([r[field] for r in group]) for field in ("accuracy", "f1", "hits"))
        shown.add_row(*map(str, key), str(len(group)), str(group[0]["questions"]), *cells)
    return shown


def _spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    spread = f" ({statistics.stdev(values):.3f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


@app.command()
def main(
    folder: Annotated[Path, typer.Argument(help="Where everything is kept; a killed run goes on.")],
    benchmark: Annotated[list[str] | None, typer.Option(help="webqsp, wikiwebquestions.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seeds of the training.")] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of self-learning.")] = 2,
    train: Annotated[int, typer.Option(min=0, help="Training questions drawn; 0 for all.")] = 0,
    test: Annotated[int, typer.Option(min=0, help="Test questions drawn; 0 for all.")] = 0,
    recipe: Annotated[str, typer.Option(help="full, no-refine, no-merge (SymAgent, table 4).")] = "full",
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Accuracy of relation choice and F1 on test questions before and after self-learning, per seed."""
    console = Console(stderr=True)
    try:
        if recipe not in RECIPES:
            raise ConfigurationError.unknown("recipe", recipe, RECIPES)
        records: list[dict[str, Any]] = []
        for name in benchmark or NAMES:
            if name not in NAMES:
                raise ConfigurationError.unknown("benchmark", name, NAMES)
            plan = Plan(name, folder, train, test, iterations, recipe)
            records += measured(plan, seed or [0, 1, 2], lambda text: console.print(text, highlight=False))
    except TriplewiseError as error:
        console.print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps(records, indent=1))
    else:
        Console().print(table(records))


if __name__ == "__main__":
    app()
