"""A bad guideline file is refused with its name, line, key and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.guidelines import load_guidelines
from triplewise.tools.core.errors import DataError

GOOD = """\
- id: mine
  source: kb
  when: feedback.action == "fly"
  guideline: Do not fly. {% include "closing" %}
  example:
    feedback: {action: fly}
    expect: Do not fly
"""


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("  source: kb\n", "", 1, "source: Field required"),
        ("  when: ", "  wen: ", 3, "wen: unknown key; did you mean 'when'?"),
        ("id: mine", "id: My Own", 1, "id: String should match pattern"),
        ("source: kb", "source: kg", 2, "source: Input should be 'kb', 'interpreter'"),
        ("  source: kb", "  source: kb\n  source: kb", 3, "source: stands twice"),
        ('== "fly"', "==", 3, "when: is not valid Jinja"),
        ('== "fly"', "== flyer", 3, "when: unknown name 'flyer'"),
        (
            "feedback.action",
            "feedback.acton",
            3,
            "when: feedback has no field 'acton'; did you mean",
        ),
        ('== "fly"', "is bond", 3, "when: is not valid Jinja: No test named 'bond'"),
        ("feedback.action", "feedback.action|lowr", 3, "when: is not valid Jinja: No filter named 'lowr'"),
        ("Do not fly. ", "Do not fly, {{ pilot }}. ", 4, "guideline: unknown name 'pilot'"),
        ('"closing"', '"opening"', 4, "guideline: includes unknown part 'opening'; choose from: again"),
        (
            "  guideline: Do",
            "  guideline: |\n    {% if args %}\n    {% endfor %}\n    Do",
            6,
            "guideline: is not valid",
        ),
        ("    expect: Do not fly\n", "", 5, "example.expect: Field required"),
        ("expect: Do not fly", "expect: 5", 7, "example.expect: Input should be a valid list"),
        (
            "{action: fly}",
            "{acton: fly}",
            6,
            "example.feedback: no field 'acton'; did you mean 'action'?",
        ),
        (
            "{action: fly}",
            "{arguments: [5]}",
            6,
            "example.feedback.arguments.0: Input",
        ),
        ("    expect", "    memory: {bound: {a: b}}\n    expect", 7, "example.memory.bound: Input should be"),
        (
            "    expect",
            "    actions: fly()\n    expect",
            7,
            "example.actions: Input should be a valid list",
        ),
        ("- id", "guidelines:\n- id", 1, "must be a list of guidelines"),
        ("- id: mine", "- mine\n- id: mine", 1, "a guideline must be a mapping"),
        ("{action: fly}", "{action: fly", 7, "not YAML"),
    ],
)
def test_a_bad_file_names_line_key_and_fault(
    tmp_path: Path, old: str, new: str, line: int, says: str
) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        load_guidelines([path])
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert says in str(caught.value)


def test_a_missing_file_and_a_wrong_encoding_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.yaml: cannot be read.*No such file"):
        load_guidelines([tmp_path / "nowhere.yaml"])
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("- id: é".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.yaml: .*UTF-8"):
        load_guidelines([latin])
    control = write(tmp_path, "- id: \x00")
    with pytest.raises(DataError, match="not YAML"):
        load_guidelines([control])


def test_an_id_may_be_used_once_over_all_files(tmp_path: Path) -> None:
    first = write(tmp_path, GOOD)
    second = write(tmp_path, GOOD, "second.yaml")
    with pytest.raises(DataError, match=r"mine\.yaml:1: id: 'mine' is also the id of .*second\.yaml:1"):
        load_guidelines([first, second])
    with pytest.raises(DataError, match=r"mine\.yaml:8: id: 'mine' is also the id"):
        load_guidelines([write(tmp_path, GOOD + GOOD)], instead=True)
    taken = write(tmp_path, GOOD.replace("id: mine", "id: arity"))
    with pytest.raises(
        DataError, match=r"^\S*mine\.yaml:1: id: 'arity' is also .*guidelines/interpreter\.yaml:\d+"
    ):
        load_guidelines([taken])


def test_user_files_come_before_the_shipped_ones_or_instead_of_them(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    both, alone = load_guidelines([path]), load_guidelines([str(path)], instead=True)
    assert [g.id for g in alone] == ["mine"]
    assert [g.id for g in both] == ["mine", *(g.id for g in load_guidelines())]
    first = next(iter(both))
    assert (first.path, first.line) == (str(path), 1)


def test_check_tells_what_is_wrong_with_an_example(tmp_path: Path) -> None:
    def problems(old: str, new: str) -> tuple[str, ...]:
        return load_guidelines([write(tmp_path, GOOD.replace(old, new, 1))]).check()

    assert problems("kb", "kb") == ()
    assert "mine: its example does not trigger it" in problems("{action: fly}", "{action: walk}")[0]
    assert "lacks 'Do fly'; it reads: Do not fly." in problems("expect: Do not fly", "expect: Do fly")[0]
    note = problems("kb\n", "kb\n  severity: note\n")
    assert note == ()
    shadowed = GOOD + GOOD.replace("mine", "other")
    assert (
        "other: its example is caught by mine first"
        in load_guidelines([write(tmp_path, shadowed)]).check()[0]
    )
