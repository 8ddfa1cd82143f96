"""What README and docs say is so: files exist, Python and commands run and print what is shown."""

from __future__ import annotations

import doctest
import gzip
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pandas as pd
import pyoxigraph as ox
import pytest
import typer

from tests.support.film_library import write_texts
from tests.support.films import FILMS, write_graph
from tests.support.openai_server import OpenAIServer
from tests.support.oxigraph_server import OxigraphServer
from triplewise.evals.grids.grid import cells_of, load_grid
from triplewise.evals.scripted_model import RuleScript
from triplewise.graphs import PRESETS
from triplewise.graphs.cli.app import run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "evals" / "README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def blocks(page: Path, language: str) -> list[str]:
    """Blocks of a page; ` ```sh notest` is of the language `sh notest`."""
    return re.findall(
        rf"^ *```{language}\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def pages_with(language: str) -> pytest.MarkDecorator:
    """Pages that have such blocks, as parameters of a test."""
    pages = [page for page in PAGES if blocks(page, language)]
    return pytest.mark.parametrize("page", pages, ids=[page.stem for page in pages])


def commands(block: str) -> Iterator[list[str]]:
    """The words of each line; a backslash at its end joins it to the next."""
    for line in block.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("code", [code for page in PAGES for code in blocks(page, "python")])
def test_python_runs(code: str) -> None:
    exec(compile(code, "README.md", "exec"), {})


@pages_with("pycon")
def test_python_gives_what_is_shown(page: Path) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    case = doctest.DocTestParser().get_doctest("\n".join(blocks(page, "pycon")), {}, page.name, str(page), 0)
    messages: list[str] = []
    assert doctest.DocTestRunner(optionflags=flags).run(case, out=messages.append).failed == 0, messages


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """In a folder with the files that the pages name; gives a word as it stands for on this machine."""
    graph = write_graph(tmp_path / "kb.nt").rename(tmp_path / "films.ttl")
    write_texts(tmp_path / "texts")
    (tmp_path / "kb.nt.gz").write_bytes(gzip.compress(graph.read_bytes()))
    (tmp_path / "labels.tsv").write_text("http://films.example/Alien\tAlien\n", encoding="utf-8")
    (tmp_path / "questions.txt").write_text("Who directed Alien?\nWho directed Jaws?\n", encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(blocks(ROOT / "docs" / "guidelines.md", "yaml")[0], encoding="utf-8")
    table = pd.DataFrame({"title": list(FILMS), "director": [who for who, *_ in FILMS.values()], "gross": 10})
    with closing(sqlite3.connect(tmp_path / "films.sqlite")) as database:
        table.to_sql("films", database, index=False)
    store = ox.Store()
    store.bulk_load(graph.read_bytes(), ox.RdfFormat.N_TRIPLES)
    with OxigraphServer(store) as endpoint, OpenAIServer(RuleScript(), models=()) as model:
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            monkeypatch.setenv(name, str(tmp_path / "state"))
        for name, value in {
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "x",
            "NO_PROXY": "127.0.0.1",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.chdir(tmp_path)
        stand_ins = {"https://dbpedia.org/sparql": endpoint.url, "http://localhost:8890/sparql": endpoint.url}
        stand_ins |= {"http://localhost:8000/v1": model.url, "...": "Who directed Alien?"}
        named = {f"dbp={address}": f"dbp={stand_in}" for address, stand_in in stand_ins.items()}
        yield lambda word: (stand_ins | named).get(word, word)


@pages_with("sh")
def test_commands_run(page: Path, reader: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    """Those of triplewise; how it is installed and served is not repeated here."""
    for block in blocks(page, "sh"):
        for words in commands(block):
            if words[0] == "triplewise":
                *words, sign, file = words if ">" in words else [*words, "", ""]
                capsys.readouterr()
                code = run([reader(word) for word in words[1:]])
                if sign:
                    Path(file).write_text(capsys.readouterr().out, encoding="utf-8")
                with_model = "--model" in words  # which is scripted, and may find nothing
                assert code in ((0, 1, 4) if with_model else (0,)), (words, capsys.readouterr().err)


@pages_with("console")
def test_commands_print_what_is_shown(
    page: Path, reader: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    for block in blocks(page, "console"):
        line, _, shown = block.removeprefix("$ ").partition("\n")
        make = re.fullmatch(r'make ask Q=("[^"]*")', line)
        run(shlex.split(f"ask {make[1]}" if make else line)[0 if make else 1 :])
        printed, shown = (re.sub(r"\d+%", "N%", text) for text in (capsys.readouterr().out, shown))
        same = doctest.OutputChecker().check_output(
            shown, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        )
        assert same, f"{line}\n{printed}"


def test_every_command_and_option_that_is_mentioned_exists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of what cannot be run here: other servers, real models, benchmarks."""
    invoke = typer.core.TyperCommand.invoke
    monkeypatch.setattr(
        typer.core.TyperCommand, "invoke", lambda self, ctx: invoke(self, ctx) if self.name == "eval" else 0
    )
    group = typer.core.TyperGroup.invoke
    monkeypatch.setattr(
        typer.core.TyperGroup,
        "invoke",
        lambda self, ctx: 0 if self.name == "serve" and not ctx._protected_args else group(self, ctx),
    )
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [words for block in blocks(page, "sh notest") for words in commands(block)]
        lines += [shlex.split(mentioned) for mentioned in re.findall(r"`(triplewise [^`|\n\[]*)`", text)]
        for words in lines:
            if "triplewise" in words and run(words[words.index("triplewise") + 1 :]):
                message = capsys.readouterr().err
                if re.search(r"No such|nexpected", message):
                    wrong.append((page.name, " ".join(words), message))
    assert wrong == []


@pytest.mark.parametrize("page", ["docs/ablations.md", "evals/README.md"])
def test_the_grids_are_valid(page: str, tmp_path: Path) -> None:
    for text in blocks(ROOT / page, "yaml"):
        path = tmp_path / "grid.yaml"
        path.write_text(text, encoding="utf-8")
        assert cells_of(load_grid(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel", reason="pip install ipykernel nbclient")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / ".ns"))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "strip the outputs"
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}
    ).execute()


def test_every_preset_is_explained() -> None:
    assert [name for name in PRESETS if f"| `{name}`" not in README] == []


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 200
