"""Prompts as data: what the shipped ones say, and what a bad file is told."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from triplewise.nodes.prompting import load_prompt
from triplewise.tools.core.errors import DataError

VALUES: dict[str, Any] = {
    "tools": "1. get_relation(node): relations of a node",
    "form": "question",
    "tools_brief": "1. get_relation(node)",
    "begun": False,
    "question": "Who wrote Momo?",
    "most": 1,
    "entities": {"Momo": "Q243359"},
    "meanings": ["Momo: Q243359 (novel); or Momo: Q1 (film)"],
    "unnamed": [],
    "classes": [],
    "language": "German",
    "examples": [{"question": "Who wrote Jim Button?", "answers": ["add_fact(Q1, P50, ?author)"]}],
    "plan": ["Momo -[P50]-> ?author"],
    "readings": ["Alien -[directed by]-> ?x (90% sure)"],
    "around": ["Around Momo [Q243359]:", "-> P50 (author): Michael Ende [Q76498]"],
    "rules": ["Momo -[P50]-> ?author"],
    "observation": ["(Momo, author, Michael Ende)"],
    "memory": ["(Momo, author, Michael Ende) -> (Michael Ende, born in, Garmisch)"],
    "history": [
        {"number": 1, "thought": "Look first.", "action": "get_relation(Q243359)", "observation": "['P50']"},
        {"number": 2, "thought": "", "action": "", "observation": "No action was found."},
    ],
    "step": 3,
    "candidates": ["Q243359", "Q1"],
    "labels": {"Q243359": "Momo"},
    "triples": ["(Momo, author, Michael Ende) [Q243359, P50, Q76498]"],
    "limit": 15,
    "demonstrations": [{"question": "Who wrote Jim Button?", "rules": ["Jim Button -[P50]-> ?author"]}],
    "relations": ["P50 (author)"],
    "dialect": "sqlite",
    "tables": ["book: title (text), year (number)"],
    "entity": "Momo",
    "relation": "author",
    "document": "Momo is a novel by Michael Ende.",
}
NOTHING: dict[str, Any] = {
    **VALUES,
    "tables": [],
    "language": "",
    **{k: type(v)() for k, v in VALUES.items() if isinstance(v, list | dict)},
    "step": 1,
}
PARTS = {
    "agent": {"example", "reflect", "answer", "plan", "extract"},
    "queryagent": {"example"},
    "queryagent-faithful": {"example"},
    "oda": {"reflect", "answer"},
    "symagent": {"plan", "extract"},
    "agentbench": {"example"},
    "sql": {"example"},
    "select": {"example"},
    "sparql": {"example", "reflect", "answer", "plan", "extract"},
}
ACTING = {"system", "turn", "system_tools", "turn_tools"}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("values", [VALUES, NOTHING], ids=["full", "empty"])
def test_shipped_prompts_render(name: str, values: dict[str, Any]) -> None:
    prompt = load_prompt(name)
    assert PARTS[name] | ACTING <= set(prompt.parts)
    for part in prompt.parts:
        text = prompt.render(part, **values)
        assert not re.search(r"\{[{%]|\n\n\n", text), part


def test_queryagent_has_the_structure_of_figures_3_and_4() -> None:
    prompt = load_prompt("queryagent")
    system = prompt.render("system", **VALUES)
    order = ["over a knowledge graph", "Rules:", VALUES["tools_brief"], "Example, with"]
    assert [system.index(words) for words in order] == sorted(system.index(words) for words in order)
    assert prompt.render("turn", **VALUES) == (
        "Question: Who wrote Momo?\n"
        "Entities: Momo: Q243359\n\n"
        "Thought 1: Look first.\n"
        "Action 1: get_relation(Q243359)\n"
        "Observation 1: ['P50']\n\n"
        "Observation 2: No action was found.\n\n"
        "Write Thought 3 and Action 3."
    )


@pytest.mark.parametrize("name", ["agent", "queryagent"])
def test_the_example_goes_once_own_steps_show_the_form(name: str) -> None:
    before, after = (load_prompt(name).render("system", **VALUES | {"begun": b}) for b in (False, True))
    assert before.startswith(after)
    assert "deepest lake" in before
    assert "deepest lake" not in after


def test_agent_shows_hints_only_where_there_are_some() -> None:
    prompt = load_prompt("agent")
    full, empty = prompt.render("turn", **VALUES), prompt.render("turn", **NOTHING)
    for key in ("meanings", "plan", "around"):
        assert VALUES[key][0] in full
    assert empty.startswith("Question: Who wrote Momo?\nEntities:\nnone was found")
    assert "Around" not in empty


def test_agent_is_asked_for_several_actions_only_where_it_may_give_them() -> None:
    one, several = (load_prompt("agent").render("system", **VALUES | {"most": n}) for n in (1, 4))
    assert "then execute()" in one
    assert "up to 4" in several
    assert "up to 4" not in one


def test_native_tool_calls_are_not_asked_for_as_text() -> None:
    for name in PARTS:
        prompt = load_prompt(name)
        text = prompt.render("system_tools", **VALUES) + prompt.render("turn_tools", **VALUES)
        assert "Action 3" not in text
        assert "Action N" not in text


@settings(deadline=None)  # the first one loads the prompts
@given(st.text())
def test_what_a_value_says_is_never_a_template(words: str) -> None:
    question = f"{{{{ 7 * 7 }}}} {words} {{% raw %}}"
    text = load_prompt("agent").render(
        "asked", question=question, meanings=[], unnamed=[], classes=[], language=""
    )
    assert question in text


def own(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_own_file_extends_a_shipped_prompt(tmp_path: Path) -> None:
    path = own(tmp_path, "extends: queryagent\nparts:\n  task: Do it my way.\n")
    prompt = load_prompt(path)
    assert prompt.render("system", **VALUES).startswith("Do it my way.\n\nRules:")
    assert load_prompt(str(path)) is prompt


def test_own_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    path = own(tmp_path, "parts: {system: one}")
    assert load_prompt(path).render("system") == "one"
    own(tmp_path, "parts: {system: two}")
    os.utime(path, ns=(1, 1))
    assert load_prompt(path).render("system") == "two"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parts: {system: x\n", r"mine\.yaml:2: not YAML"),
        ("just words", r"mine\.yaml:1: file: "),
        ("description: nothing else", r"mine\.yaml:1: parts: a prompt needs some"),
        ("parts:\n  a: x\npart:\n  b: y", r"mine\.yaml:3: part: unknown key; did you mean 'parts'"),
        ("parts:\n  a: x\n  b: 5", r"mine\.yaml:3: parts\.b: Input should be a valid string"),
        ("parts: [a]", r"mine\.yaml:1: parts: "),
        ("parts:\n  a: |\n    one\n    {% if %}\n", r"mine\.yaml:4: parts\.a: is not valid Jinja"),
        ("parts:\n  a: '{{ quesion }}'", r"mine\.yaml:2: parts\.a: unknown name 'quesion'; .*'question'"),
        ("parts:\n  a: '{% include \"b\" %}'", r"mine\.yaml:2: parts\.a: includes unknown part 'b'"),
        ("extends: [orda]\nparts: {a: x}", r"mine\.yaml:1: extends: unknown prompt 'orda'; legal: .*oda"),
    ],
)
def test_bad_file_names_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_prompt(own(tmp_path, text))


@pytest.mark.parametrize(
    "template",
    [
        "{{ question.__class__.__mro__ }}",
        "{{ history.append(1) }}",
        "{{ 1 / 0 }}",
        "{{ history[9].thought }}",
        '{% include "a" %}',
    ],
)
def test_templates_run_in_a_sandbox(tmp_path: Path, template: str) -> None:
    prompt = load_prompt(own(tmp_path, f"parts:\n  a: |\n    {template}"))
    with pytest.raises(DataError, match="part 'a' cannot be rendered"):
        prompt.render("a", step=1, history=[])


def test_what_a_part_does_not_name_is_not_worked_out(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("parts: {system: '{{ memory }} {% include \"more\" %}', more: '{{ memory }}'}")

    def costly() -> str:
        raise AssertionError("no part names it")

    assert load_prompt(path).render("system", memory=lambda: "m", observation=costly) == "m m"
