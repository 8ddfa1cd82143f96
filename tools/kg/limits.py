"""How deep and how large what a file of RDF stands for may be, checked before pyoxigraph's parser gets it.

The parser expands XML entities without end; its memory and stack grow with nesting till the process dies.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import IO
from xml.parsers import expat

import pyoxigraph as ox

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import LONGEST_LINE

TOO_LONG = f"a term of more than {LONGEST_LINE >> 20} MiB; shorten it, or leave it out"
TOO_LARGE = "its entities stand for far more text than it holds; write out what they stand for"
FACTLESS = 2 * LONGEST_LINE  # characters in which a fact, or what is wrong with one, must have come
DEEPEST_JSON, DEEPEST_XML, DEEPEST_TERM = 200, 5_000, 4_000
"""Nesting in JSON-LD, in RDF/XML (which may nest each item of a list in the last), and of triple terms."""
LONGEST_TAG = 1 << 18  # bytes of a tag or a comment in XML, which expat reads again and again until it ends
EXPANDED, GROWTH = 4 << 20, 16  # characters that entities may stand for: so many, and times those read
_ENTITY = re.compile(r'<!ENTITY[\s%]*+([^\s"]++)\s*+"([^"]*+)"')
_REFERENCE = re.compile(r"&([^#&;<>\s][^&;<>\s]*);")
_JSON_MARKS = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)
_TERM_MARKS = re.compile(r'<<\(|\)>>|"')


class LimitedText:
    """The text of a file in a format, for the parser to read."""

    def __init__(self, text: IO[str], form: ox.RdfFormat | None, path: Path) -> None:
        self._text, self._path = text, path
        self.since_fact = 0  # the reader sets it back
        # JSON-LD may say last what its facts are.
        self._factless = math.inf if form == ox.RdfFormat.JSON_LD else FACTLESS
        nested: type[_Check] = _Json if form == ox.RdfFormat.JSON_LD else _Terms
        self._check = _Xml() if form == ox.RdfFormat.RDF_XML else nested()

    def read(self, size: int) -> str:
        """Return the next characters. Raises `DataError` beyond a limit, SyntaxError for what is not XML."""
        text = self._text.read(size)
        self.since_fact += len(text)
        if self.since_fact > self._factless:
            raise DataError(f"no fact in {FACTLESS >> 20} MiB of it; leave that part out", self._path)
        try:
            self._check.take(text)
        except expat.ExpatError as error:
            if error.code == expat.errors.codes[expat.errors.XML_ERROR_AMPLIFICATION_LIMIT_BREACH]:
                raise DataError(TOO_LARGE, self._path) from error
            wrong = SyntaxError(f"not XML: {expat.ErrorString(error.code)}")
            wrong.lineno = error.lineno
            raise wrong from error
        except ValueError as error:
            raise DataError(str(error), self._path) from error
        return text


class _Check:
    depth = 0

    def take(self, text: str) -> None:
        """Take account of the next characters, "" at the end. Raises ValueError beyond a limit."""


class _Xml(_Check):
    def __init__(self) -> None:
        self._read = self._expanded = 0
        self._prolog: list[str] | None = []  # what is before the first element
        self._lengths = dict[str, int]()  # of what entities stand for
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._open, self._close
        self._parser.EndDoctypeDeclHandler = self._declare

    def take(self, text: str) -> None:
        self._read += len(text.encode())
        if self._prolog is not None:
            self._prolog.append(text)
        self._parser.Parse(text, not text)
        if self._read - self._parser.CurrentByteIndex > LONGEST_TAG:
            raise ValueError(f"a tag, or what is between two, of more than {LONGEST_TAG >> 10} KiB")
        if self._lengths:
            self._expand(text)

    def _open(self, *tag: object) -> None:
        self.depth, self._prolog = self.depth + 1, None
        if self.depth > DEEPEST_XML:
            raise ValueError(f"elements in more than {DEEPEST_XML:,} others")

    def _close(self, *tag: object) -> None:
        self.depth -= 1

    def _declare(self) -> None:
        for name, value in _ENTITY.findall("".join(self._prolog or ())):  # which the parser expands at once
            self._lengths[name] = len(value) + self._expand(value)

    def _expand(self, text: str) -> int:
        length = sum(self._lengths.get(name, 0) for name in _REFERENCE.findall(text))
        self._expanded += length
        if self._expanded > EXPANDED + GROWTH * self._read:
            raise ValueError(TOO_LARGE)
        return length


class _Json(_Check):
    _is_quoted = _is_escaped = False

    def take(self, text: str) -> None:
        marks = _JSON_MARKS.findall(text[self._is_escaped :])
        self._is_escaped = marks[-1:] == ["\\"]  # the character after it comes next time
        for mark in marks:
            if mark == '"':
                self._is_quoted = not self._is_quoted
            elif mark[0] != "\\" and not self._is_quoted:
                self.depth += 1 if mark in "{[" else -1
                if self.depth > DEEPEST_JSON:
                    raise ValueError(f"nested more than {DEEPEST_JSON} deep")


class _Terms(_Check):
    def take(self, text: str) -> None:
        if "<<(" not in text and not self.depth:
            return
        for mark in _TERM_MARKS.findall(text):
            self.depth = 0 if mark == '"' else max(0, self.depth + (1 if mark == "<<(" else -1))
            if self.depth > DEEPEST_TERM:
                raise ValueError(f"triple terms in more than {DEEPEST_TERM:,} others")
