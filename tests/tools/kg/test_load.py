import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings, strategies as st

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import LONGEST_LINE
from triplewise.tools.core.terms import IRI, RDFS
from triplewise.tools.kg import open as opening, open_kg
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.open import read_manifest

E = "http://e.example/"
NT = "".join(f"<{E}s{i}> <{E}p> <{E}o{i % 7}> .\n" for i in range(50))
TURTLE = f"@prefix e: <{E}> .\ne:a e:p e:b ; e:q [ e:r e:c ] ."
XML = f"""<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="{E}">
<rdf:Description rdf:about="{E}a"><e:p rdf:resource="{E}b"/></rdf:Description></rdf:RDF>"""


def count(store: Path) -> int:
    kg = open_kg(store)
    value = kg.query("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }").rows[0][0]
    kg.close()
    assert value is not None
    return int(value.value)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of `NT`."""
    folder = tmp_path_factory.mktemp("loaded")
    return load_kg([write(folder / "a.nt", NT)], folder / "kg").path


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "content", "triples"),
    [
        ("a.nt", NT, 50),
        ("a.nq", f"<{E}a> <{E}p> <{E}b> <{E}g> .\n", 1),
        ("a.ttl", TURTLE, 3),
        ("a.trig", f"<{E}g> {{ <{E}a> <{E}p> <{E}b> }}", 1),
        ("a.rdf", XML, 1),
        ("a.nt.gz", gzip.compress(NT.encode(), mtime=0), 50),
        ("a.nt.zst", zstandard.compress(NT.encode()), 50),
        ("a.txt", "Up|directed_by|Pete Docter\nUp|release_year|2009\n", 5),
    ],
)
def test_every_format_loads(tmp_path: Path, name: str, content: str | bytes, triples: int) -> None:
    report = load_kg([write(tmp_path / name, content)], tmp_path / "kg")
    assert report.triples == triples == count(tmp_path / "kg")
    assert not report.broken
    assert sorted(p.name for p in (tmp_path / "kg").iterdir()) == [
        "manifest.json", "names", "profile.yaml", "store",
    ]  # fmt: skip


def test_labels_become_facts_and_are_indexed(tmp_path: Path) -> None:
    facts = write(
        tmp_path / "a.nt",
        "<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P19> "
        "<http://www.wikidata.org/entity/Q2> .\n",
    )
    rows = "Q1\tUniverse\tall there is\tCosmos|Everything\nQ2\tEarth\t\nP19\tplace of birth\t\n"
    report = load_kg([facts, write(tmp_path / "l.tsv", rows)], tmp_path / "kg", profile="wikidata")
    assert report.names == 4
    kg = open_kg(tmp_path / "kg")
    assert kg.index is not None
    (entry,) = kg.index.exact("cosmos")
    assert (entry.label, entry.alias, entry.description) == ("Universe", True, "all there is")
    assert kg.index.exact("place of birth") == ()
    relation = IRI("http://www.wikidata.org/prop/direct/P19")
    assert kg.labels([relation, entry.iri]) == {relation: "place of birth", entry.iri: "Universe"}
    kg.close()


def test_a_broken_line_stops_the_load_or_is_left_out(tmp_path: Path) -> None:
    broken = (
        NT
        + f"<{E}a> broken .\n"
        + f'<{E}x> <{E}p> "\udcff" .\n'.encode(errors="surrogateescape").decode("latin-1")
        + f"<{E}y> <{E}p> <{E}z> .\n"
    )
    source = write(tmp_path / "a.nt", broken.replace("\xff", "\0").encode().replace(b"\0", b"\xff"))
    with pytest.raises(DataError, match=r"a\.nt:51: "):
        load_kg([source], tmp_path / "kg")
    assert [p.name for p in tmp_path.iterdir()] == ["a.nt"]
    report = load_kg([source], tmp_path / "kg", on_error="skip")
    assert report.triples == 51
    assert [b.line for b in report.broken] == [51, 52]
    assert report.broken_count == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.nt.gz", gzip.compress(NT.encode(), mtime=0)[:-20]),
        ("a.nt.zst", zstandard.compress(NT.encode() * 99)[:-9] + b"garbage.."),
        ("a.nt.gz", b"this is no gzip"),
    ],
)
def test_a_broken_archive_is_an_error_and_leaves_nothing(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(DataError, match=name):
        load_kg([write(tmp_path / name, content)], tmp_path / "kg", on_error="skip")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_what_cannot_be_loaded_is_said_first(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load_kg([tmp_path / "nope.nt"], tmp_path / "kg")
    with pytest.raises(DataError, match="download the file first") as caught:
        load_kg([Path("http://me:secret@127.0.0.1/x.nt")], tmp_path / "kg")
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match=r"unknown format.*\.ttl"):
        load_kg([write(tmp_path / "a.docx", "")], tmp_path / "kg")
    with pytest.raises(ConfigurationError, match="nothing to load"):
        load_kg([], tmp_path / "kg")
    with pytest.raises(ConfigurationError, match="unknown profile"):
        load_kg([write(tmp_path / "a.nt", NT)], tmp_path / "kg", profile="wiki")


def test_an_existing_store_is_replaced_only_when_asked(tmp_path: Path) -> None:
    source = write(tmp_path / "a.nt", NT)
    load_kg([source], tmp_path / "kg")
    with pytest.raises(ConfigurationError, match="exists already; --replace"):
        load_kg([source], tmp_path / "kg")
    smaller = write(tmp_path / "b.nt", f"<{E}a> <{E}p> <{E}b> .\n")
    load_kg([smaller], tmp_path / "kg", replace=True)
    assert count(tmp_path / "kg") == 1
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine" / "thesis.txt", "precious")
    with pytest.raises(ConfigurationError, match="choose another place"):
        load_kg([smaller], tmp_path / "mine", replace=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


LOAD = """
import sys
from triplewise.tools.kg.load import load_kg
print("started", flush=True)
load_kg([sys.argv[1]], sys.argv[2], replace=True)
"""


def start_load(source: Path, target: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LOAD, str(source), str(target)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def wait_for_leftover(folder: Path) -> None:
    deadline = time.monotonic() + 20
    while not list(folder.glob(".kg.loading-*/store/*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
@pytest.mark.parametrize("before", [False, True])
def test_kill_9_leaves_no_half_store_and_the_next_load_cleans_up(tmp_path: Path, before: bool) -> None:
    big = write(tmp_path / "big.nt", "".join(f"<{E}s{i}> <{E}p> <{E}o{i % 99}> .\n" for i in range(400_000)))
    small = write(tmp_path / "small.nt", NT)
    if before:
        load_kg([small], tmp_path / "kg")
    process = start_load(big, tmp_path / "kg")
    wait_for_leftover(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    assert list(tmp_path.glob(".kg.loading-*"))
    if before:
        assert count(tmp_path / "kg") == 50
    else:
        with pytest.raises(DataError, match="no such knowledge graph"):
            open_kg(tmp_path / "kg")
    load_kg([small], tmp_path / "kg", replace=True)
    assert count(tmp_path / "kg") == 50
    assert sorted(p.name for p in tmp_path.iterdir()) == ["big.nt", "kg", "small.nt"]


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_a_second_load_waits_for_the_first(tmp_path: Path) -> None:
    big = write(tmp_path / "big.nt", "".join(f"<{E}s{i}> <{E}p> <{E}o{i % 99}> .\n" for i in range(100_000)))
    process = start_load(big, tmp_path / "kg")
    wait_for_leftover(tmp_path)
    stages: list[str] = []
    load_kg(
        [write(tmp_path / "small.nt", NT)],
        tmp_path / "kg",
        replace=True,
        progress=lambda stage, *_: stages.append(stage),
    )
    assert stages[0] == "waiting for another process that makes kg"
    assert process.wait() == 0
    assert process.stdout is not None
    process.stdout.close()
    assert count(tmp_path / "kg") == 50


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_an_equal_load_takes_what_the_first_made(tmp_path: Path) -> None:
    big = write(tmp_path / "big.nt", "".join(f"<{E}s{i}> <{E}p> <{E}o{i % 99}> .\n" for i in range(100_000)))
    process = start_load(big, tmp_path / "kg")
    wait_for_leftover(tmp_path)
    assert load_kg([big], tmp_path / "kg").triples == 100_000
    assert process.wait() == 0
    assert process.stdout is not None
    process.stdout.close()
    with pytest.raises(ConfigurationError, match="exists already"):
        load_kg([big], tmp_path / "kg")


@pytest.mark.parametrize("name", ["long.nt", "long.ttl"])
def test_a_term_beyond_measure_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    literal = "x" * (LONGEST_LINE + 1_000_000)
    source = write(tmp_path / name, f'<{E}a> <{E}p> <{E}b> .\n<{E}a> <{E}p> "{literal}" .\n')
    with pytest.raises(DataError, match=r"longer than 16,777,216") as error:
        load_kg([source], tmp_path / "kg")
    assert error.value.line == 2


def test_a_datatype_is_no_value(tmp_path: Path) -> None:
    xsd = "http://www.w3.org/2001/XMLSchema#"
    schema = f"<{E}born> <http://www.w3.org/2000/01/rdf-schema#range> <{xsd}date> .\n"
    lines = f"<{E}a> <{E}born> <{xsd}date> .\n{schema}"
    assert load_kg([write(tmp_path / "a.nt", NT + lines)], tmp_path / "kg").triples == 51
    kg = open_kg(tmp_path / "kg")
    assert kg.query(f"SELECT ?o {{ <{E}born> ?p ?o }}").rows == ()
    assert len(kg.query(f"SELECT (DATATYPE(1) AS ?o) {{ <{E}born> ?p ?x }}").rows) == 1
    kg.close()


def test_a_load_that_died_between_its_renames_gives_the_old_store_back(tmp_path: Path) -> None:
    source = write(tmp_path / "a.nt", NT)
    load_kg([source], tmp_path / "kg")
    (tmp_path / "kg").rename(tmp_path / ".kg.old-x")
    with pytest.raises(ConfigurationError, match="exists already"):
        load_kg([source], tmp_path / "kg")
    assert count(tmp_path / "kg") == 50


@pytest.mark.parametrize(
    "name", ["store/CURRENT", "store/MANIFEST*", "names/*.store", "names/meta.json", "manifest.json"]
)
@pytest.mark.parametrize("left", [0.0, 0.5])
def test_a_damaged_store_is_named_and_loaded_again(
    loaded: Path, tmp_path: Path, name: str, left: float
) -> None:
    store = Path(shutil.copytree(loaded, tmp_path / "kg"))
    (damaged,) = store.glob(name)
    damaged.write_bytes(damaged.read_bytes()[: int(damaged.stat().st_size * left)])
    with pytest.raises(DataError, match=r"load the graph again: triplewise kg load .* --replace") as error:
        open_kg(store)
    assert str(damaged) in str(error.value)
    load_kg([write(tmp_path / "a.nt", NT)], store, replace=True)
    assert count(store) == 50


@pytest.mark.parametrize("name", ["names/*.idx", "names/*.store", "store/*.sst"])
def test_a_changed_byte_is_noticed(loaded: Path, tmp_path: Path, name: str) -> None:
    store = Path(shutil.copytree(loaded, tmp_path / "kg"))
    open_kg(store).close()
    damaged = max(store.glob(name), key=lambda path: path.stat().st_size)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0x20
    damaged.write_bytes(content)
    with pytest.raises(DataError, match=r"load the graph again: triplewise kg load .* --replace") as error:
        open_kg(store)
    assert str(damaged) in str(error.value)


def test_a_name_too_long_for_a_path_is_shown_in_part(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_kg(["http://127.0.0.1/" + "x" * 50_000], tmp_path / "kg")
    assert len(str(error.value)) < 5_000


def test_a_file_name_that_is_not_utf_8_is_one_like_others(tmp_path: Path) -> None:
    (folder := tmp_path / "rdf").mkdir()
    try:
        write(Path(os.fsdecode(bytes(folder) + b"/x\xfe.nt")), NT)
    except OSError:
        pytest.skip("the file system takes no such name")
    assert count(load_kg([folder], tmp_path / "kg").path) == 50
    assert open_kg(folder).query("ASK { ?s ?p ?o }").boolean


def test_checksums_are_compared_once(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_manifest(loaded)
    monkeypatch.setattr(opening, "sha256", lambda path: pytest.fail(f"{path} is read again"))
    read_manifest(loaded)


def test_a_label_index_that_is_damaged_once_it_is_open_never_panics(tmp_path: Path) -> None:
    facts = "".join(f'<{E}s{i}> <{RDFS}label> "Number {i * 7919} of the list" .\n' for i in range(3_000))
    folder = load_kg([write(tmp_path / "a.nt", facts)], tmp_path / "kg").path
    kg = open_kg(folder)
    assert kg.index is not None
    (file,) = folder.glob("names/*.idx")
    content = bytearray(file.read_bytes())
    for place in range(len(content) // 3, len(content) * 2 // 3, 97):
        content[place] ^= 0x20
    file.write_bytes(content)
    with suppress(DataError):
        kg.index.search("Number 7919 of the list", near=True)
    kg.close()


def test_a_missing_file_of_a_store_and_a_store_of_an_earlier_version(loaded: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(loaded, tmp_path / "kg"))
    (store / "names/meta.json").unlink()
    with pytest.raises(DataError, match=r"damaged.*load the graph again"):
        open_kg(store)
    manifest = json.loads((store / "manifest.json").read_text())
    write(store / "manifest.json", json.dumps(manifest | {"format": 1}))
    with pytest.raises(DataError, match=r"store format 1, this version reads 3.*triplewise kg load"):
        open_kg(store)


@settings(deadline=None, database=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_manifest_of_any_content_opens_the_graph_or_is_named(loaded: Path, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(shutil.copytree(loaded, Path(folder, "kg"))) / "manifest.json"
        manifest = json.loads(path.read_text())
        place = data.draw(st.sampled_from([manifest, manifest["files"], *manifest["files"].values()]))
        key = data.draw(st.sampled_from(sorted(place)))
        place[key] = data.draw(st.sampled_from([None, 5, -1, "x", [], {}, [5], {"x": 5}, 1e308, True]))
        if data.draw(st.booleans()):
            del place[key]
        path.write_text(data.draw(st.sampled_from([json.dumps(manifest), "[" * 100_000, "5", ""])))
        with suppress(DataError):
            read_manifest(path.parent)


def test_others_may_read_what_the_umask_lets_them(loaded: Path) -> None:
    assert {oct(p.stat().st_mode & 0o777) for p in loaded.rglob("*") if p.is_file()} == {
        oct((loaded / "profile.yaml").stat().st_mode & 0o777)
    }


@pytest.mark.parametrize("name", ["a.nt", "a.ttl", "a.rdf", "a.txt"])
def test_a_byte_order_mark_is_no_part_of_a_graph(tmp_path: Path, name: str) -> None:
    content = {"a.nt": NT, "a.ttl": TURTLE, "a.rdf": XML, "a.txt": "Up|made_by|Pete Docter"}[name]
    assert load_kg([write(tmp_path / name, BOM_UTF8 + content.encode())], tmp_path / "kg").triples


def test_a_graph_without_facts_is_an_error(tmp_path: Path) -> None:
    for open_ in (open_kg, lambda path: load_kg([path], tmp_path / "kg")):
        with pytest.raises(DataError, match=r"a\.ttl: holds no facts"):
            open_(write(tmp_path / "a.ttl", "@prefix e: <http://e/> ."))
    assert not (tmp_path / "kg").exists()


@pytest.mark.parametrize("content", ['<a> <b> "caf\xe9" .', '@prefix : <e:> . :a :b "caf\xe9" .'])
@pytest.mark.parametrize("ending", ["ttl", "nt"])
def test_text_that_is_not_utf_8_is_told_how_to_convert(tmp_path: Path, content: str, ending: str) -> None:
    with pytest.raises(DataError, match="iconv" if ending == "ttl" else r"a\.nt:1"):
        open_kg(write(tmp_path / f"a.{ending}", content.encode("latin-1")))


def test_a_damaged_store_is_named_with_the_way_out(tmp_path: Path) -> None:
    labels = "".join(f'<{E}s{i}> <{E}p> "a value of number {i * 7919}" .\n' for i in range(20_000))
    folder = load_kg([write(tmp_path / "a.nt", labels)], tmp_path / "kg").path
    kg = open_kg(folder)
    for file in (folder / "store").glob("*.sst"):
        content = bytearray(file.read_bytes())
        for place in range(1_000, len(content) - 10_000, 2_000):
            content[place] ^= 0xFF
        file.write_bytes(content)
    for foreign in (False, True):
        with pytest.raises(DataError, match=f"load the graph again with `triplewise kg load .*{folder}"):
            kg.query("SELECT ?o { ?s ?p ?o }", foreign=foreign)
    kg.close()
