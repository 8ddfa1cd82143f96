"""The page of a run: one HTML file that needs nothing else, no network, no server. Pages of the web service.

What a page shows is text or JSON, and never taken for HTML: the template escapes it, the script sets it as
text content, and the content security policy allows no other script and no connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import write_text, writing

SHARED = ("base.js", "terms.js", "code.js", "network.js", "question.js")
"""The scripts of both the page of a run and the web service, in the order in which they are read."""


def render_page(trace: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Return the page of a run, as `trace_of` has it; `about` says how it was made."""
    as_text = {n: v if isinstance(v, str) else json.dumps(v, default=str) for n, v in about.items()}
    run = json.dumps({"trace": trace, "about": as_text}, ensure_ascii=False, default=str)
    script = _script("run.js")
    sources = f"style-src 'unsafe-inline'; img-src data:; script-src {_digest(script)}"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    shown = {"policy": policy, "style": _read("page.css"), "script": script}
    # No `<` stands in the data, so that nothing in it ends the element that holds it.
    data = run.encode(errors="replace").decode().replace("<", "\\u003c")
    return _render("page.html.jinja", title=trace["question"], data=data, **shown)


def render_service(graph: str, model: str, examples: Sequence[str]) -> tuple[str, str]:
    """Return the page of the web service as HTML, and the content security policy to send with it."""
    script, style = _script("service.js"), f"\n{_read('page.css')}\n{_read('service.css')}\n"
    shown = {"graph": graph, "model": model, "examples": examples, "style": style, "script": script}
    sources = f"style-src {_digest(style)}; script-src {_digest(script)}; connect-src 'self'; img-src data:"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return _render("service.html.jinja", **shown), policy


def render_docs(api: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page of the service's API as HTML, and the content security policy to send with it."""
    style = f"\n{_read('page.css')}\n"
    policy = f"default-src 'none'; style-src {_digest(style)}; img-src data:; base-uri 'none'"
    return _render("docs.html.jinja", api=api, style=style), f"{policy}; frame-ancestors 'none'"


def write_page(path: Path, trace: Mapping[str, Any], about: Mapping[str, Any]) -> Path:
    """Write the page of a run, whole or not at all, and return where it is. Raises as `check_page`."""
    check_page(path)
    with writing(path):
        write_text(Path(os.path.realpath(path)), render_page(trace, about))
    return path


def check_place(path: Path) -> None:
    """Check that a page can be written there, before anything long begins. Raises `DataError` if not."""
    folder = path.parent
    if path.is_dir():
        raise DataError("is a folder; name a file in it, e.g. run.html", path)
    if path.exists() and not path.is_file():
        raise DataError("a pipe or a device, which may wait without end; name a file", path)
    if not folder.is_dir():
        raise DataError(f"cannot write a page there: no folder {str(folder)!r}; make it first", path)
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise DataError("cannot write a page there: no permission; choose another place", path)


def check_page(path: Path) -> None:
    """Check as `check_place`, and that only a triplewise page (by its first bytes) is overwritten."""
    check_place(path)
    if path.is_file():
        with path.open("rb") as file:
            begin = file.read(4_096)
        if begin and b'<meta name="generator" content="triplewise">' not in begin:
            raise DataError("is not a triplewise page, and is not overwritten; name another file", path)


def _read(name: str) -> str:
    return (files("triplewise.graphs.page") / name).read_text(encoding="utf-8")


def _script(own: str) -> str:
    parts = "\n".join(map(_read, (*SHARED, own)))
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _render(name: str, **values: Any) -> str:
    import jinja2

    loader = jinja2.FunctionLoader(_read)
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(name).render(values)
