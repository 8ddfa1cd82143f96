// The page of the web service: what the graph holds, ask, follow the phases, pick a reading, rate, name a relation,
// ask on, edit the query and run it.

const form = byId("ask"), input = byId("asked"), go = byId("go"), phases = byId("phases"), answer = byId("answer");
const WELCOME = ["welcome", "examples", "start"];
let source = null;

// The conversation of this tab: an id, and what was asked with the beginning of its answer.
const talk = JSON.parse(sessionStorage.getItem("talk") || "null") || { id: String(Math.random()).slice(2), asked: [] };

// Follow a run to its answer: `parameters` are a question, or a run and the reading to go on with.
function follow(parameters) {
  stop();
  phases.replaceChildren(el("li", { "data-phase": "sent", "aria-busy": "true" }, "asking"));
  answer.replaceChildren();
  WELCOME.forEach((id) => (byId(id).hidden = true));
  byId("hint").classList.add("hush");
  go.textContent = "Stop";
  phases.hidden = false;
  document.documentElement.dataset.state = "asking";
  source = new EventSource("/api/stream?" + new URLSearchParams({ ...parameters, conversation: talk.id }));
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

// Stopped by the person: what was asked stays, to be asked again.
function halt() {
  stop();
  document.documentElement.dataset.state = "stopped";
  answer.replaceChildren(el("p", { class: "notice", role: "status" }, "Stopped. Press Ask to ask again."));
}

function begin({ phase, doing }) {
  if (phases.firstChild?.dataset.phase === "sent") phases.replaceChildren();
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
  answer.replaceChildren(el("p", { class: "notice", role: "alert" }, asSentence(error)));
}

function showAnswer({ run, trace, choices, held, asked, teaches }, isPicked) {
  // Memory and steps are of the reading that was followed first: the facts of the proof are drawn.
  if (isPicked) Object.assign(trace, { memory: [], steps: [], picked: true });
  const [head, ...rest] = questionView(choices ? { ...trace, rivals: [] } : trace).filter(Boolean);
  head.querySelector(".answers").append(choices ? choiceCard(run, choices, new Terms(trace)) : "");
  if (held) head.querySelector(".answers").append(heldCard(held, trace, teaches));
  const isRewritten = asked && asked.trim() !== trace.question;
  head.querySelector(".answers").after(
    isRewritten ? el("p", { class: "under" }, "You asked ", el("q", {}, asked), ". ", el("button", { type: "button", class: "more", onclick: () => follow({ question: asked, alone: 1 }) }, "Ask it as it stands")) : "",
    rating(run, trace.labels.length ? "Is the answer right? " : "Is it right that there is no answer? ", trace),
  );
  answer.replaceChildren(head, ...rest);
  history.replaceState(null, "", "?" + new URLSearchParams({ q: trace.question }));
  remember(trace);
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
    pick(r.number, el("strong", {}, r.answers.slice(0, 4).join(", ") || "none", r.answers.length > 4 ? ", …" : ""), el("span", { class: "id" }, ` ${percent(r.confidence)} `), el("span", { class: "rule" }, terms.rule(r.reading))));
  const meant = meanings.map((m) => pick(m.number, el("q", {}, m.mention), " is ", el("strong", {}, m.label), idTag(m.id, " "), m.description ? el("span", { class: "under" }, ` ${m.description}`) : null));
  const card = section("Not sure. What did you mean?", el("ol", { class: "choices" }, folded(read, 4, "reading"), folded(meant, 4, "meaning")));
  card.classList.add("unsure");
  return card;
}

function rating(run, asked, trace) {
  const bar = el("p", { class: "rating" }, el("span", {}, asked));
  const rate = (word) => async () => {
    try {
      const { teaches } = await post("/api/rate", { run, rating: word.toLowerCase() });
      const learned = { Right: " Questions like it are read the same way.", Wrong: " It is not offered again for this question." }[word];
      const again = el("button", { type: "button", class: "copy", onclick: () => follow({ question: trace.question, alone: 1 }) }, "Ask again");
      bar.replaceChildren(`Thank you. Kept as ${word.toLowerCase()}.${teaches ? learned : ""}`, teaches && word === "Wrong" ? again : "");
    } catch (error) {
      bar.replaceChildren(error.message);
    }
    say(bar.textContent);
  };
  bar.append(...["Right", "Wrong"].map((word) => el("button", { type: "button", class: "copy", onclick: rate(word) }, word)), saves(trace));
  return bar;
}

// The answer as files: what the page has, or all of it from the server where it was cut.
function saves(trace) {
  const cells = (row) => row.map((text) => `"${String(text).replace(/^(?=[=+@]|-\D)/, "'").replaceAll('"', '""')}"`).join(",");
  const rows = trace.labels.map((label, i) => cells([trace.answer[i], trace.iris[i], label]));
  const texts = { csv: ["value,iri,label", ...rows].join("\r\n"), json: JSON.stringify(trace, null, 2) };
  const link = (form) => {
    const whole = "/api/ask?" + new URLSearchParams({ question: trace.question, format: form });
    const href = (trace.cut || {}).answer ? whole : `data:text/${form};charset=utf-8,${encodeURIComponent(texts[form])}`;
    return el("a", { class: "copy save", download: `answer.${form}`, href }, form.toUpperCase());
  };
  return el("span", { class: "saves" }, "Save as ", link("csv"), link("json"));
}

// What the graph does hold where a question found nothing sure, and a form that names one of its relations.
function heldCard({ words, entities, near, cures }, { question, entities: linked }, teaches) {
  const values = (r) => [r.values.map((v) => v.label).join(", "), r.count > r.values.length ? `, … (${r.count.toLocaleString("en")})` : ""];
  const lists = entities.map(({ entity, relations }) => [
    el("h3", {}, entity.label),
    el("dl", { class: "held" }, relations.map((r) => el("div", {}, el("dt", {}, r.direction === "in" ? `← ${r.label}` : r.label), el("dd", {}, values(r))))),
  ]);
  const alike = near.map((m) => el("li", {}, el("strong", {}, m.label), el("span", { class: "under" }, ` ${m.kind}`)));
  const relations = words ? [...new Map(entities.flatMap((e) => e.relations).map((r) => [r.id, r.label]))] : [];
  const others = cures.length ? el("details", {}, el("summary", {}, "Other ways"), cures.map((c) => [el("p", { class: "under" }, `${c.text}:`), el("pre", { tabindex: "0" }, el("code", {}, c.command))])) : null;
  return section(
    entities.length ? "What the graph holds there" : linked.length ? "What may help" : "Nothing in the graph has this name",
    lists,
    entities.length ? null : el("p", {}, el("a", { href: "/" }, "See what the graph holds")),
    alike.length ? [el("p", { class: "under" }, "The closest names:"), el("ul", { class: "near" }, alike)] : null,
    teaches && relations.length ? nameForm(words, relations, question) : null,
    others,
  );
}

function nameForm(words, relations, question) {
  const which = el("select", { "aria-label": "Relation", required: true }, el("option", { value: "" }, "choose …"), relations.map(([id, label]) => el("option", { value: id }, label)));
  const name = el("input", { type: "text", value: words, required: true, maxlength: 80, "aria-label": "Another name of the relation" });
  const told = el("span", { class: "under", role: "status" });
  const keep = async (event) => {
    event.preventDefault();
    try {
      await post("/api/name", { relation: which.value, name: name.value });
      follow({ question, alone: 1 });
    } catch (error) {
      told.textContent = error.message;
    }
  };
  return el("form", { class: "name-form", onsubmit: keep }, el("span", {}, "The relation "), which, el("span", {}, " is also called "), name, el("button", { class: "more" }, "Keep and ask again"), told);
}

// The conversation so far, each question with the beginning of its answer.
function remember(trace) {
  const short = trace.labels.slice(0, 3).join(", ") + (trace.labels.length > 3 ? ", …" : "");
  talk.asked = [...talk.asked.filter((t) => t.question !== trace.question), { question: trace.question, answer: short || STATUS[trace.status] }].slice(-20);
  sessionStorage.setItem("talk", JSON.stringify(talk));
  showTalk();
}

function showTalk() {
  const place = byId("talk");
  place.hidden = !talk.asked.length;
  const items = talk.asked.map((t) => el("li", {}, el("a", { href: "?" + new URLSearchParams({ q: t.question }) }, t.question), el("span", { class: "under" }, ` ${t.answer}`)));
  const anew = el("button", { type: "button", class: "more", onclick: () => (sessionStorage.removeItem("talk"), location.assign("/")) }, "New conversation");
  place.replaceChildren(el("h2", {}, "This conversation"), el("p", { class: "under" }, "A question may lean on these: “And of Italy?”, “Only those after 1950”, “How many?”"), el("ol", {}, items), anew);
}

// What the graph is about: classes, relations and how they are connected; questions made from it.
async function start() {
  const place = byId("start"), examples = byId("examples");
  place.replaceChildren(el("p", { class: "under" }, "looking at the graph …"));
  const { classes, relations, questions, is_whole: isWhole, error } = await fetch("/api/schema").then((reply) => reply.json()).catch(() => ({ error: "The server does not answer." }));
  if (error) return place.replaceChildren(el("p", { class: "notice" }, error));
  if (!examples.children.length) examples.append(...questions.map((q) => el("li", {}, el("a", { href: "?" + new URLSearchParams({ q }) }, q))));
  const facts = relations.filter((r) => r.kind === "entity" && r.domains.length && r.ranges.length).slice(0, 16).map((r) => [r.domains[0].name, r.id, r.ranges[0].name]);
  const terms = new Terms({ names: Object.fromEntries(relations.map((r) => [r.id, r.names[0]])) });
  const kinds = classes.map((c) => el("li", {}, c.names[0], el("span", { class: "id" }, ` ${c.members.toLocaleString("en")}`)));
  const drawing = el("div", {});
  place.replaceChildren(
    kinds.length ? section("Kinds of things", el("ul", { class: "chips kinds" }, folded(kinds, 24, "kind"))) : "",
    facts.length ? section("How they are connected", drawing) : "",
    section(isWhole ? "Relations" : "Relations of a sample", relationTable(relations)),
  );
  if (facts.length) drawing.replaceChildren(drawFacts(facts, terms, new Set(), new Set(), drawing.clientWidth));
  document.documentElement.dataset.started = "yes";
}

const VALUES = { boolean: "yes or no", string: "text" };

function relationTable(relations) {
  const ends = (shares) => (shares || []).map((s) => s.name).join(", ");
  const row = (r) => el("tr", {}, el("th", { scope: "row" }, r.names[0], el("small", { title: r.id }, brief(r.id))), el("td", { class: "words" }, ends(r.domains)), el("td", { class: "words" }, r.kind === "entity" ? ends(r.ranges) : VALUES[r.kind] || r.kind), el("td", {}, r.facts.toLocaleString("en")));
  const head = ["Relation", "of", "leads to", "facts"].map((name, i) => el("th", { scope: "col", class: i === 1 || i === 2 ? "words" : "" }, name));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Relations" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, folded(relations.map(row), 12, "relation"))));
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
  const cell = (term) => (term ? [term.label, term.id === term.value || term.id === term.label ? null : idTag(term.id, " ")] : []);
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
  if (input.value.trim()) return follow({ question: input.value, alone: 1 });
  start();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (source && input.value === new URLSearchParams(location.search).get("q")) return; // Enter twice asks once
  history.pushState(null, "", "?" + new URLSearchParams({ q: input.value }));
  follow({ question: input.value });
});
go.addEventListener("click", (event) => {
  if (!source || (event.detail === 0 && document.activeElement !== go)) return; // Enter in the field
  event.preventDefault();
  halt();
});
input.addEventListener("focus", () => input.select());
window.addEventListener("popstate", () => location.reload());
showTalk();
byId("by-hand").append(editor("SELECT ?s ?p ?o WHERE {\n  ?s ?p ?o .\n}\nLIMIT 10"));
open();
