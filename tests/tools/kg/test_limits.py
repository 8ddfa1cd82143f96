"""Files that would end the process of the parser: refused before it gets them, while all others are read."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from triplewise.tools.core import files
from triplewise.tools.core.errors import DataError
from triplewise.tools.kg import limits
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.rdf import GraphReader

E = "http://e.example/"
NAMESPACES = f'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="{E}"'
XSD = "http://www.w3.org/2001/XMLSchema#"
QUICK = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path: Path, content: str | bytes) -> list[ox.Quad]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(GraphReader().facts([path], None))


def xml(dtd: str, text: str, attribute: str = "") -> str:
    node = f'<rdf:Description rdf:about="{E}a" e:q="{attribute}"><e:p>{text}</e:p></rdf:Description>'
    return f"<!DOCTYPE rdf:RDF [{dtd}]>\n<rdf:RDF {NAMESPACES}>{node}</rdf:RDF>"


def test_entities_that_abbreviate_are_read(tmp_path: Path) -> None:
    dtd = f'<!ENTITY xsd "{XSD}" >\n<!ENTITY int "&xsd;integer">'
    fact = f'<rdf:Description rdf:about="{E}a"><e:p rdf:datatype="&int;">5</e:p></rdf:Description>'
    graph = f"<!DOCTYPE rdf:RDF [{dtd}]><rdf:RDF {NAMESPACES}>{fact * 5_000}</rdf:RDF>"
    facts = read(tmp_path / "a.owl", graph)
    assert len(facts) == 5_000
    assert {str(quad.object) for quad in facts} == {f'"5"^^<{XSD}integer>'}


def test_no_entities_stand_for_much_more_than_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EXPANDED", most := 2_000)
    refused = []

    @QUICK
    @given(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 30)), max_size=6),
        st.integers(0, 200),
        st.booleans(),
    )
    def check(declared: list[tuple[str, int, int]], used: int, in_attribute: bool) -> None:
        last, dtd = "", ""
        for name, letters, times in declared:  # one may be declared twice, and stand for what it stood for
            dtd += f'<!ENTITY {name} "{"x" * letters}{last * times}">'
            last = f"&{name};"
        text = last * used
        content = xml(dtd, "" if in_attribute else text, text if in_attribute else "")
        try:
            facts = read(tmp_path / "bomb.rdf", content)
        except DataError as error:
            refused.append("bomb.rdf: its entities stand for far more text" in str(error))
        else:
            stood_for = max((len(quad.object.value) for quad in facts), default=0)  # type: ignore[union-attr]
            assert stood_for <= most + limits.GROWTH * len(content)

    check()
    assert refused
    assert all(refused)


@pytest.mark.parametrize("used", ["&z;", ""])
def test_a_billion_laughs_are_refused_at_once(tmp_path: Path, used: str) -> None:
    names = "abcdefghijklmnopqrstuvwxyz"
    dtd = '<!ENTITY a "laugh">' + "".join(f'<!ENTITY {n} "{f"&{m};" * 10}">' for m, n in pairwise(names))
    with pytest.raises(DataError, match=r"a\.rdf: its entities stand for far more text than it holds"):
        read(tmp_path / "a.rdf", xml(dtd, used))


VALUES: Any = st.recursive(
    st.text('a"\\[]{}\n', max_size=6) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\[', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def depth(value: Any) -> int:
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


@given(VALUES, st.lists(st.integers(1, 9), min_size=1), st.booleans())
def test_json_is_refused_by_its_depth_alone(value: Any, sizes: list[int], ascii_: bool) -> None:
    """Whatever stands in its strings, and wherever what is read at a time ends."""
    text = json.dumps(value, ensure_ascii=ascii_)
    limited = limits.LimitedText(io.StringIO(text), ox.RdfFormat.JSON_LD, Path("a.jsonld"))
    sizes *= len(text) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "DEEPEST_JSON", 3)
        refusal = pytest.raises(DataError, match=r"a\.jsonld: nested more than 3 deep")
        with refusal if depth(value) > 3 else nullcontext():
            assert "".join(iter(lambda: limited.read(sizes.pop()), "")) == text


N = 30_000
TERM = f"<{E}a> <{E}p> {f'<<( <{E}a> <{E}p> ' * N}{E}1{' )>>' * N} ."
DEEP = {
    "deep.jsonld": f'{{"{E}p":' * N + '"v"' + "}" * N,
    "deep.json": '{"@list":[' * N,
    "deep.rdf": f"<rdf:RDF {NAMESPACES}>" + "<rdf:Description><e:p>" * N,
    "deep.nt": TERM,
    "deep.ttl": TERM,
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_nested_without_end_is_refused_with_its_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"{name}: .*more than [\d,]+ "):
        read(tmp_path / name, DEEP[name])


def test_what_is_nested_as_people_do_is_read(tmp_path: Path) -> None:
    many = 150
    assert len(read(tmp_path / "a.jsonld", f'{{"{E}p":' * many + '"v"' + "}" * many)) == many
    node = "<rdf:Description><e:p>"
    ends = "</e:p></rdf:Description>"
    assert (
        len(read(tmp_path / "a.rdf", f"<rdf:RDF {NAMESPACES}>{node * many}1{ends * many}</rdf:RDF>")) == many
    )
    said = f'<{E}a> <{E}p> "{"a <<( b " * 3_000}" .\n'
    assert len(read(tmp_path / "a.nt", said)) == 1


@pytest.mark.parametrize("ending", ["nt", "nq", "ttl", "trig", "rdf", "txt", "tsv", "jsonl"])
@pytest.mark.parametrize("filler", ["\n", " \r\n"])
def test_a_file_of_line_ends_is_given_up_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, filler: str
) -> None:
    monkeypatch.setattr(limits, "FACTLESS", 100_000)
    monkeypatch.setattr(files, "MOST_EMPTY", 10_000)
    path = tmp_path / f"ends.{ending}.gz"
    path.write_bytes(gzip.compress(filler.encode() * 200_000))
    facts = tmp_path / "a.nt"
    facts.write_text(f"<{E}a> <{E}p> <{E}b> .\n")
    refusal = rf"ends\.{ending}\.gz(:10001)?: (no fact in|more than 10,000 empty)"
    with pytest.raises(DataError, match=refusal):
        list(files.lines_of(path)) if ending == "jsonl" else load_kg([path, facts], tmp_path / "kg")
    assert not (tmp_path / "kg").exists()


def test_a_graph_with_long_comments_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FACTLESS", 100_000)
    fact = f"<{E}a> <{E}p> <{E}b> .\n"
    assert len(read(tmp_path / "a.ttl", ("# note\n" * 10_000 + fact) * 3)) == 3
    reader = GraphReader(on_error="skip")
    (tmp_path / "a.nt").write_text("broken\n" * 50_000 + fact)
    assert (len(list(reader.facts([tmp_path / "a.nt"], None))), reader.broken_count) == (1, 50_000)


def test_xml_that_was_cut_off_is_no_graph(tmp_path: Path) -> None:
    fact = f'<rdf:Description rdf:about="{E}a"><e:p>1</e:p></rdf:Description>'
    whole = f"<rdf:RDF {NAMESPACES}>\n{fact}\n</rdf:RDF>"
    assert len(read(tmp_path / "a.rdf", whole)) == 1
    with pytest.raises(DataError, match=r"a\.rdf:2: not XML"):
        read(tmp_path / "a.rdf", whole[:-12])
    reader = GraphReader(on_error="skip")
    assert len(list(reader.facts([tmp_path / "a.rdf"], None))) == 1
    assert [broken.line for broken in reader.broken] == [2]


@pytest.mark.parametrize("piece", ["<!--{}-->", '<a e:q="{}"/>', "<?a {}?>"])
def test_a_tag_without_end_is_refused(tmp_path: Path, piece: str) -> None:
    whole = f"<rdf:RDF {NAMESPACES}>{piece.format('x' * 2 * limits.LONGEST_TAG)}</rdf:RDF>"
    with pytest.raises(DataError, match=r"a\.rdf: a tag, or what is between two, of more than 256 KiB"):
        read(tmp_path / "a.rdf", whole)
