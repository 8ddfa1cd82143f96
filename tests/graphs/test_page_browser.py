"""The page in Chromium: what is seen, clicked, typed and copied, at two widths, light and dark.

Screenshots go into the folder that TRIPLEWISE_SCREENSHOTS names, where it is set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from triplewise.graphs import Context, State, build_graph
from triplewise.graphs.page import write_page
from triplewise.graphs.trace import trace_of
from triplewise.tools.kg import open_kg

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright for Python")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")

SIZES = {"laptop": (1280, 800), "phone": (390, 844)}
GOETHE = "Where was Goethe's unmarried partner born?"
HOSTILE = '</script><img src=x onerror="window.hacked=1"><b>bold</b>'


@lru_cache(maxsize=8)
def asked(question: str, preset: str) -> dict[str, Any]:
    """The trace of a real run of the offline default."""
    found = build_graph(preset).invoke({"question": question}, context=Context(kg="demo", model="embedded"))
    return trace_of(State.model_validate(found), open_kg("demo"))


def corrected() -> dict[str, Any]:
    """A run with a step that was rolled back, and a fact from a document; with hostile labels."""
    trace = asked(GOETHE, "agent")
    step = {"guideline": "fact_empty", "rolled_back": True, "outcome": "empty", "observation": "told"}
    told = {
        "guideline": "fact_empty",
        "source": "kb",
        "reason": HOSTILE * 8,
        "fixes": ["add_fact(Q5879, P19, ?x)"],
    }
    read = {"id": "0a1b", "document": HOSTILE, "source": "https://example.org/a", "sentence": "She was born."}
    return {
        **trace,
        "question": HOSTILE,
        "answer": ["Q1", "Q3042"],
        "labels": [HOSTILE, "Offenbach am Main"],
        "steps": [trace["steps"][0], trace["steps"][1] | step, *trace["steps"][2:]],
        "corrections": [{"step": 2, "call": "add_fact()", **told}],
        "proof": [trace["proof"][0], trace["proof"][1] | {"from_document": read}],
        "names": {**trace["names"], "Q96902": HOSTILE, "P451": HOSTILE},
        "reason": HOSTILE,
        "sparql": trace["sparql"] + "# " + HOSTILE,
    }


def crowded() -> dict[str, Any]:
    """A run whose memory is as large as it gets."""
    facts = [[f"Q{n % 9}", f"P{n % 4}", f"Q{10 + n}"] for n in range(60)]
    names = {f"Q{n}": f"Entity number {n} with a name" for n in range(70)}
    return {
        **asked(GOETHE, "agent"),
        "question": "What is near it?",
        "memory": [[f] for f in facts],
        "readings": [],
        "names": {**names, **{f"P{n}": f"relation {n}" for n in range(4)}},
        "entities": [{"mention": "it", "id": "Q0", "label": names["Q0"], "score": 1.0}],
        "answer": ["Q10"],
        "labels": [names["Q10"]],
    }


def doubtful() -> dict[str, Any]:
    """A run with a reason that has a reading, and an entity that no reading names."""
    trace = asked(GOETHE, "agent")
    unused = {"mention": "partner", "id": "Q1", "label": "The Partner", "score": 0.7}
    reason = "no reading of the question is likely enough to be right (the best is Goethe -[age]-> ?age: 9%)"
    return {**trace, "entities": [*trace["entities"], unused], "reason": reason}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        running = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of pages."""
    folder = tmp_path_factory.mktemp("pages")
    runs = {
        "run": asked(GOETHE, "agent"),
        "oda": asked(GOETHE, "oda"),
        "nothing": asked("Who wrote Xyzzyplugh?", "agent"),
        "crowded": crowded(),
        "corrected": corrected(),
        "doubtful": doubtful(),
    }
    about = {"graph": "demo", "seeds": [1, 2]}
    return {name: write_page(folder / f"{name}.html", run, about).as_uri() for name, run in runs.items()}


class Watched:
    """A tab that fails a test on errors, on anything asked of a network, and on sideways scrolling."""

    def __init__(self, browser: Any, size: str = "laptop", scheme: str = "light") -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            has_touch=size == "phone",
            permissions=["clipboard-read", "clipboard-write"],
        )
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on(
            "console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "blob:", "data:", "about:")) or url.endswith("/x"):
            self.wrong.append(url)

    def open(self, url: str) -> Any:
        self.page.goto("about:blank")
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready=yes]")
        return self.page

    def check(self) -> None:
        """See that nothing went wrong, and that the page is not wider than the window."""
        assert self.wrong == []
        assert self.page.evaluate("window.hacked") is None
        assert self.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.fixture
def tab(browser: Any) -> Iterator[Watched]:
    watched = Watched(browser)
    yield watched
    watched.check()
    watched.context.close()


@pytest.mark.parametrize(("size", "scheme"), [("laptop", "light"), ("phone", "dark")])
def test_pages_look_right(
    browser: Any, pages: dict[str, str], size: str, scheme: str, tmp_path: Path
) -> None:
    folder = Path(os.environ.get("TRIPLEWISE_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    tab = Watched(browser, size, scheme)
    for name, url in pages.items():
        tab.open(url).wait_for_timeout(100)
        tab.check()
        path = folder / f"{name}-{size}-{scheme}.png"
        tab.page.screenshot(path=path, full_page=True)
        assert path.stat().st_size > 10_000
    tab.context.close()


def test_a_run_opens_with_all_that_happened(tab: Watched, pages: dict[str, str]) -> None:
    page = tab.open(pages["run"])
    assert page.title() == GOETHE
    said = page.locator("#question").inner_text()
    for part in (
        "Offenbach am Main",
        "Q3042",
        "Johann Wolfgang von Goethe",
        "SPARQL",
        "execute()",
        "graph queries",
    ):
        assert part in said
    assert page.locator(".step").count() == 4


def test_the_query_is_copied_as_it_is(tab: Watched, pages: dict[str, str]) -> None:
    page = tab.open(pages["run"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == asked(GOETHE, "agent")["sparql"].strip()


def boxes(page: Any) -> list[tuple[str, dict[str, float]]]:
    """What the graph of facts shows, and where."""
    page.wait_for_selector(".network")
    script = (
        "nodes => nodes.map(n => [n.ariaLabel, n.querySelector('rect').getBoundingClientRect().toJSON()])"
    )
    return [(label, box) for label, box in page.locator(".network .box").evaluate_all(script)]


def test_memory_is_drawn_from_the_question_to_the_answer(tab: Watched, pages: dict[str, str]) -> None:
    page = tab.open(pages["run"])
    labels = {label for label, _ in boxes(page)}
    assert labels == {
        "Johann Wolfgang von Goethe, Q5879, in the question",
        "unmarried partner, P451",
        "Lili Schönemann, Q96902",
        "place of birth, P19",
        "Offenbach am Main, Q3042, answer",
    }
    told = page.locator(".told")
    page.locator(".box.answer").hover()
    assert "Lili Schönemann" in told.inner_text()
    page.mouse.move(1, 1)
    assert "Point at" in told.inner_text()
    page.locator(".box.topic").focus()
    assert "unmarried partner" in told.inner_text()
    page.keyboard.press("Escape")
    assert "Point at" in told.inner_text()


@pytest.mark.parametrize("size", SIZES)
def test_no_boxes_of_a_crowded_graph_overlap(browser: Any, pages: dict[str, str], size: str) -> None:
    tab = Watched(browser, size)
    drawn = boxes(tab.open(pages["crowded"]))
    assert len(drawn) >= 70
    for number, (_, a) in enumerate(drawn):
        for _, b in drawn[:number]:
            apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            assert apart or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]
    tab.check()
    tab.context.close()


def test_a_reason_has_arrows_and_only_entities_of_the_reading_are_listed(
    tab: Watched, pages: dict[str, str]
) -> None:
    page = tab.open(pages["doubtful"])
    assert "Goethe — age → ?age: 9%" in " ".join(page.locator(".why").inner_text().split())
    listed = page.locator(".entities").inner_text()
    assert "Goethe" in listed
    assert "The Partner" not in listed


def test_hostile_labels_are_text(tab: Watched, pages: dict[str, str]) -> None:
    page = tab.open(pages["corrected"])
    page.locator("#question h1", has_text=HOSTILE).wait_for()
    page.wait_for_selector(".network")
    assert page.locator("#question img, #question b").count() == 0
    for part in (
        "rolled back",
        "fact_empty",
        "Fixes that were tried",
        "read from documents",
        "She was born.",
    ):
        assert part in page.locator("#question").inner_text()
    assert page.locator("blockquote a").get_attribute("href") == "https://example.org/a"
