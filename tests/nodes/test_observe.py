"""Observation: D turns of update and refine (ODA, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from langgraph.runtime import Runtime

from triplewise.graphs import Context, State
from triplewise.nodes.environment import Update
from triplewise.nodes.observe import VARIANTS, none, oda

from .conftest import FANG, WILD

AUTHOR = "Who is the author of The Call of the Wild?"


def last_parts(values: Iterable[Any]) -> set[str]:
    return {v.value.rsplit("/", 1)[1] for v in values}


def ends(update: Update) -> set[str]:
    """Short ids of all nodes observed."""
    return last_parts(n for s in update["observation"] for n in (s.triple.subject, s.triple.object))


def relations(update: Update) -> set[str]:
    return last_parts(s.triple.relation for s in update["observation"])


def test_each_turn_looks_from_the_best_tails(context: Context, state: Callable[..., State]) -> None:
    near = oda(state(WILD, question=AUTHOR), Runtime(context=replace(context, observe_depth=1)))
    far = oda(state(WILD, question=AUTHOR), Runtime(context=replace(context, observe_depth=2)))
    assert FANG not in ends(near), "the author's other work is two hops away"
    assert FANG in ends(far)
    # P = 10 % of six triples is one, the author: the second turn does not look from the settings.
    assert {"P840", "P50", "P800", "P27"} == relations(far)


def test_the_best_n_triples_are_kept(context: Context, state: Callable[..., State]) -> None:
    narrow = Runtime(context=replace(context, observe_width=1, observe_depth=1))
    assert relations(oda(state(WILD, question=AUTHOR), narrow)) == {"P50"}
    wide = oda(state(WILD, question=AUTHOR), Runtime(context=context))["observation"]
    scores = [s.score for s in wide]
    assert scores == sorted(scores, reverse=True)
    assert len({s.triple for s in wide}) == len(wide)


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_to_observe_is_no_error(
    variant: str, runtime: Runtime[Context], state: Callable[..., State]
) -> None:
    for focus in ((), ("Q99999999",), ('"1.0"^^xsd:float',)):
        update = VARIANTS[variant](state(focus=focus), runtime)
        assert update == {"observation": (), "observation_cuts": (), "observed": focus}
    assert none(state(WILD), runtime)["observation"] == ()
