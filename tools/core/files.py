"""Files: text and YAML whose errors name a line, folders that can be written, locks between processes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import stat
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, TypeVar

import yaml
from filelock import FileLock, Timeout
from yaml.events import CollectionEndEvent, CollectionStartEvent

from triplewise.tools.core.errors import DataError, did_you_mean

T = TypeVar("T")
Record = dict[str, Any]
LONGEST_LINE = 16 * 2**20  # Characters that no line of a text file may have more of
DEEPEST, MOST_NODES = 200, 200_000  # Nesting, and keys and values (of aliases each time), of a YAML file
LONGEST_NUMBER = 100  # Characters of a whole number in YAML
LONGEST_TEXT = 256 * 2**20  # Characters of a file that is read as a whole
MOST_EMPTY = 1_000_000  # Empty lines one after the other
TO_UTF8 = "save it as UTF-8, e.g. by `iconv -f LATIN1 -t UTF-8`"


@dataclass(frozen=True)
class YamlDocument:
    """A document and where its parts stand; `path` names it in errors."""

    value: Any
    path: Path | str
    _root: yaml.Node | None

    def line(self, *keys: object, of_text: bool = False) -> int | None:
        """Line, from 1, of what keys and indices lead to, or of the part nearest to it that there is.

        `of_text`: the line in which a text begins, the one after its key where it is a block (`|`, `>`).
        """
        node, line = self._root, self._root.start_mark.line + 1 if self._root is not None else None
        for key in keys:
            entry = None
            if isinstance(node, yaml.MappingNode):
                entry = next(((k, v) for k, v in node.value if k.value == str(key)), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                entry = (node.value[key], node.value[key])
            if entry is None:
                break
            line, node = entry[0].start_mark.line + 1, entry[1]
        is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        return line + 1 if of_text and is_block and line is not None else line

    def read_as(self, kind: type[T], *keys: Any) -> T:
        """What it holds, or what keys and indices lead to, as a type that pydantic can check.

        Raises `DataError` on the first thing that is wrong, an unknown key before all: file, line and key.
        """
        from pydantic import TypeAdapter, ValidationError

        part = self.value
        for key in keys:
            part = part[key]
        try:
            return TypeAdapter(kind).validate_python(part)
        except ValidationError as error:
            unknown = ("extra_forbidden", "unexpected_keyword_argument")
            first = next((e for e in error.errors() if e["type"] in unknown), error.errors()[0])
            place = [key for key in first["loc"] if key != "[key]"]
            message = first["msg"].removeprefix("Value error, ")
            if first["type"] in unknown:
                legal = getattr(kind, "__annotations__", {}) if len(place) == 1 else {}
                message = f"unknown key{did_you_mean(str(place[0]), legal) if legal else ''}"
            where = ".".join(map(str, place))[:200] or "file"
            raise self.error(f"{where}: {message}", *keys, *place) from error

    def error(self, message: str, *keys: object) -> DataError:
        """An error that names the file and the line of what keys and indices lead to."""
        return DataError(message, self.path, self.line(*keys))


def parse_yaml(text: str, path: Path | str) -> YamlDocument:
    """A document from YAML text. Raises `DataError`, naming `path`: no YAML, a key twice, endless aliases."""
    loader = None
    try:
        kind, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
        message = f"more than {MOST_NODES:,} keys and values, those of aliases counted each time"
        too_many = DataError(message, path)
        for number, event in enumerate(yaml.parse(text, kind)):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:  # it would overflow the stack of the loader in C
                raise DataError(f"nested more than {DEEPEST} deep", path)
            if number > MOST_NODES:
                raise too_many
        loader = kind(text)
        root = loader.get_single_node()
        nodes = [root]
        for node in nodes:
            if len(nodes) > MOST_NODES:  # few lines of aliases can stand for billions of values
                raise too_many
            if isinstance(node, yaml.SequenceNode):
                nodes += node.value
            elif isinstance(node, yaml.ScalarNode) and node.tag.endswith(":int"):
                if len(node.value) > LONGEST_NUMBER:
                    raise DataError("a number too long to be read", path, node.start_mark.line + 1)
            elif isinstance(node, yaml.MappingNode):
                keys = set()
                for key, value in node.value:
                    if isinstance(key, yaml.ScalarNode) and key.value in keys:
                        message = f"{key.value[:200]}: stands twice in one mapping; drop one"
                        raise DataError(message, path, key.start_mark.line + 1)
                    keys.add(key.value if isinstance(key, yaml.ScalarNode) else None)
                    nodes += (key, value)
        return YamlDocument(None if root is None else loader.construct_document(root), path, root)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # e.g. impossible dates, endless depth
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise DataError(f"not YAML: {problem}", path, mark.line + 1 if mark else None) from error
    finally:
        if loader is not None:
            loader.dispose()


def read_yaml(path: Path) -> YamlDocument:
    """A document from a file; errors are `DataError`s."""
    return parse_yaml(read_text(path), path)


def packaged(package: str, name: str) -> Any:
    """Return what a YAML file of one of our packages holds."""
    return parse_yaml((resources.files(package) / name).read_text(encoding="utf-8"), name).value


def check_regular(path: Path) -> None:
    """Raise `DataError` for a pipe or a device, whose reading may never end, but for the pipe of a shell."""
    try:
        kind = path.stat().st_mode
    except ValueError as error:  # a NUL
        raise DataError(f"cannot be read: {error}", path) from error
    is_of_shell = stat.S_ISFIFO(kind) and str(path).startswith("/dev/")
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or is_of_shell):
        raise DataError("a pipe or a device, which may never end; write it to a file first", path)


@dataclass(frozen=True, slots=True)
class Stream:
    """A file of some bytes on disk (`raw`), decompressed by its suffix: `text`, without a byte order mark."""

    path: Path
    size: int
    raw: IO[bytes]
    text: io.TextIOWrapper


@contextmanager
def opened(path: Path, errors: str = "strict", newline: str | None = None) -> Iterator[Stream]:
    """A text file in UTF-8 to read, plain, .gz, .bz2 or .zst; `errors` and `newline` are as `open` has them.

    What cannot be read raises `DataError`, also while the block reads.
    """
    openers: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    failures: tuple[type[Exception], ...] = (UnicodeDecodeError, OSError, EOFError, zlib.error)
    if path.suffix.lower() == ".zst":
        from zstandard import ZstdDecompressor, ZstdError  # takes its time

        openers[".zst"] = partial(ZstdDecompressor().stream_reader, read_across_frames=True)
        failures += (ZstdError,)
    try:
        check_regular(path)
        with path.open("rb", buffering=1 << 18) as raw:
            opener = openers.get(path.suffix.lower())
            binary: Any = io.BufferedReader(opener(raw), 1 << 18) if opener else raw
            with io.TextIOWrapper(binary, "utf-8-sig", errors, newline) as text:
                yield Stream(path, path.stat().st_size, raw, text)
    except failures as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> DataError:
    """What opening or reading a text file failed with, and what to do about it."""
    if isinstance(error, UnicodeDecodeError):
        return DataError(f"not UTF-8 text (byte 0x{error.object[error.start]:02x}); {TO_UTF8}", path)
    what = "cannot be read" if isinstance(error, FileNotFoundError) else "cannot be read to its end"
    return DataError(f"{what}: {getattr(error, 'strerror', None) or error}", path)


def read_text(path: Path) -> str:
    """The whole text of a file. Raises `DataError` where it cannot be read, or is not UTF-8."""
    with opened(path) as stream:
        text = stream.text.read(LONGEST_TEXT + 1)
    if len(text) > LONGEST_TEXT:
        raise DataError(f"longer than {LONGEST_TEXT:,} characters", path)
    return text


def numbered_lines(file: TextIO, path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text without their ends, with 1-based numbers. `DataError` if they are endless."""
    empty = 0
    for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), ""), 1):
        empty = empty + 1 if line.isspace() else 0
        if len(line) > LONGEST_LINE:
            message = f"longer than {LONGEST_LINE:,} characters; write one record a line, and no longer one"
            raise DataError(message, path, number)
        if empty > MOST_EMPTY:
            raise DataError(f"more than {MOST_EMPTY:,} empty lines on end; leave them out", path, number)
        yield number, line.rstrip("\r\n")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not empty, without their ends, with 1-based numbers."""
    with opened(path) as stream:
        for number, line in numbered_lines(stream.text, path):
            if number == 1 and "\0" in line:  # UTF-16 without a byte order mark
                raise DataError(f"not UTF-8 text (a NUL); {TO_UTF8}", path, number)
            if line.strip():
                yield number, line


def json_lines(path: Path) -> Iterator[tuple[int, Record]]:
    """The objects of a JSON-lines file with their 1-based line numbers; `DataError` on another line."""
    for number, line in lines_of(path):
        try:
            data = json.loads(line)
            if "\\u" in line:  # half characters cannot be saved
                data = json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", path, number) from error
        if not isinstance(data, dict):
            raise DataError(f"expected a JSON object, got {line.strip()[:80]!r}", path, number)
        yield number, data


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it. `mkdir(parents=True)` overflows the stack where these are many."""
    for parent in reversed(path.parents):
        parent.mkdir(exist_ok=True)
    path.mkdir(mode, exist_ok=True)


def make_private(path: Path, *, folder: bool = False) -> Path:
    """Make a file or folder, where there is none yet, that nobody but the user can read; return it."""
    make_folder(path, 0o700) if folder else path.touch(0o600)
    with suppress(PermissionError):  # another's, who lets us use it
        path.chmod(0o700 if folder else 0o600)
    return path


def state_folder() -> Path:
    """Return the user's state folder, which nobody else can read: runs hold questions, answers, addresses."""
    from platformdirs import user_state_path

    return make_private(user_state_path("triplewise"), folder=True)


def kept_json(folders: Sequence[Path], name: str, days: float, kind: type[T], make: Callable[[], Any]) -> Any:
    """Return the `kind` in a JSON file of the first writable folder; by `make` if it has none, or is old."""
    from pydantic import TypeAdapter

    path = next((folder / name for folder in folders if is_writable(folder)), None)
    with suppress(OSError, ValueError):
        if path is not None and time.time() - path.stat().st_mtime < days * 86_400:
            return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    value = make()
    if path is not None and value is not None:
        with suppress(OSError):  # it serves this time
            write_json(path, value)
    return value


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which stands at its path, in a folder that is made, once complete. Raises OSError.

    A pipe or a device (`/dev/stdout`) is written to, and never replaced by a file.
    """
    make_folder(path.parent)
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with (make_private(part) if private else part).open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write a text as a whole; see `whole_file`."""
    with whole_file(path, private=private) as file:
        file.write(text.encode(errors="replace"))


def write_json(path: Path, value: Any, indent: int | None = None) -> None:
    """Write a JSON file as a whole; see `whole_file`."""
    write_text(path, json.dumps(value, indent=indent, ensure_ascii=False) + "\n")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what goes wrong in writing, an OSError, into a `DataError` that names the path."""
    try:
        yield
    except BrokenPipeError:  # whoever read it has seen enough
        raise
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path) from error


def is_writable(folder: Path) -> bool:
    """Return whether files can be made in a folder, which need not be there yet."""
    existing = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    return existing.is_dir() and os.access(existing, os.W_OK)


@contextmanager
def exclusive(path: Path, busy: Exception | Callable[[], object]) -> Iterator[None]:
    """Hold the lock of a file, which ends with the process. If another has it, raise or call `busy`."""
    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if isinstance(busy, Exception):
            raise busy from None
        busy()
        lock.acquire()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # whoever waits for it notices, and makes it anew
        lock.release()
