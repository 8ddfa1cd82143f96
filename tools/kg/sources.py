"""Reading graph files as streams of quads: RDF formats, `subject|relation|object` text, label tables.

Files may be larger than memory, and plain, gzip, zstd or bzip2. A broken line is reported with its number,
and the reading goes on or stops as asked.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, cast
from typing import Literal as OneOf

import pyoxigraph as ox

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import IRI, RDF, XSD
from triplewise.tools.kg.profile import Profile

OnError = OneOf["skip", "stop"]
Progress = Callable[[str, int, "int | None"], None]

FORMATS = {
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".ntriples": ox.RdfFormat.N_TRIPLES,
    ".nq": ox.RdfFormat.N_QUADS,
    ".nquads": ox.RdfFormat.N_QUADS,
    ".ttl": ox.RdfFormat.TURTLE,
    ".turtle": ox.RdfFormat.TURTLE,
    ".trig": ox.RdfFormat.TRIG,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".xml": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
}
TEXT, LABELS = (".txt", ".psv"), (".tsv",)
COMPRESSIONS = (".gz", ".zst", ".bz2")
CUT = "cut.json"
"""What `triplewise kg cut` did, beside the files that it made; their names are the keys of `files`."""
BLANK = "urn:triplewise:blank:"
"""Blank nodes become IRIs of this namespace: a query cannot name a blank node."""

_LINE_FORMATS = (ox.RdfFormat.N_TRIPLES, ox.RdfFormat.N_QUADS)
_KEPT = 100
_EVERY = 20_000
_MANY = 3_000_000


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that could not be used. `line` is None where the format cannot tell."""

    path: Path
    line: int | None
    message: str


def feed_for(profile: Profile | None, on_error: OnError = "stop", progress: Progress | None = None) -> Feed:
    """A feed that knows the profile's type predicates."""
    kinds = frozenset(profile.type_predicates) if profile is not None else frozenset()
    return Feed(on_error, progress, kinds | {RDF + "type"})


@dataclass
class Feed:
    """Streams sources and keeps account of what went by.

    Attributes:
        on_error: what to do with a broken line.
        progress: told the stage, bytes read and bytes in all.
        triples: facts read so far. broken, broken_count: the first 100 broken lines, and how many in all.
        popularity: number of facts by node. On graphs of many millions of nodes, nodes seen once are
            forgotten from time to time (lossy counting): a lower bound, right for those that matter.
        type_predicates: their objects gain no popularity: a class is not known by its instances.
        predicates: relations seen. prefixes: prefixes the files declare.
    """

    on_error: OnError = "stop"
    progress: Progress | None = None
    type_predicates: frozenset[str] = frozenset({RDF + "type"})
    triples: int = 0
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    popularity: Counter[str] = field(default_factory=Counter)
    predicates: set[str] = field(default_factory=set)
    prefixes: dict[str, str] = field(default_factory=dict)

    def facts(self, sources: Sequence[Path], profile: Profile | None) -> Iterator[ox.Quad]:
        """All facts of the sources. `profile` says what ids the names of a text file become."""
        for number, path in enumerate(sources):
            with opened(path) as stream:
                if _kind(path) in TEXT:
                    yield from self._text(path, stream, profile)
                else:
                    yield from self._rdf(path, stream, number)

    def labels(self, sources: Sequence[Path], profile: Profile) -> Iterator[ox.Quad]:
        """Label, description and alias facts of label tables: id, label[, description[, aliases]]."""
        for path in sources:
            with opened(path) as stream:
                for line, text in self._lines(path, stream):
                    yield from self._label(path, line, text, profile)

    def _rdf(self, path: Path, stream: Counted, number: int) -> Iterator[ox.Quad]:
        form = FORMATS[_kind(path)]
        source: Any = _Checked(stream) if form in _LINE_FORMATS else stream
        parser = ox.parse(input=source, format=form, base_iri=_base(path, form))
        last_line: int | None = -1
        while True:
            try:
                for quad in parser:
                    yield self._count(_named(quad, number), path, stream)
            except SyntaxError as error:
                if error.lineno != last_line:
                    self._reject(path, error.lineno, str(error.msg or error))
                last_line = error.lineno
                if error.lineno is None or "end of file" in str(error):
                    return
                continue
            except OSError as error:
                raise DataError(f"cannot be read to its end: {error}", path) from error
            self.prefixes.update({k: v for k, v in (parser.prefixes or {}).items() if k})
            return

    def _text(self, path: Path, stream: Counted, profile: Profile | None) -> Iterator[ox.Quad]:
        if profile is None or not (profile.percent_names and profile.entity_namespaces):
            raise DataError("a text file of names needs a profile that makes ids from names: names", path)
        labelled: set[str] = set()
        predicate = ox.NamedNode(profile.label_predicates[0])
        for line, text in self._lines(path, stream):
            parts = [part.strip() for part in text.split("|")]
            if len(parts) != 3 or not all(parts):
                self._reject(path, line, f"expected `subject|relation|object`, got {text[:80]!r}")
                continue
            subject, relation, value = parts
            nodes = [ox.NamedNode(profile.name_iri(name).value) for name in (subject, value)]
            edge = ox.NamedNode(profile.name_iri(relation, relation=True).value)
            yield self._count(ox.Quad(nodes[0], edge, nodes[1]), path, stream)
            for node, name in zip(nodes, (subject, value), strict=True):
                if name not in labelled:
                    labelled.add(name)
                    yield ox.Quad(node, predicate, ox.Literal(name, language=profile.language))
            if len(labelled) > _MANY:
                labelled.clear()

    def _label(self, path: Path, line: int, text: str, profile: Profile) -> Iterator[ox.Quad]:
        fields = [field.strip() for field in text.split("\t")]
        iri = profile.expand(fields[0]) if fields[0] else None
        if iri is None or not 2 <= len(fields) <= 4:
            what = "no id of this graph" if len(fields) > 1 else "no label"
            self._reject(path, line, f"{what}: expected `id<TAB>label[<TAB>description]`, got {text[:80]!r}")
            return
        node = ox.NamedNode(profile.label_subject(iri).value)
        aliases = fields[3].split("|") if len(fields) > 3 else []
        kinds = (
            (profile.label_predicates, fields[1:2]),
            (profile.description_predicates or _DESCRIPTION, fields[2:3]),
            (profile.alias_predicates or _ALIAS, aliases),
        )
        for predicates, values in kinds:
            for value in filter(None, values):
                literal = ox.Literal(value, language=profile.language)
                yield ox.Quad(node, ox.NamedNode(predicates[0]), literal)

    def _lines(self, path: Path, stream: Counted) -> Iterator[tuple[int, str]]:
        """Numbered lines of a text file that are not empty."""
        try:
            for number, raw in numbered_lines(stream):
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    self._reject(path, number, "not UTF-8")
                    continue
                if text.strip():
                    yield number, text
                if number % _EVERY == 0:
                    self._tell(path, stream)
        except OSError as error:
            raise DataError(f"cannot be read to its end: {error}", path) from error

    def _count(self, quad: ox.Quad, path: Path, stream: Counted) -> ox.Quad:
        self.triples += 1
        relation, value = quad.predicate.value, quad.object
        self.predicates.add(relation)
        if isinstance(value, ox.NamedNode):
            self.popularity[quad.subject.value] += 1  # type: ignore[union-attr]
            if relation not in self.type_predicates:
                self.popularity[value.value] += 1
        else:
            # Texts, which are mostly names and descriptions, make nobody known; but the node is there.
            known = isinstance(value, ox.Literal) and value.datatype.value not in _TEXT_TYPES
            self.popularity[quad.subject.value] += known  # type: ignore[union-attr]
        if self.triples % _EVERY == 0:
            self._tell(path, stream)
            if len(self.popularity) > _MANY:
                self.popularity = Counter({k: n for k, n in self.popularity.items() if n > 1})
        return quad

    def _reject(self, path: Path, line: int | None, message: str) -> None:
        if self.on_error == "stop":
            raise DataError(message, path, line)
        self.broken_count += 1
        if len(self.broken) < _KEPT:
            self.broken.append(Broken(path, line, message))

    def tell(self, stage: str, done: int = 0, total: int | None = None) -> None:
        """Report a stage, and its length where that is known."""
        if self.progress is not None:
            self.progress(stage, done, total)

    def _tell(self, path: Path, stream: Counted) -> None:
        if self.progress is not None:
            self.progress(f"reading {path.name}", stream.position, stream.size)


_TEXT_TYPES = frozenset({XSD + "string", RDF + "langString"})
_DESCRIPTION = ("http://schema.org/description",)
_ALIAS = ("http://www.w3.org/2004/02/skos/core#altLabel",)


class Counted(io.RawIOBase):
    """A decompressed file that knows how far into the file on disk it is."""

    def __init__(self, path: Path) -> None:
        self._raw = _open_raw(path)
        self.size = path.stat().st_size
        self._inner, self._failures = _decompressed(path, self._raw)

    @property
    def position(self) -> int:
        """Bytes of the file on disk read so far."""
        return self._raw.tell()

    def readable(self) -> bool:
        """Always true."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Decompressed bytes. Raises OSError for a broken archive, whatever its library raises."""
        try:
            return self._inner.read(size)
        except self._failures as error:
            raise OSError(f"broken archive: {error}") from error

    def readinto(self, buffer: Any, /) -> int:
        """Decompressed bytes into a buffer."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._inner.close()
            self._raw.close()
        super().close()


class _Checked:
    """A line-based file in which a line that is not UTF-8 is replaced by one that does not parse.

    The parser would otherwise drop the whole rest of the file behind such a line.
    """

    def __init__(self, stream: Counted) -> None:
        self._stream = stream
        self._left = self._ready = b""

    def read(self, size: int = 1 << 20, /) -> bytes:
        """Up to `size` bytes."""
        if not self._ready:
            self._ready = readable_lines(self._whole_lines())
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def _whole_lines(self) -> bytes:
        """The next block of the file, cut at the end of a line where it has one."""
        data, more, cut = self._left, b"?", 0
        while more and not cut:
            more = self._stream.read(1 << 18)
            data += more
            cut = data.rfind(b"\n") + 1
        if not more:
            cut = len(data)
        self._left = data[cut:]
        return data[:cut]


def opened(path: Path) -> Counted:
    """Open a file for reading, decompressed by its suffix.

    Raises:
        DataError: no such file, or not one that can be read.
    """
    try:
        return Counted(path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error


def within(path: Path) -> list[Path]:
    """The files that a source stands for: itself, or those of a folder made by `triplewise kg cut`.

    Raises:
        DataError: another folder, a cut that was broken off, or one whose files have changed.
    """
    if not path.is_dir():
        return [path]
    try:
        files = json.loads((path / CUT).read_text(encoding="utf-8"))["files"]
        sizes = {path / name: int(facts["bytes"]) for name, facts in files.items()}
    except FileNotFoundError as error:
        begun = (path / ".work").exists()
        mend = "run the same `triplewise kg cut` again" if begun else "name the files in it"
        raise DataError(f"a folder without a finished cut; {mend}", path) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"cannot be read ({error!r}); cut again", path / CUT) from error
    for file, size in sizes.items():
        if not file.is_file() or file.stat().st_size != size:
            raise DataError("not as the cut left it; cut again", file)
    return list(sizes)


def check(path: Path) -> None:
    """Raise DataError unless the path is a file of a known format."""
    if not path.exists():
        raise DataError("no such file", path)
    if path.is_dir():
        raise DataError("a folder, where a file was expected", path)
    if _kind(path) not in (*FORMATS, *TEXT, *LABELS):
        legal = ", ".join([*FORMATS, *TEXT, *LABELS])
        raise DataError(f"unknown format; known suffixes (also with .gz, .zst or .bz2): {legal}", path)


def is_labels(path: Path) -> bool:
    """Whether a file is a label table by its suffix."""
    return _kind(path) in LABELS


def is_text(path: Path) -> bool:
    """Whether a file is `subject|relation|object` text by its suffix."""
    return _kind(path) in TEXT


def is_lines(path: Path) -> bool:
    """Whether a file is N-Triples by its suffix."""
    return FORMATS.get(_kind(path)) == ox.RdfFormat.N_TRIPLES


def numbered_lines(stream: Counted) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, from 1."""
    return enumerate(io.BufferedReader(cast(Any, stream)), 1)


def _kind(path: Path) -> str:
    name = path.name.lower()
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    return Path(name).suffix


def _base(path: Path, form: ox.RdfFormat) -> str | None:
    return None if form in _LINE_FORMATS else path.absolute().as_uri()


def _open_raw(path: Path) -> BinaryIO:
    return path.open("rb")


def _decompressed(path: Path, raw: BinaryIO) -> tuple[IO[bytes], tuple[type[Exception], ...]]:
    """The decompressed stream, and what its library raises for a broken archive."""
    if path.name.lower().endswith(".gz"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw)), (EOFError, zlib.error)
    if path.name.lower().endswith(".zst"):
        import zstandard

        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return cast(IO[bytes], reader), (zstandard.ZstdError,)
    if path.name.lower().endswith(".bz2"):
        return cast(IO[bytes], bz2.BZ2File(raw)), (EOFError,)
    return raw, ()


def readable_lines(data: bytes) -> bytes:
    """Whole lines, with `not UTF-8` in the place of each that is not."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return b"".join(line if _is_utf8(line) else b"not UTF-8\n" for line in data.splitlines(keepends=True))
    return data


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _named(quad: ox.Quad, source: int) -> ox.Quad:
    """The quad with its blank nodes as IRIs, distinct by source file."""
    subject, value = quad.subject, quad.object
    if not (isinstance(subject, ox.BlankNode) or isinstance(value, ox.BlankNode)):
        return quad
    return ox.Quad(_iri(subject, source), quad.predicate, _iri(value, source), quad.graph_name)


def _iri(term: Any, source: int) -> Any:
    if isinstance(term, ox.BlankNode):
        return ox.NamedNode(IRI(f"{BLANK}{source}-{term.value}").value)
    return term
