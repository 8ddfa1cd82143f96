from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from triplewise.tools.kg.labels import Candidate, Entry, LabelIndex, Name, build_label_index

E = "http://e.example/"
NAMES = [
    Name(E + "hanks", "Tom Hanks", popularity=36),
    Name(E + "tag", "tom hanks", popularity=2),
    Name(E + "dollar", "$"),
    Name(E + "amelie", "Amélie", popularity=5, description="a film"),
    Name(E + "ocean", "Ocean's Eleven"),
    Name(E + "london", "Jack London"),
    Name(E + "city", "London", popularity=90),
    Name(E + "goethe", "Johann Wolfgang von Goethe"),
    Name(E + "goethe", "J. W. Goethe", alias=True),
    Name(E + "goethe", "Amélie", alias=True),
    Name(E + "up", "Up"),
]


@pytest.fixture(params=["memory", "disk"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> LabelIndex:
    if request.param == "memory":
        return LabelIndex.in_memory(lambda: NAMES)
    build_label_index(tmp_path, NAMES, print)
    return LabelIndex.on_disk(tmp_path)


def ids(found: Iterable[Entry | Candidate]) -> list[str]:
    return [item.iri.value.removeprefix(E) for item in found]


def test_exact_folds_case_accents_and_punctuation(index: LabelIndex) -> None:
    assert ids(index.exact("TOM HANKS")) == ["hanks", "tag"]
    assert ids(index.exact("oceans eleven")) == ["ocean"]
    assert ids(index.exact("$")) == ["dollar"]
    assert index.exact("") == ()


def test_labels_come_before_aliases_with_description_and_popularity(index: LabelIndex) -> None:
    first, second = index.exact("amelie")
    assert (first.label, first.popularity, first.description, first.alias) == ("Amélie", 5, "a film", False)
    assert (second.label, second.text, second.alias) == ("Johann Wolfgang von Goethe", "Amélie", True)


def test_the_cascade_says_how_it_found(index: LabelIndex) -> None:
    kinds = {
        text: index.search(text)[0] for text in ("Tom Hanks", "J W Goethe", "Tom Hnaks", "Oceans Elevne")
    }
    assert [c.kind for c in kinds.values()] == ["exact", "alias", "fuzzy", "fuzzy"]
    assert ids(kinds.values()) == ["hanks", "goethe", "hanks", "ocean"]
    assert kinds["Tom Hanks"].score > kinds["J W Goethe"].score > kinds["Tom Hnaks"].score > 0.7
    assert index.search("zzzzzz") == ()


def test_only_the_beginning_of_a_text_without_end_is_looked_up(
    index: LabelIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.search("z")  # opens it
    names: Any = index._names[0]
    read = list[int]()
    fuzzy = names._fuzzy

    def spy(word: str, edits: int) -> object:
        read.append(len(word))
        return fuzzy(word, edits)

    monkeypatch.setattr(names, "_fuzzy", spy)
    assert index.search("z" * 200_000) == ()
    assert max(read) <= 200


def test_runs_of_letters_find_what_no_single_edit_reaches(tmp_path: Path) -> None:
    build_label_index(tmp_path, [Name(E + "x", "Nebuchadnezzar")], print)
    found = LabelIndex.on_disk(tmp_path).search("nebukanedzar")
    assert [c.kind for c in found] == ["fuzzy"]
    assert ids(LabelIndex.on_disk(tmp_path).search("nebu chadnezzar")) == ["x"]


def test_longer_names_by_popularity(index: LabelIndex) -> None:
    assert ids(index.longer("Goethe")) == ["goethe"]
    assert ids(index.longer("London")) == ["london"]


def test_spans_finds_all_names_longest_first(index: LabelIndex) -> None:
    question = "Did Tom Hanks see Ocean's Eleven in London, for $?"
    found = index.spans(question, lambda span: True)
    assert [m.span.text for m in found] == ["Tom Hanks", "Ocean's Eleven", "London"]
    assert all(question[m.span.start : m.span.end] == m.span.text for m in found)
    assert ids(index.spans("who stars in $", lambda span: True)[0].entries) == ["dollar"]
    assert [m.span.text for m in index.spans("London's mayor", lambda span: True)] == ["London"]


def test_node_gives_the_preferred_label(index: LabelIndex) -> None:
    from triplewise.tools.core.terms import IRI

    entry = index.node(IRI(E + "goethe"))
    assert entry is not None
    assert entry.label == "Johann Wolfgang von Goethe"
    assert index.node(IRI(E + "nobody")) is None


def test_many_threads_may_ask(index: LabelIndex) -> None:
    ask: Callable[[int], list[str]] = lambda i: ids(index.search("Tom Hnaks"))  # noqa: E731
    with ThreadPoolExecutor(8) as pool:
        assert len({tuple(found) for found in pool.map(ask, range(40))}) == 1
    index.close()
    index.close()
