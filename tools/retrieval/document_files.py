"""Reading a text, Markdown or HTML file: its title, and its visible text in passages."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bs4 import BeautifulSoup
from bs4.element import NavigableString

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import unreadable

HTML = (".html", ".htm")
ENDINGS = (".txt", ".md", *HTML)
PASSAGE, LONGEST = 600, 1200
"""Characters up to which paragraphs are joined, and no passage has more of: encoders read no further."""
MOST_BYTES = 16 * 2**20
"""Bytes read of one file."""

_UNREAD = ("script", "style", "noscript", "template", "svg", "head", "iframe", "form", "nav")
_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|br|caption|d[dlt]|div|fieldset|figcaption|figure|footer|h[1-6]|header"
    "|hr|li|main|ol|p|pre|section|summary|table|tbody|thead|tr|ul"
)
_CELLS = ["td", "th"]
_PARAGRAPH = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n")
_HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
_log = logging.getLogger(__name__)


def read_file(file: Path) -> list[str]:
    """Return the title of a file, then its passages. Of a file over 16 MiB only the beginning is read.

    Raises `DataError` where it cannot be read, or is no text.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"cannot read the document: {error.strerror or error}", file) from error
    if len(data) > MOST_BYTES:
        _log.warning("%s: only its first %d MiB are read", file, MOST_BYTES // 2**20)
        data = data[:MOST_BYTES]
        # A character that was cut in two is left out.
        data = data[: data.rfind(b"\n") + 1] or data.decode("utf-8", "ignore").encode()
    title, text = (_html if file.suffix.lower() in HTML else _plain)(data, file)
    title = " ".join(title.split()) or " ".join(re.sub(r"[_-]+", " ", file.stem).split())
    return [title[:200], *passages(text)]


def passages(text: str) -> Iterator[str]:
    """Split a text into passages: paragraphs, short ones joined, long ones cut where sentences end."""
    short: list[str] = []
    for paragraph in _PARAGRAPH.split(text.replace("\r\n", "\n")):
        if len(paragraph) <= PASSAGE:
            short.append(" ".join(paragraph.split()))
            continue
        yield from _joined(short, "\n")
        short = []
        sentences = (" ".join(sentence.split()) for sentence in _SENTENCE_END.split(paragraph))
        yield from _joined((s[at : at + LONGEST] for s in sentences for at in range(0, len(s), LONGEST)), " ")
    yield from _joined(short, "\n")


def _joined(pieces: Iterable[str], sign: str) -> Iterator[str]:
    """Pieces, joined up to the length of a passage: paragraphs by line ends, so that headings end there."""
    passage = ""
    for piece in filter(None, pieces):
        if passage and len(passage) + len(piece) >= PASSAGE:
            yield passage
            passage = ""
        passage = f"{passage}{sign}{piece}" if passage else piece
    if passage:
        yield passage


def _plain(data: bytes, file: Path) -> tuple[str, str]:
    """Title ("" if the text has none) and text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(file, error) from error
    if "\x00" in text:
        raise DataError("cannot read the document as text: it holds zero bytes, as binary files do", file)
    if file.suffix.lower() != ".md":
        return "", text
    heading = _HEADING.search(text[:2000])
    return heading[1] if heading else "", _HEADING.sub(lambda m: f"\n\n{m[1]}\n\n", text)


def _html(data: bytes, file: Path) -> tuple[str, str]:
    """Return title and visible text."""
    try:
        page = BeautifulSoup(data, "html.parser")
        title = page.title.get_text() if page.title is not None else ""
        for tag in page.find_all(_UNREAD):
            tag.decompose()
        if not title and (heading := page.find("h1")) is not None:
            title = heading.get_text()
        for node in page.find_all(string=True):
            if type(node) is NavigableString:  # and no comment
                node.replace_with(re.sub(r"\s+", " ", node))
        # A blank line around every block, a semicolon between the cells of a row.
        for tag in page.find_all():
            if _BLOCKS.fullmatch(tag.name):
                tag.insert_before("\n\n")
                tag.append("\n\n")
            elif tag.name in _CELLS and tag.find_previous_sibling(_CELLS) is not None:
                tag.insert_before(" ; ")
        return title, page.get_text()
    except (RecursionError, ValueError, AssertionError) as error:
        raise DataError(f"cannot read the document as HTML: {type(error).__name__}", file) from error
