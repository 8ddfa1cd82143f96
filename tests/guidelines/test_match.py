"""Precedence, independence, and odd input: matching never raises and never surprises."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from triplewise.guidelines import Guidelines, load_guidelines
from triplewise.tools.actions.toolset import Call, Feedback, ReasoningMemory

SHIPPED = load_guidelines()
WHENS = (
    "false",
    "true",
    'feedback.error == "arity"',
    "memory.linked and not memory.looked_up",
    'feedback.outcome == "empty"',
    "args|length > 2",
    "feedback.detail.size < 3",
    "call in memory.failed",
)

CALLS = [g.example.feedback for g in SHIPPED]
WORDS = st.sampled_from(
    [w for f in CALLS for w in f.arguments]
    + ["", "?x", "{{ 7 * 191 }}", "{% raw %}", "'", "\ud800", "?", "<>", "m.1"]
)
feedbacks = st.builds(
    Feedback,
    action=st.sampled_from(sorted({f.action for f in CALLS})),
    arguments=st.lists(WORDS, max_size=5).map(tuple),
    error=st.sampled_from(["", *sorted({f.error for f in CALLS})]),
    message=st.sampled_from(["", "{{ question }}", "no"]),
    detail=st.dictionaries(st.sampled_from(["given", "existing", "values"]), WORDS),
    outcome=st.sampled_from(["", "rows", "empty", "truncated", "timeout", "syntax", "unavailable"]),
    values=st.dictionaries(
        WORDS, st.lists(st.sampled_from(["UnName_Entity", "Alien"]), max_size=2), max_size=2
    ),
    finished=st.booleans(),
)
relations = st.dictionaries(st.sampled_from(["forward", "backward"]), st.lists(WORDS, max_size=3))
memories = st.builds(
    ReasoningMemory,
    linked=st.dictionaries(WORDS, WORDS, max_size=2),
    looked_up=st.dictionaries(WORDS, relations, max_size=2),
    bound=st.lists(WORDS, max_size=2).map(tuple),
    seen=st.frozensets(WORDS, max_size=2),
    failed=st.frozensets(st.sampled_from([Call(f.action, f.arguments).text() for f in CALLS]), max_size=3),
    steps=st.integers(0, 9),
    budget=st.integers(0, 12),
    calls=st.lists(
        st.sampled_from(["", *(Call(f.action, f.arguments).text() for f in CALLS)]), max_size=4
    ).map(tuple),
)


def guidelines_of(
    folder: Path, *whens: str, guideline: str = "Text {{ step }}.", severity: str = "error"
) -> Guidelines:
    lines = [
        f"- {{id: own_{i}, source: kb, severity: {severity}, when: '{when}', guideline: '{guideline}', "
        f"example: {{feedback: {{}}, expect: Text}}}}"
        for i, when in enumerate(whens)
    ]
    path = folder / "own.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return load_guidelines([path], instead=True)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Guidelines:
    return guidelines_of(tmp_path_factory.mktemp("own"), *WHENS)


atoms = st.sampled_from([*(w for w in WHENS if "'" not in w), "insisted", 'wanted == "who"', "untried"])
whens = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map("not ({})".format),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
    ),
    max_leaves=4,
)
written = st.tuples(whens, st.sampled_from(["error", "note"]))


def user_file(folder: Path, entries: dict[str, tuple[str, str]]) -> Guidelines:
    """A user's file of guidelines (id -> when, severity), before the shipped ones."""
    lines = [
        f"- {{id: {id}, source: kb, severity: {severity}, when: '{when}', guideline: 'Text {{{{ step }}}}.', "
        "example: {feedback: {}, expect: Text}}"
        for id, (when, severity) in entries.items()
    ]
    path = folder / "user.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return load_guidelines([path])


@settings(max_examples=60, deadline=None)
@given(
    feedback=feedbacks,
    memory=memories,
    entries=st.lists(written, min_size=1, max_size=5),
    place=st.integers(0, 4),
    question=st.sampled_from(["", "who is it?"]),
)
def test_one_more_guideline_in_a_users_file_changes_no_other(
    tmp_path_factory: pytest.TempPathFactory,
    feedback: Feedback,
    memory: ReasoningMemory,
    entries: list[tuple[str, str]],
    place: int,
    question: str,
) -> None:
    folder, place = tmp_path_factory.mktemp("user"), min(place, len(entries) - 1)
    own = {f"own_{i}": entry for i, entry in enumerate(entries)}
    added = f"own_{place}"
    with_it = user_file(folder, own)
    without = user_file(folder, {id: entry for id, entry in own.items() if id != added})
    before = without.triggered(feedback, memory, question=question)
    after = with_it.triggered(feedback, memory, question=question)
    assert [id for id in after if id != added] == list(before)
    # Errors come before notes, and among equals the place in the files decides.
    order = [g.id for g in with_it]
    severities = {g.id: g.severity for g in with_it}
    ranked = sorted(after, key=lambda id: (severities[id] == "note", order.index(id)))
    assert list(after) == ranked
    match = with_it.match(feedback, memory, question=question)
    assert (match.id if match else None) == next(iter(ranked), None)


@settings(max_examples=150, deadline=None)
@given(feedback=feedbacks, memory=memories)
def test_no_step_makes_a_shipped_guideline_fail(feedback: Feedback, memory: ReasoningMemory) -> None:
    fresh = Guidelines(list(SHIPPED))
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[assignment]
    logger = logging.getLogger("triplewise.guidelines.guideline")
    logger.addHandler(handler)
    try:
        match = fresh.match(feedback, memory, actions=("add_fact(head, relation, tail)",))
        for guideline in SHIPPED:
            text = Guidelines([guideline]).match(feedback, memory, question="who is it?")
            assert text is None or text.text
    finally:
        logger.removeHandler(handler)
    assert [r.getMessage() for r in records] == []
    assert match == fresh.match(feedback, memory, actions=("add_fact(head, relation, tail)",))
    if feedback.error or feedback.outcome in ("timeout", "syntax", "unavailable"):
        assert match is not None
        assert match.severity == "error"
    if match is not None:
        assert "1337" not in match.text


def test_a_when_that_fails_is_no_match_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = guidelines_of(tmp_path, "feedback.detail.size < 3", "true")
    for _ in range(3):
        match = failing.match(Feedback("a", detail={"size": "small"}), ReasoningMemory())
        assert match is not None
        assert match.id == "own_1"
    assert len(caplog.records) == 1
    assert "own.yaml:1: own_0: when failed on odd input" in caplog.text
    assert failing.triggered(Feedback("a", detail={"size": 2}), ReasoningMemory()) == ("own_0", "own_1")


def test_a_text_that_fails_is_replaced_by_the_interpreters_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = guidelines_of(tmp_path, "true", guideline="Text {{ 1 / 0 }}")
    match = failing.match(Feedback("a", message="It broke."), ReasoningMemory(steps=3))
    assert match is not None
    assert match.text == "The last action did not work. It broke. Regenerate only Thought 5 and Action 5."
    match = failing.match(Feedback("a", message="It broke."), ReasoningMemory(steps=3), several=True)
    assert match is not None
    assert match.text.endswith("Go on from Thought 5 and Action 5.")
    assert "own_0: guideline failed on odd input" in caplog.text


@pytest.mark.parametrize(
    "when", ["memory.bound.__class__.__mro__", "feedback.detail.clear()", "call.__init__.__globals__"]
)
def test_expressions_reach_and_change_nothing_they_should_not(tmp_path: Path, when: str) -> None:
    detail = {"a": 1}
    assert guidelines_of(tmp_path, when).match(Feedback("a", detail=detail), ReasoningMemory()) is None
    assert detail == {"a": 1}


def test_what_a_model_wrote_is_never_run_as_a_template() -> None:
    match = SHIPPED.match(
        Feedback("get_relation", ("{{ 6 * 7 }}",)), ReasoningMemory(linked={"m.1": "Alien"})
    )
    assert match is not None
    assert match.text.startswith("{{ 6 * 7 }} is neither an entity")


def test_step_and_budget_come_from_the_memory_unless_they_are_given() -> None:
    feedback = Feedback("add_fact", ("m.1", "r.a", "?x"), outcome="rows")
    memory = ReasoningMemory(
        linked={"m.1": "Alien"}, looked_up={"m.1": {"forward": ["r.a"]}}, steps=8, budget=10
    )
    match = SHIPPED.match(feedback, memory)
    assert match is not None
    assert match.id == "budget_low"
    assert "Only 1 step left" in match.text
    assert SHIPPED.match(feedback, memory, budget_left=5) is None
    arity = SHIPPED.match(Feedback("add_fact", error="arity"), memory, step=42)
    assert arity is not None
    assert arity.text.endswith("Thought 42 and Action 42.")


def test_a_person_is_told_what_was_wrong_and_not_what_to_write() -> None:
    for guideline in SHIPPED:
        match = SHIPPED.match(guideline.example.feedback, guideline.example.memory, **guideline.given)
        assert match is not None
        if match.severity == "error":
            assert match.reason, guideline.id
            assert not re.search(r"(Thought|Action) \d", match.reason), guideline.id
