import bz2
import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.tools.kg.subset.conftest import LABEL, E, Fact, node, random_graph, read_facts, walk, write_facts
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.subset.extract import LABELS, TRIPLES, SubsetReport, SubsetSpec, extract_subset

FILES = (TRIPLES, LABELS, "cut.json")


def cut(folder: Path, facts: list[Fact], seeds: list[str], **order: Any) -> SubsetReport:
    dump = write_facts(folder / "dump.nt", facts)
    (folder / "seeds.txt").write_text("\n".join(seeds))
    settings = SubsetSpec(**order)
    return extract_subset(folder / "seeds.txt", [dump], folder / "cut", settings, overwrite=True)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graph=st.integers(0, 10_000),
    hops=st.integers(1, 3),
    limit=st.sampled_from([0, 1, 2, 4]),
    first=st.integers(1, 30),
)
def test_a_cut_is_what_a_walk_reaches(
    tmp_path_factory: pytest.TempPathFactory, graph: int, hops: int, limit: int, first: int
) -> None:
    folder, facts = tmp_path_factory.mktemp("cut"), random_graph(graph)
    seeds = [node(first), node(7)]
    report = cut(folder, facts, seeds, hops=hops, hub_limit=limit)
    expected = walk(facts, seeds, hops, limit)
    found = read_facts(folder / "cut" / TRIPLES)
    assert found == sorted(set(found))
    assert set(found) == expected.triples
    assert sum(hop.triples for hop in report.hops) == report.triples == len(found)
    assert {h.number: h.hubs for h in report.hops if h.hubs} == Counter(h[0] for h in expected.hubs)
    named = {term for s, _, o in expected.triples for term in (s, o)} | set(seeds)
    labels = {fact for fact in facts if fact[1] == LABEL and fact[0] in named}
    assert set(read_facts(folder / "cut" / LABELS)) == labels


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("d.nt", bytes),
        ("d.nt.gz", gzip.compress),
        ("d.nt.bz2", bz2.compress),
        ("d.nt.zst", zstandard.compress),
    ],
)
def test_every_compression_gives_the_same(
    tmp_path: Path, name: str, packed: Callable[[bytes], bytes]
) -> None:
    plain = write_facts(tmp_path / "plain.nt", random_graph(1))
    (tmp_path / name).write_bytes(packed(plain.read_bytes()))
    (tmp_path / "seeds.txt").write_text(node(1))
    extract_subset(tmp_path / "seeds.txt", [plain], tmp_path / "a")
    extract_subset(tmp_path / "seeds.txt", [tmp_path / name], tmp_path / "b")
    for file in (TRIPLES, LABELS):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_bad_lines_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    good = f"{node(1)} <{E}p> {node(2)} .\r\n# a comment\n\n"
    bad = b"no triple\n" + b"<http://e.example/\xff> <p:p> <o:o> .\n"
    (tmp_path / "d.nt").write_bytes(good.encode() * 20 + bad + good.encode())
    (tmp_path / "seeds.txt").write_text(node(1))
    report = extract_subset(tmp_path / "seeds.txt", [tmp_path / "d.nt"], tmp_path / "cut")
    source = report.sources[0]
    assert (source.triples, source.bad_lines, source.first_bad) == (21, 2, 61)
    assert source.message
    written = json.loads((tmp_path / "cut" / "cut.json").read_text())["sources"][0]
    assert (written["bad_lines"], written["first_bad"]) == (2, 61)


def test_the_result_loads_and_answers(tmp_path: Path) -> None:
    wd, wdt = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
    (tmp_path / "d.nt").write_text(
        f'<{wd}Q1> <{wdt}P19> <{wd}Q2> .\n<{wd}Q2> <{wdt}P17> _:b1 .\n_:b1 <{wdt}P1> "caf\\u00E9\\t\\"" .\n'
        f'<{wd}Q9> <{wdt}P19> <{wd}Q8> .\n<{wd}Q1> <http://schema.org/version> "7" .\n'
    )
    (tmp_path / "labels.tsv").write_text("Q1\tAda\tmathematician\nP19\tplace of birth\nQ2\tLondon\nQ9\tBob\n")
    (tmp_path / "seeds.tsv").write_text("Q1\tAda\nQ77 # gone\nwhat\n")
    dumps = [tmp_path / "d.nt", tmp_path / "labels.tsv"]
    report = extract_subset(tmp_path / "seeds.tsv", dumps, tmp_path / "cut", profile="wikidata")
    assert (report.triples, report.left_out, report.unknown) == (3, 1, ("what", "Q77"))
    load_kg([tmp_path / "cut"], tmp_path / "kg", profile="wikidata")
    kg = open_kg(tmp_path / "kg")
    path = f"<{wdt}P19>/<{wdt}P17>/<{wdt}P1>"
    query = f"SELECT ?v ?l ?r {{ <{wd}Q1> {path} ?v ; {LABEL} ?l . <{wd}P19> {LABEL} ?r }}"
    rows = kg.query(query).rows
    kg.close()
    assert [tuple(term.value for term in row if term) for row in rows] == [
        ('café\t"', "Ada", "place of birth")
    ]
    names = gzip.decompress((tmp_path / "cut" / LABELS).read_bytes()).decode()
    assert "mathematician" in names
    assert "Bob" not in names


def test_a_killed_cut_leaves_nothing_and_gives_the_same(tmp_path: Path) -> None:
    write_facts(tmp_path / "d.nt", random_graph(3, nodes=200, edges=3_000))
    (tmp_path / "seeds.txt").write_text(f"{node(1)}\n{node(5)}\n")
    script = tmp_path / "run.py"
    script.write_text(
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from triplewise.tools.kg.subset import extract\n"
        "from triplewise.tools.kg.subset.extract import SubsetSpec, extract_subset\n"
        "name = '_extract' if sys.argv[2] == 'hops' else '_stage'\n"
        "done = getattr(extract, name)\n"
        "def killed(*arguments):\n"
        "    result = done(*arguments)\n"
        "    if sys.argv[2]:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return result\n"
        "setattr(extract, name, killed)\n"
        "extract_subset('seeds.txt', ['d.nt'], sys.argv[1], SubsetSpec(hops=2, hub_limit=20))\n"
    )

    def run(into: str, kill_after: str) -> int:
        command = [sys.executable, str(script), into, kill_after]
        return subprocess.run(command, cwd=tmp_path, check=False, timeout=120).returncode

    assert run("whole", "") == 0
    for after in ("stage", "hops"):
        assert run("broken", after) == -signal.SIGKILL
        assert not (tmp_path / "broken").exists()
    assert run("broken", "") == 0
    for file in FILES:
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "broken" / file).read_bytes()
    assert sorted(p.name for p in (tmp_path / "broken").iterdir()) == sorted(FILES)
    assert not list(tmp_path.glob(".broken*"))


def test_mistakes_name_the_remedy(tmp_path: Path) -> None:
    dump = write_facts(tmp_path / "d.nt", random_graph(5))
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(node(1))

    def error(kind: type[Exception], match: str, **change: Any) -> None:
        given: dict[str, Any] = {"seeds": seeds, "dumps": [dump], "into": tmp_path / "cut"} | change
        with pytest.raises(kind, match=match):
            extract_subset(**given)

    error(DataError, "no such file", dumps=[tmp_path / "none.nt"])
    (tmp_path / "d.nt.xz").write_bytes(b"")
    error(DataError, r"known suffixes \(also with \.gz, \.zst or \.bz2\)", dumps=[tmp_path / "d.nt.xz"])
    error(ConfigurationError, "at least one dump", dumps=[])
    (tmp_path / "empty.txt").write_text("# nothing\n")
    error(DataError, "no seeds found: write one id", seeds=tmp_path / "empty.txt")
    (tmp_path / "ids.txt").write_text("Q1\n")
    error(DataError, "'Q1' are not ids of the profile 'generic'.*--profile", seeds=tmp_path / "ids.txt")
    (tmp_path / "far.txt").write_text("http://far.example/x\n")
    error(DataError, "none of the 1 seeds is in the dump", seeds=tmp_path / "far.txt")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    error(ConfigurationError, "exists already; name another folder", into=tmp_path / "full")
    error(ConfigurationError, "memory 'much' is not a size", memory="much")
    extract_subset(seeds, [dump], tmp_path / "cut")
    error(ConfigurationError, "--overwrite")


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    dump = write_facts(tmp_path / "d.nt", random_graph(6))
    with dump.open("a") as file:
        file.write("nonsense\n")
    (tmp_path / "seeds.txt").write_text(f"{node(1)}\nhttp://far.example/x\n")
    base = [sys.executable, "-m", "triplewise.graphs", "kg"]
    command = [*base, "cut", "--seeds", "seeds.txt", "--from", "d.nt", "--into", "part", "--hops", "2"]
    env = os.environ | {"COLUMNS": "200"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120
        )

    done = run(*command)
    assert done.returncode == 0, done.stderr
    assert "hop 2" in done.stdout
    assert "triplewise kg load" in done.stdout
    assert "1 lines left out; the first is d.nt:" in done.stderr
    assert "1 seeds are not in the dump" in done.stderr
    again = run(*command)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert run(*base, "load", "part", "--into", "kg").returncode == 0
