import re

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplewise.tools.kg.subset.staging import PLAIN, parse_line

plain = re.compile(PLAIN)

texts = st.text(max_size=12) | st.text("\\\"'\n\t.@^<> é#a", max_size=12)
iris = st.text("aZ09:/?#[]@%2F.-_é~()+,;= ", max_size=14).map(lambda t: f"<http:{t}>") | st.sampled_from(
    ["<http://www.wikidata.org/entity/Q1>", "<http://a.b/c%20d#e>", "<urn:x:y>", "<a>", "<http://a:b/>"]
)
raw = st.builds('"{}"'.format, st.text("\\nrtbu0041\"'é\t x", max_size=8))
written = st.builds(lambda t: str(ox.Literal(t)), texts) | raw
tagged = st.builds(
    lambda t, tag: t + tag, written, st.sampled_from(["", "@en", "@EN-us", "@zh-hans", "@1", "^^<x:y>"])
)
xsd = written.map(lambda t: t + "^^<http://www.w3.org/2001/XMLSchema#string>")
lines = st.builds(
    lambda s, p, o, end: f"{s} {p} {o}{end}",
    iris,
    iris,
    iris | tagged | xsd,
    st.sampled_from([" .", ".", "", " . #"]),
)


@settings(max_examples=600, deadline=None)
@given(lines)
def test_a_plain_line_is_taken_apart_as_the_parser_does(line: str) -> None:
    if "\n" in line or not plain.fullmatch(line):
        return
    found = parse_line(line, 0)
    subject, relation, value = line.removesuffix(" .").split(" ", 2)
    assert (subject, relation, value.removesuffix("^^<http://www.w3.org/2001/XMLSchema#string>")) == found


def test_what_the_parser_is_for() -> None:
    assert parse_line("# a comment", 0) is None
    assert parse_line("_:b <p:p> _:c .", 3) == (
        "<urn:triplewise:blank:3-b>",
        "<p:p>",
        "<urn:triplewise:blank:3-c>",
    )
    assert parse_line(r'<s:s><p:p>"A"@EN.', 0) == ("<s:s>", "<p:p>", '"A"@en')
    for line in (
        "<s:s> <p:p> <o o> .",
        "s p o .",
        "<s:s> <p:p> <<( <a:a> <b:b> <c:c> )>> .",
        "<s:s> <p:p> <o:o> <g:g> .",
    ):
        with pytest.raises(ValueError, match=r"\w"):
            parse_line(line, 0)
