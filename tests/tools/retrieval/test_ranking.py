"""Relation ranking: what is kept, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from triplewise.tools.kg import open_kg
from triplewise.tools.retrieval.encoder import Encoder, vectors_of
from triplewise.tools.retrieval.ranking import rank_relations

RELATIONS = [
    ("P106", "occupation"),
    ("P569", "date of birth"),
    ("P19", "place of birth"),
    ("P57", "director"),
]


class _Letters(Encoder):
    """Vectors of letter counts: an encoder whose cosines can be followed by hand."""

    def __init__(self) -> None:
        super().__init__("letters", 26)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        counts = np.array([[t.lower().count(chr(97 + i)) for i in range(26)] for t in texts], np.float32)
        return np.asarray(counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9))


def test_hybrid_uses_common_words_too() -> None:
    assert rank_relations("which director made it", RELATIONS, _Letters(), is_hybrid=True)[0] == "P57"
    symbols = [("P1", "?"), ("P2", "!")]
    assert rank_relations("which director made it", symbols, _Letters(), is_hybrid=True) == ["P1", "P2"]


@pytest.mark.parametrize("is_hybrid", [False, True])
def test_vectors_of_relations_may_come_from_a_store(
    is_hybrid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "facts.txt").write_text("a|likes|b\n")
    encoder, kg = _Letters(), open_kg(tmp_path / "facts.txt")
    kept = rank_relations("who was the director", RELATIONS, encoder, kg=kg, is_hybrid=is_hybrid)
    assert kept == rank_relations("who was the director", RELATIONS, encoder, is_hybrid=is_hybrid)
    assert vectors_of(kg, encoder).find([text for _, text in RELATIONS])[0].all()


def test_shuffling_happens_after_the_cut_and_repeats() -> None:
    relations = [(f"P{i}", "a" * i + "b") for i in range(60)]
    best = rank_relations("aaa", relations, encoder=_Letters())
    shuffled = rank_relations("aaa", relations, encoder=_Letters(), shuffle_seed=7)
    assert len(best) == 40
    assert sorted(shuffled) == sorted(best)
    assert shuffled != best
    assert shuffled == rank_relations("aaa", relations, encoder=_Letters(), shuffle_seed=7)


@given(
    st.lists(st.text("abc ", max_size=8), max_size=50),
    st.sampled_from([None, _Letters()]),
    st.integers(0, 60),
)
def test_keeps_the_right_number_once_each(texts: list[str], encoder: _Letters | None, cut: int) -> None:
    kept = rank_relations("a b", [(str(i), t) for i, t in enumerate(texts)], encoder, cut)
    assert len(kept) == len(set(kept)) == min(cut, len(texts))
    if encoder is None:
        assert kept == [str(i) for i in range(len(kept))], "the order given"
