"""What graphs call the ids among answers and gold answers, for comparing ids with names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from anyio import to_thread
from inspect_ai.solver import TaskState

from triplewise.evals.solver import Run
from triplewise.tools.core.errors import KGUnavailableError
from triplewise.tools.core.overlap import overlap
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.core.values import Compare, Names
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.profile import Profile

GOLD_NAMES = "gold_names"
"""Key of a sample's metadata with the names that the benchmark itself has for gold ids: id -> names."""

BATCH = 500
"""Ids whose names are asked for at once."""
_ROWS = 100_000


async def names_for(state: TaskState, gold: Collection[str], compare: Compare) -> Names:
    """Labels and aliases of the ids among answers and gold answers, where names can matter at all.

    They can where something is left over on both sides that is not an id against an id. Then the graph is
    asked once (for up to `BATCH` ids; the benchmark's own names are taken besides), and the names stay with
    the run, so that a log can be scored anew without the graph.

    Args:
        state: has the run and the benchmark's names. gold: all gold answers. compare: with `names`, gold
            answers are names, and the names that come back are keyed by the answers' labels.

    Raises:
        KGUnavailableError: the graph did not answer: there is no score rather than one without aliases.
    """
    run, names = state.store_as(Run), benchmark_names(state.metadata)
    answers = run.labels if compare == "names" else run.values
    if not run.kg or not answers or overlap(answers, gold, compare, names).exact_match:
        return names
    if run.names is None:
        run.names = await to_thread.run_sync(_look_up, run, gold, compare)
    if compare == "names":  # keyed by the labels of the answers
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
        return names_of(kg, run.values) if kg.profile.alias_predicates else {}
    if all(is_id(kg.profile, text) for text in (*run.values, *gold)):
        return {}
    return names_of(kg, [*run.values, *gold])


def is_id(profile: Profile, text: str) -> bool:
    """Whether a text has the form of an entity's id, in a graph whose ids have a form of their own."""
    return bool(profile.entity_pattern) and profile.expand(text) is not None


def names_of(kg: KnowledgeGraph, ids: Iterable[str]) -> dict[str, list[str]]:
    """Labels and aliases of short ids, in the profile's language or in none, `BATCH` ids a query.

    What has the form of an id is in it, also without a name; so is any other text that the graph has names
    for.

    Raises:
        KGUnavailableError: a query did not end well.
    """
    iris = {iri: text for text in ids if isinstance(iri := kg.profile.expand(text), IRI)}
    names: dict[str, list[str]] = {text: [] for text in iris.values() if is_id(kg.profile, text)}
    predicates = "|".join(f"<{p}>" for p in (*kg.profile.label_predicates, *kg.profile.alias_predicates))
    nodes = list(iris)
    for at in range(0, len(nodes), BATCH):
        values = " ".join(node.n3() for node in nodes[at : at + BATCH])
        result = kg.query(
            f"SELECT DISTINCT ?node ?name WHERE {{ VALUES ?node {{ {values} }} ?node {predicates} ?name }}",
            limit=_ROWS,
        )
        if not result.outcome.ok:
            raise KGUnavailableError(
                f"names of answers could not be looked up ({result.outcome}: {result.message}); score the "
                f"log anew when {kg.name} answers"
            )
        for node, name in result.rows:
            if (
                isinstance(node, IRI)
                and isinstance(name, Literal)
                and name.language in ("", kg.profile.language)
            ):
                names.setdefault(iris[node], []).append(name.value)
    return names
