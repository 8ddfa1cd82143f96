"""`triplewise serve` as a process on loopback: its API over HTTP, and its page in Chromium at two widths."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from tests.support.openai_server import Fault, OpenAIServer
from tests.support.sparql_server import Scripted, SparqlServer
from triplewise.graphs import serve
from triplewise.graphs.cli.app import run
from triplewise.graphs.presets import find_preset

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
GOETHE = "Where was Goethe's unmarried partner born?"
SURE = ("--set", "min_confidence=0.3")
CAPITAL = "SELECT ?city { wd:Q17 wdt:P36 ?city }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of the server."""
    return tmp_path_factory.mktemp("serve")


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[str]:
    """The address of `triplewise ARGUMENTS` on a free port, ended as by Ctrl-C."""
    homes = {name: str(folder) for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")}
    command = [sys.executable, "-m", "triplewise.graphs", *arguments, "--port", "0"]
    environment = {**os.environ, **homes, "NO_PROXY": "127.0.0.1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            assert "(Ctrl-C stops it)" in line, line + process.stderr.read()
            yield line.split()[3]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        lines = process.stderr.read().splitlines()
        assert [line for line in lines if not line.startswith("notice")] == ["error: interrupted"]


def test_ctrl_c_in_mid_stream_is_one_line(folder: Path, openai_server: Callable[..., OpenAIServer]) -> None:
    model = openai_server(["..."], faults=[Fault.SLOW], slow=120)
    asks = ("serve", "--model", "openai:scripted", "--base-url", model.url)
    with ExitStack() as streams, started(folder, *asks) as url:
        stream = httpx.stream(
            "GET", f"{url}/api/stream", params={"question": "Who?"}, trust_env=False, timeout=60
        )
        assert any("acting" in line for line in streams.enter_context(stream).iter_lines())


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[httpx.Client]:
    """A client of a server of the demo."""
    with started(folder, "serve", "--jobs", "2", *SURE) as url:
        assert url.startswith("http://127.0.0.1:")
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client


@pytest.fixture(scope="module")
def doubting(folder: Path) -> Iterator[httpx.Client]:
    """A client of a server that is sure of nothing."""
    with (
        started(folder, "serve", "--set", "min_confidence=1") as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        yield client


def events(server: httpx.Client, **parameters: str) -> list[tuple[str, Any]]:
    text = server.get("/api/stream", params=parameters).text
    blocks = [block.split("\r\n") for block in text.split("\r\n\r\n") if block.startswith("event")]
    return [(b[0].removeprefix("event: "), json.loads(b[1].removeprefix("data: "))) for b in blocks]


def test_a_question_is_answered_with_query_and_proof(server: httpx.Client) -> None:
    answer = server.get("/api/ask", params={"question": GOETHE}).json()
    assert (answer["status"], answer["labels"]) == ("answered", ["Offenbach am Main"])
    assert "wdt:P19" in answer["sparql"]
    assert any("place of birth" in fact["text"] for fact in answer["proof"])


def test_phases_stream_before_the_answer(server: httpx.Client) -> None:
    stream = events(server, question=GOETHE)
    names = [data["phase"] for name, data in stream if name == "phase"]
    assert (names[:3], names[-1]) == (["link", "plan", "observe"], "answer")
    assert ("done", {"phase": "link", "detail": "Goethe: Johann Wolfgang von Goethe"}) in stream
    name, last = stream[-1]
    assert (name, last["trace"]["labels"], last["choices"]) == ("answer", ["Offenbach am Main"], None)


def test_an_unsure_answer_goes_on_with_the_reading_that_is_picked(doubting: httpx.Client) -> None:
    server = doubting
    _, unsure = events(server, question=GOETHE)[-1]
    assert unsure["trace"]["status"] == "unsure"
    reading = unsure["choices"]["readings"][1]
    _, picked = events(server, run=unsure["run"], pick=str(reading["number"]))[-1]
    assert picked["trace"]["status"] == "answered"
    assert set(reading["answers"]) <= set(picked["trace"]["labels"])
    name, again = events(server, run=unsure["run"], pick="1")[-1]
    assert name == "failed"
    assert "ask the question again" in again["error"]


def test_an_answer_is_rated(server: httpx.Client, folder: Path) -> None:
    _, answer = events(server, question=GOETHE)[-1]
    assert server.post("/api/rate", json={"run": answer["run"], "rating": "right"}).status_code == 200
    record = json.loads((folder / "triplewise" / "ratings.jsonl").read_text().splitlines()[-1])
    assert (record["question"], record["rating"], record["labels"]) == (
        GOETHE,
        "right",
        ["Offenbach am Main"],
    )
    assert server.post("/api/rate", json={"run": answer["run"], "rating": "maybe"}).status_code == 400
    assert server.post("/api/rate", json={"run": "none", "rating": "right"}).status_code == 404
    missing, wrong = server.get("/api/askk"), server.post("/health")
    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert missing.json() == {"error": "GET /api/askk is not served; /docs lists what is"}
    assert wrong.json() == {"error": "POST /health is not served; /docs lists what is"}


OFFICE = """
@prefix : <http://office.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:ann a :Employee ; rdfs:label "Ann Lee" ; :salary 900 ; :basedAt :north ; :reportsTo :bob .
:bob a :Employee ; rdfs:label "Bob Ray" ; :salary 1200 ; :basedAt :north .
:eve a :Employee ; rdfs:label "Eve Kim" ; :salary 700 ; :basedAt :south ; :reportsTo :bob ; :retired true .
:north a :Office ; rdfs:label "North Office" . :south a :Office ; rdfs:label "South Office" .
"""


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of a graph of its own, with a data folder of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "office.ttl").write_text(OFFICE, encoding="utf-8")
    served = serve.ServedGraph.open("agent", {"kg": str(tmp_path / "office.ttl")})
    return TestClient(serve.Service(served).app, base_url="http://localhost")


def test_what_the_graph_holds_with_questions_that_work(office: Any) -> None:
    schema = office.get("/api/schema").json()
    assert schema["is_whole"]
    assert {(of["names"][0], of["members"]) for of in schema["classes"]} == {("employee", 3), ("office", 2)}
    (salary,) = (r for r in schema["relations"] if r["id"] == "salary")
    assert (salary["kind"], salary["facts"], salary["domains"][0]["name"]) == ("number", 3, "employee")
    (based,) = (r for r in schema["relations"] if r["id"] == "basedAt")
    assert sorted(based["shown"]) == ["North Office", "South Office"]
    for question in schema["questions"]:
        assert office.get("/api/ask", params={"question": question}).json()["status"] == "answered"
    beginnings = {question.split(" ")[0] for question in schema["questions"]}
    assert {"What", "Which", "How", "Is"} <= beginnings
    assert not any("based at of" in question or "retired of" in question for question in schema["questions"])


def test_answers_and_rows_as_csv_by_get_and_post(office: Any) -> None:
    asked = {"question": "Where is Ann Lee based?", "format": "csv"}
    reply = office.post("/api/ask", json=asked)
    assert reply.headers["content-type"].startswith("text/csv")
    assert reply.text == "value,iri,label\r\nnorth,http://office.example/north,North Office\r\n"
    assert office.get("/api/ask", params=asked).text == reply.text
    rows = {"query": "SELECT ?n { ?e :salary ?n } ORDER BY ?n", "format": "csv"}
    rows["query"] = rows["query"].replace(":salary", "<http://office.example/salary>")
    assert office.get("/api/query", params=rows).text.split() == ["n", "700", "900", "1200"]
    boolean = {"query": "ASK { ?e <http://office.example/salary> 900 }", "format": "csv"}
    assert office.get("/api/query", params=boolean).text == "boolean\r\ntrue\r\n"
    assert office.get("/api/ask", params={**asked, "format": "xml"}).status_code == 400


def test_a_relation_is_given_another_name(office: Any) -> None:
    question = {"question": "What is the zorp of Ann Lee?"}
    before = office.get("/api/ask", params=question).json()
    assert before["status"] != "answered"
    (around,) = before["held"]["entities"]
    (salary,) = (r for r in around["relations"] if r["id"] == "salary")
    assert [value["label"] for value in salary["values"]] == ["900"]
    assert "kg name" in before["held"]["cures"][0]["command"]
    assert before["held"]["words"] == "zorp"
    unknown = office.get("/api/ask", params={"question": "Where is Blorbville?"}).json()
    assert [cure["command"].split()[:3] for cure in unknown["held"]["cures"]] == [
        ["triplewise", "kg", "info"]
    ]
    assert office.post("/api/name", json={"relation": "shoes", "name": "x"}).status_code == 400
    assert office.post("/api/name", json={"relation": "salary", "name": " "}).status_code == 400
    assert office.post("/api/name", json={"relation": "salary", "name": "zorp"}).status_code == 200
    after = office.get("/api/ask", params=question).json()
    assert (after["status"], after["labels"]) == ("answered", ["900"])
    relations = office.get("/api/schema").json()["relations"]
    assert any("zorp" in r["names"] for r in relations if r["id"] == "salary")


def test_right_and_wrong_teach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "office.ttl").write_text(OFFICE, encoding="utf-8")
    settings = {"kg": str(tmp_path / "office.ttl"), "min_confidence": 0.985}
    app = serve.Service(serve.ServedGraph.open("agent", settings)).app
    client: Any = TestClient(app, base_url="http://localhost")
    asked = "Where is Ann Lee based?"
    _, unsure = events(client, question=asked)[-1]
    assert unsure["trace"]["status"] == "unsure"
    _, picked = events(client, run=unsure["run"], pick="2")[-1]
    trace = picked["trace"]
    read_as = trace["readings"][trace["followed"]]
    assert (trace["status"], read_as["program"]) == ("answered", trace["program"])
    assert sorted(read_as["answer"]) == sorted(trace["answer"])
    rated = client.post("/api/rate", json={"run": picked["run"], "rating": "wrong"}).json()
    assert rated == {"rating": "wrong", "teaches": True}
    _, again = events(client, question=asked)[-1]
    assert client.post("/api/rate", json={"run": again["run"], "rating": "right"}).json()["teaches"]
    taught = client.get("/api/ask", params={"question": asked}).json()
    assert (taught["status"], taught["labels"]) == ("answered", ["North Office"])
    assert read_as["program"] not in [reading["program"] for reading in taught["readings"]]
    alike = client.get("/api/ask", params={"question": "Where is Eve Kim based?"}).json()
    assert alike["labels"] == ["South Office"]
    assert any("seed question" in reading["provenance"] for reading in alike["readings"])


def test_questions_of_a_conversation_lean_on_each_other(office: Any) -> None:
    asked = ["Where is Ann Lee based?", "And Eve Kim?"]
    traces = [events(office, question=question, conversation="c")[-1][1]["trace"] for question in asked]
    assert [trace["labels"] for trace in traces] == [["North Office"], ["South Office"]]
    assert traces[1]["question"] == "And Eve Kim?"
    name, lost = events(office, question="When was she hired?", conversation="other")[-1]
    assert (name, lost["trace"]["status"] if name == "answer" else "") != ("answer", "answered")


def test_the_api_is_described(office: Any) -> None:
    described = office.get("/openapi.json").json()
    routes = {r.path: {m.lower() for m in r.methods - {"HEAD"}} for r in office.app.routes}
    own = {path: methods for path, methods in routes.items() if path not in ("/", "/docs", "/openapi.json")}
    found = {path: does.keys() & {"get", "post"} for path, does in described["paths"].items()}
    assert found == own
    for does in described["paths"].values():  # a POST takes what a GET does
        if "post" in does:
            body = does["post"]["requestBody"]["content"]["application/json"]["schema"]
            given = {p["name"]: p["schema"] for p in does.get("get", {}).get("parameters", ())}
            assert body["properties"] == (given or body["properties"])
            assert all(p["type"] == "string" and p["description"] for p in body["properties"].values())
    page = office.get("/docs")
    assert all(path in page.text for path in own)
    assert page.text.count("Questions of one conversation may lean on earlier ones.") == 1


@pytest.mark.parametrize(
    ("query", "status", "part"),
    [
        (CAPITAL, 200, '"label":"Tokyo"'),
        ("ASK { wd:Q17 wdt:P36 wd:Q1490 }", 200, '"boolean":true'),
        ("DELETE WHERE { ?s ?p ?o }", 400, "would change"),
        ("SELECT ?x {", 400, "not valid SPARQL"),
        ("SELECT ?x { ?x r:nowhere ?y }", 400, "not an id of this graph"),
        ("", 400, "no query"),
    ],
)
def test_a_query_by_hand_only_reads(server: httpx.Client, query: str, status: int, part: str) -> None:
    reply = server.post("/api/query", json={"query": query})
    assert reply.status_code == status
    assert part in reply.text


def test_the_challenge_is_answered_from_the_graph_of_the_page(server: httpx.Client) -> None:
    asked = {"dataset": "urn:any", "question": "What is the capital of Japan?"}
    reply = server.get("/text2sparql", params=asked).json()
    assert {name: reply[name] for name in asked} == asked
    assert "wd:Q17 wdt:P36" in reply["query"]


def test_some_wait_and_others_are_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "MOST_WAITING", 2)
    app = serve.Service(serve.ServedGraph.open("agent", {"kg": "demo"}), jobs=1).app

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asked = [client.get("/api/ask", params={"question": GOETHE}) for _ in range(5)]
            return [reply.status_code for reply in await asyncio.gather(*asked)]

    assert sorted(asyncio.run(ask())) == [200, 200, 200, 503, 503]


def test_a_client_that_goes_away_gives_its_turn_back(folder: Path) -> None:
    runaway = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?a ?d ?g"
    with (
        started(folder, "serve", "--jobs", "1", "--set", "query_timeout=600", *SURE) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        for _ in range(2):  # as many as may run at a time
            with pytest.raises(httpx.ReadTimeout):
                client.get("/api/query", params={"query": runaway}, timeout=1.0)
            with pytest.raises(httpx.ReadTimeout):
                client.post("/api/query", json={"query": runaway}, timeout=1.0)
        rows = client.post("/api/query", json={"query": CAPITAL}).json()["rows"]
        assert rows[0]["city"]["label"] == "Tokyo"
        assert client.get("/api/ask", params={"question": GOETHE}).json()["status"] == "answered"


def test_a_client_that_asks_and_goes_away_gives_its_turn_back(
    folder: Path, openai_server: Callable[..., OpenAIServer]
) -> None:
    model = openai_server(["..."], faults=[Fault.SLOW], slow=120)
    asks = ("serve", "--jobs", "1", "--model", "openai:scripted", "--base-url", model.url)

    async def ask_and_go(url: str) -> None:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
            asked = asyncio.ensure_future(client.get("/api/ask", params={"question": GOETHE}))
            async with asyncio.timeout(60):
                while not model.requests:
                    await asyncio.sleep(0.05)
            asked.cancel()

    with started(folder, *asks) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        asyncio.run(ask_and_go(url))
        assert client.post("/api/query", json={"query": CAPITAL}).status_code == 200


def test_what_a_client_may_not_do(server: httpx.Client) -> None:
    url = "/api/ask?question=Who+wrote+Dracula"
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example"},
        {"Host": "evil.example"},
    ):
        assert server.get(url, headers=headers).status_code == 403
    assert server.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200
    assert server.get("/api/ask").status_code == 400
    assert server.get("/api/ask", params={"question": "a" * 3_000}).status_code == 400
    assert server.post("/api/query", content=b"x" * 70_000).status_code == 400
    policy = server.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert server.get("/health").json()["status"] == "ok"


def test_an_endpoint_that_fails_says_so(tmp_path: Path) -> None:
    replies = [Scripted('{"head": {}, "boolean": true}'), Scripted("no entry for you", status=403)]
    with SparqlServer(replies) as endpoint:
        settings = {"kg": endpoint.url, "profile": "wikidata", "seeds": "none"}
        app = serve.Service(serve.ServedGraph.open("agent", settings)).app
        client = TestClient(app, base_url="http://localhost")
        for path in ("/health", "/api/ask?question=Who+wrote+Dracula"):
            reply = client.get(path)
            assert reply.status_code in (502, 503)
            assert "no entry for you" in reply.json()["error"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "192.0.2.1"), "cannot listen on 192.0.2.1:8000"),
        (("--host", ""), "cannot listen on :8000 (no address; 0.0.0.0 are all of this machine)"),
        (("--host", "a..b"), "cannot listen on a..b:8000"),
        (("--kg", "nowhere.ttl"), "nowhere.ttl"),
    ],
)
def test_what_cannot_be_served(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright for Python")
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH")
    with playwright.sync_playwright() as p:
        running = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page(
    browser: Any, server: httpx.Client, doubting: httpx.Client, width: int, scheme: str, tmp_path: Path
) -> None:
    shots = Path(os.environ.get("TRIPLEWISE_SCREENSHOTS") or tmp_path)
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page, wrong = context.new_page(), []
    # The browser notes a query that is refused (400) as an error of its own.
    page.on(
        "console",
        lambda m: wrong.append(m.text) if m.type in ("error", "warning") and "400" not in m.text else None,
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))

    def see(name: str) -> None:
        page.screenshot(path=shots / f"serve-{name}-{width}-{scheme}.png")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert wrong == []

    # By keyboard alone: the field has the focus, Enter asks, Back goes back.
    page.goto(str(server.base_url))
    page.locator("html[data-started]").wait_for()
    assert page.locator("#start th", has_text="place of birth").count() == 1
    see("start")
    page.keyboard.type(GOETHE)
    page.keyboard.press("Enter")
    page.locator("html[data-state=answered]").wait_for()
    assert page.locator("#answer .chips").inner_text() == "Offenbach am Main Q3042"
    assert page.evaluate("document.activeElement.innerText") == GOETHE
    assert page.locator(".network .box.answer").count() == 1
    read_as = page.locator(".read-as").inner_text()
    assert read_as.startswith("Read as Johann Wolfgang von Goethe")
    assert "-[" not in page.locator("#answer").inner_text()
    see("answer")
    page.get_by_role("button", name="Right").click()
    page.locator(".rating", has_text="Kept as right").wait_for()

    # The query is edited and run.
    page.get_by_role("button", name="Edit").press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.type(CAPITAL)
    page.keyboard.press("Control+Enter")
    page.locator(".result td", has_text="Tokyo").wait_for()
    page.locator(".result table").scroll_into_view_if_needed()
    see("query")
    page.keyboard.type("}")
    page.keyboard.press("Control+Enter")
    page.locator(".result .notice", has_text="not valid SPARQL").wait_for()

    # An unsure answer is amber, and another reading can be picked.
    page.goto(f"{doubting.base_url}?q={GOETHE}")
    page.locator("#answer .chips .unsure").first.wait_for()
    see("unsure")
    other = page.locator(".choice strong").nth(1).inner_text().split(",")[0]
    page.locator(".choice").nth(1).press("Enter")
    page.locator("#answer .chips", has_text=other).wait_for()
    page.locator(".badge", has_text="picked by you").wait_for()
    assert page.locator("#answer .chips .unsure").count() == 0
    see("picked")

    # What is not found leads on, and no relation is named before one is chosen.
    page.goto(f"{server.base_url}?q=What is the zorp of Goethe?")
    keep = page.locator(".name-form button")
    keep.click()
    assert page.locator(".name-form select").evaluate("which => which.validity.valueMissing")
    assert page.locator(".held dt").count() > 2
    see("not-found")

    # A link to a question is answered, and the browser's Back goes back.
    page.goto(f"{server.base_url}?q={GOETHE}")
    page.locator("#answer h1", has_text=GOETHE).wait_for()
    page.locator("#asked").fill("Who wrote Dracula?")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.locator("#answer h1", has_text="Dracula").wait_for()
    page.locator("#talk li", has_text="Bram Stoker").wait_for()
    page.go_back()
    page.locator("#answer h1", has_text=GOETHE).wait_for()
    page.locator("#asked").fill('<img src=x onerror="window.hacked=1">')
    page.keyboard.press("Enter")
    page.locator("#answer h1", has_text="<img").wait_for()
    assert page.locator("img").count() == 0
    see("hostile")
    context.close()


def test_a_served_graph_runs_with_the_settings_of_its_preset() -> None:
    agent = find_preset("agent").settings
    served = serve.ServedGraph.open("agent", {"kg": "demo", "max_steps": 7})
    settings = served.context.resolved(agent)
    assert settings.max_actions == agent["max_actions"]
    assert (settings.max_steps, settings.interactive) == (7, False)
