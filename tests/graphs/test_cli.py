"""The command line: what it prints, where, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from tests.graphs.conftest import Cli

QUESTION = "Where was Goethe's unmarried partner born?"
LETTERS = list(enumerate("ABCDEFGHIJ"))
FILMS = """\
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:alien rdfs:label "Alien" ; :director :scott .
:scott rdfs:label "Ridley Scott" ; :birthplace :shields .
:shields rdfs:label "South Shields" .
:director rdfs:label "director" .
:birthplace rdfs:label "place of birth" .
"""


SURE = ("--set", "min_confidence=0.3")
"""What is shown does not depend on how sure the shipped calibration happens to be."""


@pytest.fixture
def films(tmp_path: Path) -> Path:
    path = tmp_path / "films.ttl"
    path.write_text(FILMS)
    return path


def test_ask_shows_phases_answer_query_and_proof(cli: Cli) -> None:
    short = cli("ask", QUESTION, *SURE)
    for part in (
        "Answer   Offenbach am Main (Q3042)",
        "Read as  Johann",
        "SELECT DISTINCT",
        "place of birth (P19)",
    ):
        assert part in short.out
    assert "Step 1" not in short.out
    done = cli("ask", QUESTION, "-v", *SURE)
    assert done.code == 0
    for part in (
        "Goethe is Johann Wolfgang von Goethe (Q5879)",
        "-[unmarried partner]->",
        "Step 1",
        "Answer   Offenbach am Main (Q3042)",
        "SELECT DISTINCT",
        "place of birth (P19)",
        " queries",
    ):
        assert part in done.out
    assert done.err == ""


def test_an_answer_that_is_not_sure_says_so_and_has_an_exit_code_of_its_own(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = ("What is the shoe size of Johann Wolfgang von Goethe?", "--set", "guess=true")
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = cli("ask", *question)
    assert shown.code == 4
    assert "not sure; the likeliest reading gives" in shown.out
    assert "not covered by any relation of this graph" in " ".join(shown.out.split())
    assert "\x1b[1;32m" not in shown.out  # nothing in green
    monkeypatch.delenv("FORCE_COLOR")
    told = json.loads(cli("ask", *question, "--json").out)
    assert (told["status"], "shoe" in told["unaccounted"]) == ("unsure", True)
    assert cli("ask", *question, "-q", "--set", f"min_confidence={told['confidence'] - 0.01}").code == 0
    assert cli("ask", *question, "-q", "--set", "min_confidence=1").code == 4
    assert "4 not sure" in cli("ask", "--help").out.replace("\n", " ")


@pytest.fixture
def own_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A graph of films, and questions about it, half of which it does not answer."""
    monkeypatch.setattr("triplewise.tools.learning.calibration.LEAST", 12)
    facts = [
        f':f{i} rdfs:label "Film {c}x" ; :director :d{i} . :d{i} rdfs:label "Dee {c}" .' for i, c in LETTERS
    ]
    (tmp_path / "films.ttl").write_text(FILMS + "\n".join(facts))
    questions = [
        *({"question": f"Who is the director of Film {c}x?", "answers": [f"Dee {c}"]} for _, c in LETTERS),
        *({"question": f"Who is the deputy director of Film {c}x?", "answers": []} for _, c in LETTERS),
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(q) + "\n" for q in questions))
    return str(tmp_path / "films.ttl"), str(path)


def test_calibrate_learns_from_ones_own_questions(
    cli: Cli, tmp_path: Path, own_questions: tuple[str, str]
) -> None:
    (films, path), kept = own_questions, tmp_path / "own.yaml"
    assert "--out" in cli("calibrate", path, "--kg", films).err
    done = cli("calibrate", path, "--kg", films, "--out", str(kept))
    assert done.code == 0, done.err
    assert yaml.safe_load(kept.read_text())["provenance"]["count"] == 2 * len(LETTERS)
    own = ("--kg", films, "-q", "--set", f"calibration={kept}")
    assert cli("ask", "Who is the director of Film Ax?", *own).code == 0
    assert cli("ask", "Who is the deputy director of Film Ax?", *own).code == 1  # helps nobody: not shown


def test_a_language_model_needs_no_calibration(cli: Cli, own_questions: tuple[str, str]) -> None:
    films, path = own_questions
    assert "leave --model out" in cli("calibrate", path, "--kg", films, "--model", "openai:scripted").err


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "When was George Orwell born?",
            ("Answer   25 June 1903 (1903-06-25T00:00:00Z)", "  25 June 1903\n"),
        ),
        ("Is Tokyo the capital of Japan?", ("yes or no: Japan -[capital]-> Tokyo", "Answer   Yes\n")),
        ("Which films were directed by Stanley Kubrick?", ("2001: A Space Odyssey, The Killing, ... (13",)),
    ],
)
def test_dates_truth_and_cut_lists_read_as_people_write_them(
    cli: Cli, question: str, parts: tuple[str, ...]
) -> None:
    out = "".join(f"{line.rstrip()}\n" for line in cli("ask", question, "-v", *SURE).out.splitlines())
    for part in parts:
        assert part in out


def test_json_is_one_document(cli: Cli) -> None:
    done = cli("ask", QUESTION, "--json", *SURE)
    document = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (document["answer"], document["labels"]) == (["Q3042"], ["Offenbach am Main"])
    assert document["proof"][0]["relation"] == "<http://www.wikidata.org/prop/direct/P451>"
    assert document["steps"][0]["action"].startswith("add_fact(")
    assert document["usage"]["queries"] > 0
    assert {"sparql", "corrections", "status", "rules", "entities"} <= set(document)


def test_output_fits_a_narrow_terminal_in_colours_that_can_be_turned_off(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert f"\x1b[1mQuestion \x1b[0m{QUESTION}" in cli("ask", QUESTION, "-v").out
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "36")
    lines = cli("ask", QUESTION, "-v").out.splitlines()
    assert "\x1b" not in "".join(lines)
    assert "  PREFIX wdt: <http://www.wikidata.org/prop/direct/>" in lines, "a query is never broken"
    assert [line for line in lines if len(line) > 36 and "PREFIX" not in line and "?" not in line] == []
    for columns in ("0", "1", "many"):
        monkeypatch.setenv("COLUMNS", columns)
        assert "Offenbach am Main" in cli("ask", QUESTION).out


def test_a_given_entity_is_taken(cli: Cli) -> None:
    done = cli("ask", "Where was the partner of the poet born?", "--entity", "the poet=Q5879", "--json")
    assert [e["id"] for e in json.loads(done.out)["entities"]] == ["Q5879"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            ("ask", "Who?", "--preset", "nope"),
            ("'nope'", "agentbench-plain, oda, queryagent, "),
        ),
        (("ask", "Who?", "--kg", "nope"), ("nope", "'demo', a folder, a file")),
        (("ask", "Who?", "--model", "gpt-4"), ("'gpt-4'", "openai:NAME")),
        (("ask", "Who?", "--model", "openai:gpt-4"), ("OPENAI_API_KEY",)),
        (("ask", "Who?", "--set", "nope=1"), ("'nope'", "max_steps")),
        (("ask", "Who?", "--set", "max_steps=many"), ("max_steps=many", "integer")),
        (("ask", "Who?", "--set", "max_steps"), ("NAME=VALUE",)),
        (("ask", "Who?", "--set", "toolset=nope"), ("'nope'", "pyql")),
        (("ask", "Who?", "--entity", "=Q1"), ("mention=id",)),
        (("ask",), ("no question",)),
        (("ask", "--resume", "--kg", "demo"), ("leave them out",)),
        (("ask", "--resume"), ("no unfinished run",)),
        (("ask", "Who?", "--nope"), ("--nope", "triplewise ask --help")),
        (("nope",), ("nope", "triplewise --help")),
        (("ask", "Who?", "--db", "films.sqlite"), ("needs a language model",)),
        (("ask", "Who?", "--documents", "texts"), ("language model",)),
        (("ask", "Who wrote Dracul\udce9?"), ("\\udce9", "is not UTF-8 text")),
    ],
)
def test_user_errors_are_a_line_with_the_remedy(
    cli: Cli, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    done = cli(*arguments)
    assert done.code == 2
    assert len(done.err.splitlines()) <= 2
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("ask", "Who wrote Xyzzyplugh?"), 1, "no entity of the question was found"),
        (("ask", "Who wrote Dracula?", "--kg", "http://127.0.0.1:9/sparql"), 3, "cannot be reached"),
    ],
)
def test_exit_codes_tell_nothing_found_from_a_failed_run(
    cli: Cli, arguments: tuple[str, ...], code: int, part: str
) -> None:
    done = cli(*arguments)
    assert (done.code, part in " ".join((done.out + done.err).split())) == (code, True)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (ZeroDivisionError("one by nothing"), 3, "unexpected ZeroDivisionError: one by nothing"),
    ],
)
def test_interrupts_and_bugs_end_in_a_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("triplewise.graphs.cli.app.packaged", broken)
    done = cli("demo")
    assert (done.code, line in done.err, "Traceback" in done.err) == (code, True, False)
    if code == 3:
        assert "Traceback" in cli("demo", "--debug").err


COMMANDS = "ask|search|learn|plan question|plan index|kg load|kg index|kg info|kg name"
COMMANDS += "|kg profile|kg cut|kg thin|facts list|facts accept|facts reject|guidelines check"


@pytest.mark.parametrize("command", COMMANDS.split("|"))
def test_help_shows_examples(cli: Cli, command: str) -> None:
    done = cli(*command.split(), "--help")
    assert (done.code, "Examples" in done.out) == (0, True)
    assert f"triplewise {command}" in done.out


class Broken:
    """An entry point whose package is there, but not what it needs."""

    def load(self) -> None:
        raise ModuleNotFoundError("No module named 'inspect_ai'", name="inspect_ai")


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (Broken(), "`triplewise eval` needs inspect_ai: pip install 'triplewise[evals]'"),
        (None, "nothing brings the command `triplewise eval` here"),
    ],
)
def test_a_missing_extra_is_one_line_with_the_remedy(
    entry: Broken | None, line: str, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **group: [entry] if entry else [])
    done = cli("eval", "metaqa")
    assert (done.code, line in done.err, "pip install 'triplewise[evals]'" in done.err) == (2, True, True)


def test_help_loads_nothing_heavy() -> None:
    heavy = [
        "inspect_ai",
        "triplewise.evals",
        "langgraph",
        "langchain_core",
        "numpy",
        "pyoxigraph",
        "pydantic",
        "torch",
    ]
    code = (
        "import sys; from triplewise.graphs.cli.app import run; run(['--help']); "
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "[]\n"


def test_the_entry_point_loads_next_to_nothing_before_it_minds_an_interrupt() -> None:
    heavy = {"typing", "importlib.metadata", "pathlib", "typer", "triplewise.graphs.cli.app"}
    code = f"import sys; from triplewise.graphs.cli import main; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_ctrl_c_within_an_import_is_one_line() -> None:
    code = """
import os, signal, sys
from triplewise.graphs.cli import main

class Interrupting:
    def find_spec(self, name, *rest):
        if name == "typer":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:  # as some packages do around an import
                pass

sys.meta_path.insert(0, Interrupting())
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_ctrl_c_before_a_command_begins_is_one_line() -> None:
    code = """
import typer.main
from triplewise.graphs.cli import main

def interrupted(_):
    raise KeyboardInterrupt

typer.main.get_command = interrupted
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    code = "from triplewise.graphs.cli import main; main()"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", code, "presets"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    assert (done.returncode, done.stderr) == (3, "error: No space left on device: standard output\n")


def test_closed_standard_input_is_an_empty_one() -> None:
    code = "import sys; sys.stdin = None; from triplewise.graphs.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "chat"], capture_output=True, text=True)
    assert (done.returncode, "Ask; then ask on" in done.stderr) == (0, True)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_a_command_leaves_no_files(name: str) -> None:
    code = f"""
import atexit, os, signal, time
from triplewise.graphs.cli import app

def ended(_):
    os.kill(os.getpid(), signal.{name})
    time.sleep(5)

atexit.register(print, "cleaned up")
app.run = ended
app.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (143, "cleaned up\n", "")


def test_kg_load_info_profile_and_ask(cli: Cli, films: Path, tmp_path: Path) -> None:
    folder, shape = tmp_path / "films", tmp_path / "shape.yaml"
    loaded = cli("kg", "load", str(films), "--into", str(folder))
    assert (loaded.code, "triples" in loaded.out) == (0, True)
    again = cli("kg", "load", str(films), "--into", str(folder))
    assert (again.code, "--replace" in again.err) == (2, True)
    assert "place of birth" in cli("kg", "info", str(folder)).out
    manifest = json.loads((folder / "manifest.json").read_text())
    for facts in manifest["files"].values():
        del facts["sha256"]  # as earlier versions loaded it
    (folder / "manifest.json").write_text(json.dumps(manifest))
    info = "".join(cli("kg", "info", str(folder)).out.split())  # wrapped in a column
    assert f"triplewisekgloadSOURCES--into{folder}--replace" in info
    shown = cli("kg", "profile", str(films)).out
    assert "label_predicates" in yaml.safe_load(shown)
    assert "\n# type_predicates" not in shown
    assert "\n# instance-of predicates.\ntype_predicates:" in shown
    shape.write_text(cli("kg", "profile", str(folder)).out)
    asked = cli("ask", "Who is the director of Alien?", "--kg", str(folder), "--profile", str(shape), "-q")
    assert asked.out == "Ridley Scott\n"


def test_presets_guidelines_and_demo(cli: Cli) -> None:
    assert "for-policy" in cli("presets").out
    listed = cli("guidelines", "list").out
    assert "fact_empty" in listed
    assert listed.index("interpreter+memory: ") > listed.index("kb: ")
    assert "triplewise ask" in cli("demo").out


def test_guidelines_check_runs_the_examples(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (
        "- id: mine\n  source: kb\n  when: feedback.outcome == {!r}\n  guideline: Try less.\n"
        "  example:\n    feedback: {{action: execute, outcome: timeout}}\n    expect: Try less\n"
    )
    path.write_text(text.format("timeout"))
    assert "Try less." in cli("guidelines", "check", str(path)).out
    path.write_text(text.format("rows"))
    done = cli("guidelines", "check", str(path))
    assert (done.code, f"{path}:1: mine:" in done.err) == (2, True)


def demo_questions() -> list[str]:
    data = yaml.safe_load((files("triplewise.graphs.cli") / "demo.yaml").read_text(encoding="utf-8"))
    return [question for topic in data["topics"] for question in topic["questions"]]


def test_demo_questions_are_none_of_the_test_questions() -> None:
    lines = (files("triplewise.tools.kg.demo") / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    assert set(demo_questions()).isdisjoint(json.loads(line)["question"] for line in lines)


@pytest.mark.parametrize("question", demo_questions())
def test_demo_questions_have_answers(cli: Cli, question: str) -> None:
    assert cli("ask", question, "-q", *SURE).code == 0
