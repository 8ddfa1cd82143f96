// The page of the web service: ask, follow the phases, pick a reading, rate, edit the query and run it.

const form = byId("ask"), input = byId("asked"), go = byId("go"), phases = byId("phases"), answer = byId("answer");
let source = null;

// Follow a run to its answer: `parameters` are a question, or a run and the reading to go on with.
function follow(parameters) {
  stop();
  phases.replaceChildren();
  answer.replaceChildren();
  [byId("welcome"), byId("examples")].forEach((part) => part && (part.hidden = true));
  byId("hint").classList.add("hush");
  go.textContent = "Stop";
  phases.hidden = false;
  document.documentElement.dataset.state = "asking";
  source = new EventSource("/api/stream?" + new URLSearchParams(parameters));
  const end = (state, draw) => (event) => {
    stop();
    document.documentElement.dataset.state = state;
    draw(event.data ? JSON.parse(event.data) : { error: "The connection to the server was lost. Ask again; if that does not help, the server's log says why." });
  };
  source.addEventListener("phase", (event) => begin(JSON.parse(event.data)));
  source.addEventListener("done", (event) => finish(JSON.parse(event.data)));
  source.addEventListener("answer", end("answered", (data) => showAnswer(data, "pick" in parameters)));
  source.addEventListener("failed", end("failed", showFailure));
  source.addEventListener("error", end("failed", showFailure));
}

function stop() {
  if (source) source.close();
  source = null;
  go.textContent = "Ask";
  phases.hidden = true;
}

function begin({ phase, doing }) {
  phases.append(el("li", { "data-phase": phase, "aria-busy": "true" }, doing));
  while (phases.children.length > 6) phases.firstChild.remove();
  say(doing);
}

function finish({ phase, detail }) {
  const item = [...phases.children].findLast((li) => li.dataset.phase === phase);
  if (!item) return;
  if (!detail) return item.remove();
  item.removeAttribute("aria-busy");
  item.append(" ", el("span", { class: "under" }, detail));
}

function showFailure({ error }) {
  answer.replaceChildren(el("p", { class: "notice", role: "alert" }, error));
}

function showAnswer({ run, trace, choices }, isPicked) {
  if (isPicked) trace.memory = []; // of the reading that was followed first: the facts of the proof are drawn
  const question = { question: trace.question, answer: trace.labels, status: trace.status, score: null, gold: [], tags: [], error: "" };
  const [head, ...rest] = questionView(question, {}, choices ? { ...trace, rivals: [] } : trace).filter(Boolean);
  head.querySelector(".answers").append(choices ? choiceCard(run, choices, new Terms(trace)) : "");
  head.querySelector(".answers").after(rating(run, trace.labels.length ? "Is the answer right? " : "Is it right that there is no answer? "));
  answer.replaceChildren(head, ...rest);
  for (const bar of answer.querySelectorAll(".query-head")) if (bar.firstChild.textContent === "SPARQL") editable(bar, trace.sparql);
  document.title = trace.question;
  answer.querySelector("h1").focus({ preventScroll: true });
  const values = trace.labels.length ? trace.labels.slice(0, 5).join(", ") : trace.reason;
  say(`${STATUS[trace.status]}: ${values}`);
}

// What an unsure answer may be instead: other readings, and other meanings of a name.
function choiceCard(run, { readings, meanings }, terms) {
  const pick = (number, ...content) => el("li", {}, el("button", { type: "button", class: "choice", onclick: () => follow({ run, pick: number }) }, ...content));
  const read = readings.map((r) =>
    pick(r.number, el("strong", {}, r.answers.slice(0, 4).join(", ") || "none", r.answers.length > 4 ? ", …" : ""), el("span", { class: "id" }, ` ${Math.round(r.confidence * 100)} % `), el("span", { class: "rule" }, r.reading)));
  const meant = meanings.map((m) => pick(m.number, el("q", {}, m.mention), " is ", el("strong", {}, m.label), el("span", { class: "id" }, ` ${m.id}`), m.description ? el("span", { class: "under" }, ` ${m.description}`) : null));
  const card = section("Not sure. What did you mean?", el("ol", { class: "choices" }, folded(read, 4, "reading"), folded(meant, 4, "meaning")));
  card.classList.add("unsure");
  return card;
}

function rating(run, asked) {
  const bar = el("p", { class: "rating" }, asked);
  const rate = (word) => async () => {
    try {
      await post("/api/rate", { run, rating: word.toLowerCase() });
      bar.replaceChildren(`Thank you. Kept as ${word.toLowerCase()}.`);
    } catch (error) {
      bar.replaceChildren(error.message);
    }
    say(bar.textContent);
  };
  bar.append(...["Right", "Wrong"].map((word) => el("button", { type: "button", class: "copy", onclick: rate(word) }, word)));
  return bar;
}

// A button beside a query that turns it into an editor.
function editable(bar, query) {
  const edit = el("button", { type: "button", class: "copy" }, "Edit");
  edit.addEventListener("click", () => {
    const block = bar.closest(".query"), form = editor(query.trim());
    block.replaceWith(form);
    form.querySelector("textarea").focus();
  });
  bar.lastChild.before(edit);
}

function editor(query) {
  const area = el("textarea", { spellcheck: "false", autocapitalize: "off", rows: Math.min(16, query.split("\n").length + 1), "aria-label": "SPARQL to run" });
  area.value = query;
  const result = el("div", { class: "result", "aria-live": "polite" });
  const run = async () => {
    result.replaceChildren(el("p", { class: "under" }, "running …"));
    try {
      result.replaceChildren(...resultTable(await post("/api/query", { query: area.value })));
    } catch (error) {
      result.replaceChildren(el("p", { class: "notice" }, error.message));
    }
  };
  area.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && run());
  return el("div", { class: "editor" }, area, el("p", {}, el("button", { type: "button", class: "more", onclick: run }, "Run"), el("span", { class: "under" }, " or Ctrl + Enter. It only reads.")), result);
}

function resultTable({ boolean, variables, rows, notice }) {
  if (boolean !== undefined) return [el("p", {}, boolean ? "Yes" : "No")];
  if (!rows.length) return [el("p", { class: "none" }, "The query has no result.")];
  const cell = (term) => (term ? [term.label, term.id === term.value || term.id === term.label ? null : el("span", { class: "id" }, " ", term.id)] : []);
  const lines = rows.map((row) => el("tr", {}, variables.map((name) => el("td", { class: "words" }, cell(row[name])))));
  const head = el("thead", {}, el("tr", {}, variables.map((name) => el("th", { scope: "col", class: "words" }, name))));
  const table = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Result" }, el("table", {}, head, el("tbody", {}, lines)));
  return [el("p", { class: "under" }, count(rows.length, "row"), notice ? `; ${notice}` : ""), table];
}

async function post(path, value) {
  const reply = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
  const content = await reply.json().catch(() => ({ error: `The server failed (${reply.status}); its log says why.` }));
  if (!reply.ok) throw new Error(content.error);
  return content;
}

// The address names the question, so that an answer can be linked to, and the browser's Back goes back.
function open() {
  input.value = new URLSearchParams(location.search).get("q") || "";
  if (input.value.trim()) follow({ question: input.value });
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (source && input.value === new URLSearchParams(location.search).get("q")) return stop();
  history.pushState(null, "", "?" + new URLSearchParams({ q: input.value }));
  open();
});
window.addEventListener("popstate", () => location.reload());
byId("by-hand").append(editor("SELECT ?s ?p ?o WHERE {\n  ?s ?p ?o .\n}\nLIMIT 10"));
open();
