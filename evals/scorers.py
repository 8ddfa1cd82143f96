"""Scorers and metrics of question answering over knowledge graphs, named as the field names them.

Strict by default: see `triplewise.tools.core.values` for when two values are the same. The substring matching
of Think-on-Graph's public scripts, and of work that builds on it, is there too: an answer is right if its
text contains a gold answer, or is contained in one. They report the share as "Exact Match" or "Hits@1"; it is
neither, and has a name of its own so that figures can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

from anyio import to_thread
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    grouped,
    mean,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import TaskState

from triplewise.evals.solver import ERROR_CLASSES, Run, error_class
from triplewise.tools.core.errors import KGUnavailableError
from triplewise.tools.core.overlap import NOTHING, Overlap, best_overlap, overlap, same_multiset
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.core.values import Compare, Names, normal_text, read_value, same
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.protocol import batches

SINGLE_GOLD = "single_gold"
"""Key of a sample's metadata with the one gold answer that published code takes, where it takes only one."""
GOLD_NAMES = "gold_names"
"""Key of a sample's metadata with the names that the benchmark itself has for gold ids: id -> names."""
GOLD_ROWS = "gold_rows"
"""Key of a sample's metadata with the gold rows: lists of cells, "" where one is unbound."""
UNSCORED = math.nan
"""What a figure is for a question that it is not taken of: Inspect leaves it out of averages."""
MOST_COLUMNS = 6
"""Wider results are compared in the order in which their columns stand."""
YES_NO = (["true"], ["false"])
"""Gold answers of yes/no questions."""
_SHOWN = 20
_NAMES_AT_ONCE = 500
_MOST_NAMES = 100_000


def _sum(scores: list[SampleScore]) -> float:
    return sum(score.score.as_float() for score in scores)


def _mean(scores: list[SampleScore]) -> float:
    return _sum(scores) / len(scores) if scores else math.nan


# Inspect reads the annotation of a metric's argument: no lambdas here.


@metric
def total() -> Metric:
    """The sum over questions."""

    def of(scores: list[SampleScore]) -> float:
        return _sum(scores)

    return of


@metric
def count() -> Metric:
    """The number of questions scored."""

    def of(scores: list[SampleScore]) -> int:
        return len(scores)

    return of


def _mean_where(holds: Callable[[Mapping[str, Any]], bool]) -> Metric:
    def of(scores: list[SampleScore]) -> float:
        return _mean([score for score in scores if holds(score.sample_metadata or {})])

    return of


@metric
def answerable() -> Metric:
    """The mean over the questions that the graph can answer (`answerable` of the samples' metadata)."""
    return _mean_where(lambda metadata: bool(metadata.get("answerable")))


@metric
def nontrivial() -> Metric:
    """The mean without the `trivial` questions, which a graph that knows nothing answers right ("no", 0)."""
    return _mean_where(lambda metadata: not metadata.get("trivial"))


@metric
def by_aggregation() -> Metric:
    """The mean for each function of the gold query (`aggregation` of the samples' metadata)."""
    return grouped(mean(), "aggregation", all=False)


@metric
def by_conditions() -> Metric:
    """The mean for each number of conditions of the gold query (`conditions` of the samples' metadata)."""
    return grouped(mean(), "conditions", all=False)


FIGURE = [mean(), stderr(), count(), answerable(), nontrivial()]
OVERLAP = dict.fromkeys(("f1", "hits_at_1", "exact_match", "precision", "recall"), FIGURE)
LENIENT = dict.fromkeys(("substring_hits_at_1", "substring_hits_at_1_single"), FIGURE)


def substring_figures(
    run: Run, metadata: Mapping[str, Any], gold: Sequence[str], hit: bool
) -> dict[str, float]:
    """What published code would call Hits@1 of one question: its text contains a gold answer or lies in one.

    Spaces and case are left out. As published, "Georgia" is right for "South Georgia", and "a" for nearly all
    there is. The text of an answer is all its labels in a line, as the published code takes all that a model
    put into its answer; the gold texts are the gold answers and the benchmark's names of them. A run without
    an answer is wrong, although the published code would call an empty answer right. A strict `hit` is a hit
    here too. `substring_hits_at_1_single` takes the one gold answer in `single_gold` of the metadata, as
    published figures of CWQ do; it is not scored for other questions.
    """

    def is_hit(texts: Sequence[str]) -> bool:
        text, *golds = (t.strip().replace(" ", "").lower() for t in (", ".join(run.labels), *texts))
        return not run.crashed and bool(run.labels) and any(text in gold or gold in text for gold in golds)

    texts = [*gold, *(name for names in benchmark_names(metadata).values() for name in names)]
    single = metadata.get(SINGLE_GOLD)
    return {
        "substring_hits_at_1": float(hit or is_hit(texts)),
        "substring_hits_at_1_single": float(is_hit([str(single)])) if single else UNSCORED,
    }


@scorer(metrics={**OVERLAP, **LENIENT})
def strict(compare: Compare = "ids") -> Scorer:
    """F1 of the answer set, Hits@1 and exact match, each per question, macro-averaged.

    The gold answers are the sample's target, or `gold_sets` of its metadata where several sets are right
    (the best one counts). Ids are compared with ids, and with names by their labels and aliases, which come
    from the graph and from `gold_names` of the metadata (id -> names). A question that crashed scores 0. With
    `compare` the values of answers are compared (`ids`), or their labels as texts (`names`). See also
    `substring_figures`.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, figures = state.store_as(Run), await strict_overlap(state, target, compare)
        texts = [str(value) for gold in _gold_sets(state, target) for value in gold]
        lenient = substring_figures(run, state.metadata, texts, figures.hits_at_1 == 1.0)
        return _scored(run, {**figures._asdict(), **lenient})

    return score


def _scored(run: Run, value: dict[str, Any]) -> Score:
    """Figures with the answer and how the run ended."""
    return Score(value=value, answer=shown(run.labels or run.values), explanation=run.ending)


async def strict_overlap(state: TaskState, target: Sequence[str], compare: Compare = "ids") -> Overlap:
    """How the answers of a question agree with its gold answers; nothing of a question that crashed."""
    run, gold_sets = state.store_as(Run), _gold_sets(state, target)
    if run.crashed:
        return NOTHING
    names = await names_for(state, list(dict.fromkeys(str(v) for gold in gold_sets for v in gold)), compare)
    return best_overlap(run.labels if compare == "names" else run.values, gold_sets, compare, names)


def _gold_sets(state: TaskState, target: Sequence[str]) -> Sequence[Sequence[Any]]:
    """The sets of gold answers, any of which is right."""
    return state.metadata.get("gold_sets") or [list(target)]


async def names_for(state: TaskState, gold: Collection[str], compare: Compare) -> Names:
    """Labels and aliases of the ids among answers and gold answers, where names can matter at all.

    They can where something is left over on both sides that is not an id against an id. Then the graph is
    asked once, and the names stay with the run, so that a log can be scored anew without the graph. With
    `names`, gold answers are names, and the names that come back are keyed by the answers' labels.

    Raises:
        KGUnavailableError: the graph did not answer: there is no score rather than one without aliases.
    """
    run, names = state.store_as(Run), benchmark_names(state.metadata)
    answers = run.labels if compare == "names" else run.values
    if not run.kg or not answers or overlap(answers, gold, compare, names).exact_match:
        return names
    if run.names is None:
        run.names = await to_thread.run_sync(_look_up, run, gold, compare)
    if compare == "names":
        by_label: dict[str, list[str]] = {}
        for value, label in zip(run.values, run.labels, strict=True):
            by_label.setdefault(label, []).extend(run.names.get(value, ()))
        return by_label
    ids = [text for text in (*run.values, *gold) if text in names or text in run.names]
    return {id_: [*names.get(id_, ()), *run.names.get(id_, ())] for id_ in ids}


def benchmark_names(metadata: Mapping[str, Any]) -> dict[str, list[str]]:
    """The benchmark's own names of gold ids."""
    return {str(id_): [str(n) for n in names] for id_, names in (metadata.get(GOLD_NAMES) or {}).items()}


def _look_up(run: Run, gold: Collection[str], compare: Compare) -> dict[str, list[str]]:
    """Look up the names of ids; none where they cannot change anything."""
    kg = open_kg(run.kg, profile=run.profile or None)
    if compare == "names":  # labels are there already
        return _names_of(kg, run.values) if kg.profile.alias_predicates else {}
    texts = [*run.values, *gold]
    return {} if all(_is_id(kg, text) for text in texts) else _names_of(kg, texts)


def _is_id(kg: KnowledgeGraph, text: str) -> bool:
    """Whether a text has the form of an entity's id, in a graph whose ids have a form of their own."""
    return bool(kg.profile.entity_pattern) and kg.profile.expand(text) is not None


def _names_of(kg: KnowledgeGraph, ids: Iterable[str]) -> dict[str, list[str]]:
    """Labels and aliases in the profile's language or in none; what has the form of an id may have none."""
    iris = {iri: text for text in ids if isinstance(iri := kg.profile.expand(text), IRI)}
    names: dict[str, list[str]] = {text: [] for text in iris.values() if _is_id(kg, text)}
    predicates = "|".join(f"<{p}>" for p in (*kg.profile.label_predicates, *kg.profile.alias_predicates))
    languages = ("", kg.profile.language)
    for nodes in batches(iris, _NAMES_AT_ONCE):
        values = " ".join(node.n3() for node in nodes)
        result = kg.query(
            f"SELECT DISTINCT ?node ?name WHERE {{ VALUES ?node {{ {values} }} ?node {predicates} ?name }}",
            limit=_MOST_NAMES,
        )
        if not result.outcome.ok:
            raise KGUnavailableError(
                f"names of answers could not be looked up ({result.outcome}: {result.message}); score the "
                f"log anew when {kg.name} answers"
            )
        for node, name in result.rows:
            if isinstance(node, IRI) and isinstance(name, Literal) and name.language in languages:
                names.setdefault(iris[node], []).append(name.value)
    return names


@scorer(metrics=FIGURE)
def accuracy() -> Scorer:
    """Share of yes/no questions that were answered right; other questions are not scored."""

    async def score(state: TaskState, target: Target) -> Score:
        run, gold = state.store_as(Run), list(target)
        if gold not in YES_NO:
            return Score.unscored(reason="not a yes/no question")
        return Score(value=float(is_verdict(run, gold)), answer=shown(run.values))

    return score


def is_verdict(run: Run, gold: Sequence[str]) -> bool:
    """Whether a run answers true or false, whichever the gold answer is ("yes" is true, "1" is not)."""
    return not run.crashed and len(run.values) == 1 and overlap(run.values, gold).exact_match == 1.0


@scorer(metrics={"denotation": [*FIGURE, by_aggregation(), by_conditions()], "multiset": [mean()]})
def denotation() -> Scorer:
    """Denotation accuracy: the answers are the gold answers, as sets, and as multisets.

    Numbers are compared with a tolerance, texts without case and spacing. Samples say in their metadata
    which `aggregation` and how many `conditions` the gold query has.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, gold = state.store_as(Run), list(target)
        return Score(
            value={
                "denotation": float(not run.crashed and overlap(run.values, gold).exact_match == 1.0),
                "multiset": float(not run.crashed and same_multiset(run.values, gold)),
            },
            explanation=run.sparql,
        )

    return score


@scorer(metrics=OVERLAP)
def rows() -> Scorer:
    """F1, Hits@1 and exact match of the rows of an answer, each per question, macro-averaged.

    Gold rows of one cell are compared with the answer's values as `strict` does it; wider ones with the
    result of the answer's query: all cells of a row have to be right (numbers without tolerance), in the
    order of columns that fits best. An answer without a query has no rows of several cells. A question that
    crashed scores 0.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, gold = state.store_as(Run), state.metadata.get(GOLD_ROWS) or []
        if all(len(row) < 2 for row in gold):
            figures = await strict_overlap(state, target)
        else:
            figures = compare_rows([] if run.crashed else await to_thread.run_sync(rows_of, run), gold)
        return _scored(run, figures._asdict())

    return score


def rows_of(run: Run) -> list[list[str]]:
    """The rows that a run's query gives on the graph that was asked; none without query or graph."""
    if not run.sparql or not run.kg or not run.values:
        return []
    kg = open_kg(run.kg, profile=run.profile or None)
    result = kg.query(run.sparql)
    return [["" if value is None else kg.profile.short(value) for value in row] for row in result.rows]


def compare_rows(given: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Overlap:
    """Return how rows agree with gold rows, as sets, in the order of columns that fits best."""

    def key(row: Sequence[str]) -> str:  # the same for cells that are written differently but are the same
        return "\x1f".join(read_value(cell).key if cell else "" for cell in row)

    width = max((len(row) for row in given), default=0)
    orders: Any = permutations(range(width)) if width <= MOST_COLUMNS else [tuple(range(width))]
    gold_keys = [key(row) for row in gold]
    overlaps = (overlap([key([row[i] for i in order]) for row in given], gold_keys) for order in orders)
    return max(overlaps, default=NOTHING, key=lambda o: o.f1)


def shown(values: Sequence[str]) -> str:
    """The first answers in one line."""
    more = len(values) - _SHOWN
    return "; ".join(values[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


@scorer(metrics={"hits_at_1": FIGURE, **LENIENT})
def slot() -> Scorer:
    """Hits@1 of slot filling: is the first value one of the accepted ones (the answer and its aliases)?

    Names are compared strictly (case, spacing and Unicode composition apart), also the graph's other names of
    the answer; dates and numbers by value. A question that crashed scores 0. `substring_hits_at_1` is what
    published code would call Hits@1.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, right = state.store_as(Run), False
        if not run.crashed and run.values:
            names = await names_for(state, list(target), "names")
            first = (run.values[0], run.labels[0])
            right = is_accepted(first, list(target), names.get(first[1], ()))
        lenient = substring_figures(run, state.metadata, list(target), right)
        return _scored(run, {"hits_at_1": float(right), **lenient})

    return score


def is_accepted(answer: tuple[str, str], accepted: Sequence[str], aliases: Collection[str] = ()) -> bool:
    """Whether an answer (value, label) is one of the accepted texts: by a name, or that date or number."""
    value, label = answer
    given = read_value(value)
    dated = given.number is not None or given.date
    names = {normal_text(name) for name in (label, *aliases)}
    return any(normal_text(text) in names or (dated and same(given, read_value(text))) for text in accepted)


@scorer(metrics={"accuracy": FIGURE, "proven_accuracy": FIGURE, "proven": [mean()], "majority": [mean()]})
def verdict() -> Scorer:
    """Accuracy of fact checking. What is neither true nor false is wrong, and so is a claim that crashed.

    `proven` is the share of the claims for which facts of the graph were given, `proven_accuracy` that of
    these that were judged right. `majority` is the accuracy of always giving the set's commoner verdict.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        right = float(is_verdict(run, list(target)))
        value = {
            "accuracy": right,
            "proven_accuracy": right if run.proof else UNSCORED,
            "proven": float(run.proof > 0),
            "majority": float([state.metadata.get("majority")] == list(target)),
        }
        return _scored(run, value)

    return score


MAIN = ("denotation", "f1", "accuracy", "hits_at_1", "exact_match")
"""The first of these that was scored says whether an answer is right, and is a task's main measure."""
COUNTS = (
    "seconds", "queries", "steps", "model_calls", "input_tokens", "output_tokens", "rolled_back",
    "hallucinated",
)  # fmt: skip
"""Attributes of a run that are figures as they are."""
MEANS = (*COUNTS, "corrections", "notes", "not_found", "budget_spent")
TOTALS = ("corrected", "corrected_right", "crashed", *(f"error_{name}" for name in ERROR_CLASSES))


@scorer(metrics={**{m: [mean()] for m in MEANS}, "cost": [mean(), total()], **{t: [total()] for t in TOTALS}})
def effort() -> Scorer:
    """What a question cost, how it ended, and of which kind its error was; goes behind the other scorers.

    `seconds`, `queries` and `cost` are TPQ, QPQ and CPQ of QueryAgent's table 4: wall-clock seconds, queries
    that reached the graph, and USD for model calls at list price (not scored for a model without a known
    price), each per question. `corrected` counts questions with a correction, `corrected_right` those of
    them that were answered right. Errors are classed as in SymAgent's table 5 (`error_class`, also in the
    score's metadata). Right is what the scorers before this one give 1.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, main = state.store_as(Run), main_figure(state.scores or {})
        error = error_class(run, main)
        value = {
            **{name: getattr(run, name) for name in COUNTS},
            "cost": UNSCORED if run.cost is None else run.cost,
            "corrections": len(run.corrections),
            "corrected": float(bool(run.corrections)),
            "corrected_right": float(bool(run.corrections) and main == 1.0),
            "notes": len(run.notes),
            **{status: float(run.status == status) for status in ("not_found", "budget_spent", "crashed")},
            **{f"error_{name}": float(error == name) for name in ERROR_CLASSES},
        }
        return Score(value=value, metadata={"error_class": error})

    return score


def figures_of(scores: Mapping[str, Score]) -> dict[str, float]:
    """Return the scores of a question by figure; of two with one name the first, without those not scored."""
    figures: dict[str, float] = {}
    for scorer_name, score in scores.items():
        value = score.value if isinstance(score.value, Mapping) else {plain_name(scorer_name): score.value}
        for name, figure in value.items():
            if isinstance(figure, int | float) and not math.isnan(figure):
                figures.setdefault(name, float(figure))
    return figures


def main_figure(scores: Mapping[str, Score]) -> float:
    """The figure that decides whether a question was answered right, 0 to 1; 0 without one."""
    figures = figures_of(scores)
    return next((figures[name] for name in MAIN if name in figures), 0.0)


def plain_name(name: str) -> str:
    """Return the name of a task or scorer without the package that Inspect puts before it."""
    return name.rpartition("/")[2]
