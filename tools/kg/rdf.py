"""RDF terms and files by way of pyoxigraph: what goes into a store, and what comes out of it.

A blank node of a file becomes the IRI of a namespace of its own, since a query cannot name a blank node.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from os.path import exists
from pathlib import Path
from typing import Any, Literal as OneOf, cast

import pyoxigraph as ox

from triplewise.tools.core import files
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import TO_UTF8, Stream, numbered_lines
from triplewise.tools.core.terms import IRI, RDF, RDFS, XSD, Literal, Term, Triple, one_line
from triplewise.tools.kg.labels import Name
from triplewise.tools.kg.limits import TOO_LONG, LimitedText
from triplewise.tools.kg.profile import BLANK, Profile, node_name
from triplewise.tools.kg.protocol import is_datatype

OnError = OneOf["skip", "stop"]
Progress = Callable[[str, int, "int | None"], None]

MOST_PATHS = 100_000  # files and folders in a folder that is looked through for a graph
_EXTENSIONS = ("nt", "nq", "ttl", "trig", "rdf", "xml")
FORMATS = {f".{extension}": ox.RdfFormat.from_extension(extension) for extension in _EXTENSIONS}
FORMATS |= {".owl": ox.RdfFormat.RDF_XML, **dict.fromkeys((".jsonld", ".json"), ox.RdfFormat.JSON_LD)}
DATABASES = (".sqlite", ".sqlite3", ".db", ".duckdb", ".csv", ".parquet")
REMOTE_CONTEXT = "its @context is an address on the web, and none is fetched: write the context into the file"
TEXT, LABELS = ".txt", ".tsv"  # `subject|relation|object`, and tables of labels
COMPRESSIONS = (".gz", ".zst", ".bz2")
QUESTIONS_IN = ("de", "fr", "es")  # besides English; their grammar words: `tools/linking/languages.yaml`

# What is not UTF-8 is read as an escape that no format knows: its line is broken, the next ones are not.
_NOT_UTF8 = "\\\0"
codecs.register_error("triplewise.escape", lambda error: (_NOT_UTF8, cast("Any", error).end))
opened = partial(files.opened, errors="triplewise.escape", newline="\n")

_BROKEN_SHOWN, _EVERY, _MANY = 100, 20_000, 3_000_000  # broken lines kept; facts a report; nodes counted
_BEFORE_NUMBER = re.compile(r"(?<=[^\W\d_])(?=\d)")
_AROUND_NUMBER = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_ILLEGAL = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_TEXT_TYPES = {XSD + "string", RDF + "langString"}
_DESCRIPTION, _ALIAS = "http://schema.org/description", "http://www.w3.org/2004/02/skos/core#altLabel"
_OF_DATATYPES = {RDFS + "range", RDF + "type", RDFS + "subClassOf"}  # whose object may well be a datatype
_log = logging.getLogger(__name__)


def from_ox(term: Any) -> Term | None:
    """A term of a pyoxigraph result; None stays None (unbound)."""
    if term is None:
        return None
    if isinstance(term, ox.NamedNode):
        return safe_iri(term.value)
    if isinstance(term, ox.Literal):
        return Literal(term.value, term.datatype.value, term.language or "")
    if isinstance(term, ox.BlankNode):
        return safe_iri(f"_:{term.value}")
    return Literal(str(term), XSD + "string")


def parse_term(term: bytes | str) -> Term:
    """A term from its Turtle form, of which N-Triples is a part. Raises ValueError where it is none."""
    written = term.decode() if isinstance(term, bytes) else term
    return read_triple(f"<urn:s> <urn:p> {written} .", ox.RdfFormat.TURTLE).object


def read_triple(statement: str, form: ox.RdfFormat = ox.RdfFormat.N_TRIPLES) -> Triple:
    """The triple of a statement. Raises ValueError where it is none."""
    try:
        (quad,) = ox.parse(statement, format=form, lenient=True)
    except SyntaxError as error:
        raise ValueError(f"not RDF: {statement!r}") from error
    subject, relation, value = map(from_ox, (quad.subject, quad.predicate, quad.object))
    if not isinstance(subject, IRI) or not isinstance(relation, IRI) or value is None:
        raise ValueError(f"not a triple: {statement!r}")
    if isinstance(value, Literal) and value.language:  # the parser writes tags in lower case
        value = Literal(value.value, value.datatype, statement.rpartition("@")[2].rstrip(" .\n"))
    return Triple(subject, relation, value)


def safe_iri(value: str) -> IRI:
    """The IRI, with percent escapes for what stores sometimes hold although an IRI cannot."""
    try:
        return IRI(value)
    except ValueError:
        return IRI(_ILLEGAL.sub(lambda c: f"%{ord(c.group()):02X}", value) or "urn:empty")


def is_well_formed(iri: IRI) -> bool:
    """Whether every engine takes the IRI; a strict one refuses the whole query for the sake of one IRI."""
    try:
        ox.NamedNode(iri.value)
    except ValueError:
        return False
    return True


class GraphReader:
    """Reads files, of any size, as streams of quads and keeps account of what went by.

    A fact whose object is the IRI of a datatype lacks its value and is left out, except in a schema.

    Attributes:
        triples: facts read so far. broken, broken_count: the first 100 broken lines, and how many in all.
        popularity: number of facts by node, classes without their instances; a lower bound on graphs of many
            millions of nodes, where nodes seen once are forgotten from time to time (lossy counting).
        predicates: relations seen. prefixes: prefixes the files declare.
    """

    def __init__(
        self, profile: Profile | None = None, on_error: OnError = "stop", progress: Progress | None = None
    ) -> None:
        self._on_error = on_error
        self.tell: Progress = progress or (lambda stage, done, total: None)
        self._type_predicates = {RDF + "type", *(profile.type_predicates if profile is not None else ())}
        self.triples = self.broken_count = self.datatypes = 0
        self.broken: list[DataError] = []  # whose line is None where the format cannot tell
        self.popularity: Counter[str] = Counter()
        self.predicates: set[str] = set()
        self.prefixes: dict[str, str] = {}

    def facts(self, sources: Sequence[Path], profile: Profile | None, first: int = 0) -> Iterator[ox.Quad]:
        """All facts of the sources, numbered from `first`; `profile` makes ids of the names in text files."""
        for number, path in enumerate(sources, first):
            with opened(path) as stream:
                is_text = suffix_of(path) == TEXT
                yield from self._text(stream, profile) if is_text else self._rdf(stream, number)
        if not self.triples:
            raise DataError("holds no facts; give a file that does", sources[0] if sources else None)
        if self.datatypes:
            _log.warning("%d facts with a datatype in the place of a value were left out", self.datatypes)

    def labels(self, sources: Sequence[Path], profile: Profile) -> Iterator[ox.Quad]:
        """Label, description and alias facts of label tables: id, label[, description[, aliases]]."""
        describe, alias = (*profile.description_predicates, _DESCRIPTION), (*profile.alias_predicates, _ALIAS)
        kinds = [ox.NamedNode(predicates[0]) for predicates in (profile.label_predicates, describe, alias)]
        for path in sources:
            with opened(path) as stream:
                for line, text in self._lines(stream):
                    fields = [field.strip() for field in text.split("\t")]
                    iri = profile.expand(fields[0]) if fields[0] else None
                    if iri is None or not 2 <= len(fields) <= 4:
                        what = "no id of this graph" if len(fields) > 1 else "no label"
                        expected = "expected `id<TAB>label[<TAB>description]`"
                        self._reject(path, line, f"{what}: {expected}, got {text[:80]!r}")
                        continue
                    node = ox.NamedNode(profile.label_subject(iri).value)
                    aliases = fields[3].split("|") if len(fields) > 3 else []
                    for predicate, values in zip(kinds, (fields[1:2], fields[2:3], aliases), strict=True):
                        for value in filter(None, values):
                            yield ox.Quad(node, predicate, ox.Literal(value, language=profile.language))

    def count(self, quad: ox.Quad, stream: Stream | None = None) -> ox.Quad:
        """Take account of a fact, which comes from a stream."""
        self.triples += 1
        relation, value = quad.predicate.value, quad.object
        self.predicates.add(relation)
        if isinstance(value, ox.NamedNode):
            self.popularity[quad.subject.value] += 1  # type: ignore[union-attr]
            self.popularity[value.value] += relation not in self._type_predicates
        else:
            # Texts, which are mostly names and descriptions, make nobody known; but the node is there.
            counts = isinstance(value, ox.Literal) and value.datatype.value not in _TEXT_TYPES
            self.popularity[quad.subject.value] += counts  # type: ignore[union-attr]
        if stream is not None and self.triples % _EVERY == 0:
            self.tell(f"reading {stream.path.name}", stream.raw.tell(), stream.size)
            if len(self.popularity) > _MANY:
                self.popularity = Counter({k: n for k, n in self.popularity.items() if n > 1})
        return quad

    def _rdf(self, stream: Stream, number: int) -> Iterator[ox.Quad]:
        form, base = FORMATS[suffix_of(stream.path)], stream.path.absolute().as_uri()
        by_line = form in (ox.RdfFormat.N_TRIPLES, ox.RdfFormat.N_QUADS)
        if not by_line:
            stream.text.reconfigure(errors="strict")
        source = LimitedText(stream.text, form, stream.path)
        parser = ox.parse(input=cast("Any", source), format=form, base_iri=None if by_line else base)
        last_line: int | None = -1
        while True:
            try:
                for quad in parser:
                    source.since_fact = 0
                    quad = without_blanks(quad, number)
                    is_lost = isinstance(quad.object, ox.NamedNode) and is_datatype(quad.object)
                    if is_lost and quad.predicate.value not in _OF_DATATYPES:
                        self.datatypes += 1
                    else:
                        yield self.count(quad, stream)
            except MemoryError as error:  # a term that the parser's buffer does not hold
                with opened(stream.path) as again:
                    for _ in numbered_lines(again.text, stream.path):  # raises where its line is as long
                        pass
                raise DataError(TOO_LONG, stream.path) from error
            except SyntaxError as error:
                if error.lineno != last_line:
                    self._reject(stream.path, error.lineno, str(error.msg or error))
                source.since_fact = 0
                last_line = error.lineno
                if error.lineno is None or "end of file" in str(error):
                    return
                continue
            self.prefixes.update({k: v for k, v in (parser.prefixes or {}).items() if k})
            return

    def _text(self, stream: Stream, profile: Profile | None) -> Iterator[ox.Quad]:
        if profile is None or not (profile.percent_names and profile.entity_namespaces):
            message = "a text file of names needs a profile that makes ids from names: names"
            raise DataError(message, stream.path)
        labelled, predicate = set[str](), ox.NamedNode(profile.label_predicates[0])
        for line, text in self._lines(stream):
            parts = [part.strip() for part in text.split("|")]
            if len(parts) != 3 or not all(parts):
                self._reject(stream.path, line, f"expected `subject|relation|object`, got {text[:80]!r}")
                continue
            iris = (profile.name_iri(name, relation=i == 1) for i, name in enumerate(parts))
            subject, relation, value = (ox.NamedNode(iri.value) for iri in iris)
            yield self.count(ox.Quad(subject, relation, value), stream)
            for node, name in ((subject, parts[0]), (value, parts[2])):
                if name not in labelled:
                    labelled.add(name)
                    yield ox.Quad(node, predicate, ox.Literal(name, language=profile.language))
            if len(labelled) > _MANY:
                labelled.clear()

    def _lines(self, stream: Stream) -> Iterator[tuple[int, str]]:
        """Numbered lines of a text file that are not empty."""
        for number, text in numbered_lines(stream.text, stream.path):
            if _NOT_UTF8 in text:
                self._reject(stream.path, number, _NOT_UTF8)
            elif text.strip():
                yield number, text
            if number % _EVERY == 0:
                self.tell(f"reading {stream.path.name}", stream.raw.tell(), stream.size)

    def _reject(self, path: Path, line: int | None, message: str) -> None:
        if "LoadDocumentCallback" in message:
            message = REMOTE_CONTEXT
        elif _NOT_UTF8 in message:
            message = f"not UTF-8; {TO_UTF8}"
        error = DataError(message, path, line)
        if self._on_error == "stop":
            raise error
        self.broken_count += 1
        if len(self.broken) < _BROKEN_SHOWN:
            self.broken.append(error)


def node_names(
    profile: Profile,
    predicates: Iterable[str],
    texts: Callable[[str], Iterable[tuple[str, str, str]]],
    ids: Iterable[str],
    about: Callable[[str], tuple[int, str]],
) -> Iterator[Name]:
    """The names of nodes, in order of preference, but for relations and what is not linked.

    Labels in the languages of `QUESTIONS_IN` count as aliases. Nodes without a name are indexed by the words
    of their ids, in a graph of such ids or without any label.

    Args:
        predicates: the relations of the graph. texts: subject, text and language of a predicate's facts.
        ids: the nodes that may have no name. about: popularity and description of a node.
    """
    relations = {r for p in predicates for r in (p, profile.label_subject(safe_iri(p)).value)}
    own = {"", "mul", profile.language}
    sections = [(False, p, own) for p in profile.label_predicates]
    sections += [(True, p, own) for p in profile.alias_predicates]
    sections += [(True, p, set(QUESTIONS_IN) - own) for p in profile.label_predicates]
    labelled, by_id = set[str](), profile.entity_text == "local"
    for alias, predicate, languages in sections:
        for iri, value, language in texts(predicate):
            in_language = language.lower().partition("-")[0] in languages
            if in_language and iri not in relations and profile.linkable(iri):
                if by_id or not labelled:
                    labelled.add(iri)
                yield Name(iri, one_line(value), alias, *about(iri))
    for iri in ids if by_id or not labelled else ():
        if iri not in relations and iri not in labelled and profile.linkable(iri):
            name = node_name(iri)
            yield Name(iri, name, False, *about(iri))
            # "volvo264gl" may be written with spaces around its number.
            for other in {_BEFORE_NUMBER.sub(" ", name), _AROUND_NUMBER.sub(" ", name)} - {name}:
                yield Name(iri, other, True, *about(iri))


def store_names(store: ox.Store, profile: Profile, reader: GraphReader) -> Iterator[Name]:
    """The names of a store's nodes, of whose facts a reader has taken account."""
    describing = [ox.NamedNode(p) for p in profile.description_predicates]

    def texts(predicate: str) -> Iterator[tuple[str, str, str]]:
        for quad in store.quads_for_pattern(None, ox.NamedNode(predicate), None, None):
            if isinstance(quad.subject, ox.NamedNode) and isinstance(quad.object, ox.Literal):
                yield quad.subject.value, quad.object.value, quad.object.language or ""

    def about(iri: str) -> tuple[int, str]:
        for predicate in describing:
            for quad in store.quads_for_pattern(ox.NamedNode(iri), predicate, None, None):
                if isinstance(quad.object, ox.Literal) and quad.object.language in (None, profile.language):
                    return reader.popularity[iri], one_line(quad.object.value)
        return reader.popularity[iri], ""

    return node_names(profile, reader.predicates, texts, reader.popularity, about)


def check_format(path: Path) -> None:
    """Raise DataError unless the path is a file of a known format."""
    if not exists(path):
        if path.parts[:1] in (("http:",), ("https:",)):
            raise DataError("a URL cannot be loaded: download the file first, or query it with --kg URL")
        raise DataError("no such file", path)
    if path.is_dir():
        raise DataError("a folder, where a file was expected", path)
    if suffix_of(path) in DATABASES:
        raise DataError(f"a relational database: ask it as it is, with --kg {path} or --db {path}", path)
    if suffix_of(path) not in (known := (*FORMATS, TEXT, LABELS)):
        legal = ", ".join(known)
        raise DataError(f"unknown format; known suffixes (also with .gz, .zst or .bz2): {legal}", path)


def rdf_files(folder: Path) -> list[Path]:
    """The RDF files in a folder and the folders in it, but hidden ones; .xml and tables may be anything."""
    suffixes = FORMATS.keys() - {".xml", ".json"}
    try:
        paths = list(islice(folder.rglob("*"), MOST_PATHS + 1))
        if len(paths) > MOST_PATHS:
            fix = "name the files of the graph, or their folder"
            raise DataError(f"more than {MOST_PATHS:,} files and folders; {fix}", folder)
        files = [path for path in sorted(paths) if suffix_of(path) in suffixes and path.is_file()]
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", error.filename or folder) from error
    return [path for path in files if not any(p.startswith(".") for p in path.relative_to(folder).parts)]


def without_blanks(quad: ox.Quad, source: int) -> ox.Quad:
    """The quad with its blank nodes as IRIs, distinct by the number of the source file."""
    ends: list[Any] = [quad.subject, quad.object]
    for i, end in enumerate(ends):
        if isinstance(end, ox.BlankNode):
            ends[i] = ox.NamedNode(f"{BLANK}{source}-{end.value}")
            quad = ox.Quad(ends[0], quad.predicate, ends[1], quad.graph_name)
    return quad


def suffix_of(path: Path) -> str:
    """What a file's name ends in, before that of a compression, in lower case."""
    name = path.name.lower()
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    return Path(name).suffix
