// Which of the two views is seen, and how one gets from one to the other.

const overview = byId("overview"), asked = byId("question");

async function start() {
  const names = [...document.querySelectorAll("script[id^=run-]")].map((s) => s.id).filter((id) => /^run-\d+$/.test(id));
  const runs = await Promise.all(names.map(block));
  const list = runs.length ? new RunList(runs) : null;
  if (list) {
    byId("runs").append(list.element);
    list.open(0);
  }
  // A page of one question opens with it.
  const only = runs.length === 1 && runs[0].questions.length === 1 && !document.querySelector("table") ? runs[0] : null;
  const state = { list, runs, only, left: null };
  window.addEventListener("hashchange", () => show(state));
  document.addEventListener("click", (event) => leave(event, state));
  document.querySelectorAll("table").forEach(sortable);
  await show(state);
  state.ready = true;
  document.documentElement.dataset.ready = "yes";
}

async function show(state) {
  const place = state.only ? { run: state.only.name, question: state.only.questions[0].id } : placeOf(location.hash);
  const number = state.runs.findIndex((run) => run.name === place.run);
  if (number >= 0) state.list.open(number);
  const run = state.runs[number];
  const at = run && place.question !== undefined ? run.questions.findIndex((q) => q.id === place.question) : -1;
  if (at < 0) return showOverview(state, number >= 0);
  if (asked.hidden && state.ready) state.left = { scroll: window.scrollY };
  if (state.left) state.left.link = location.hash;
  const traces = await block(`run-${number}-${Math.floor(at / run.chunk)}`);
  const question = run.questions[at];
  asked.hidden = false;
  overview.hidden = true;
  asked.replaceChildren(...[state.only ? about(run) : way(state, run, question), ...questionView(question, run, traces[at % run.chunk])].filter(Boolean));
  document.title = question.question;
  window.scrollTo(0, 0);
  if (!state.only) asked.querySelector("h1").focus({ preventScroll: true });
}

function showOverview(state, toRun) {
  const came = !asked.hidden;
  asked.hidden = true;
  overview.hidden = false;
  asked.replaceChildren();
  document.title = overview.querySelector("h1").textContent;
  if (came && state.left) {
    window.scrollTo(0, state.left.scroll);
    const link = [...overview.querySelectorAll("a.row")].find((a) => a.getAttribute("href") === state.left.link);
    if (link) link.focus({ preventScroll: true });
  } else if (toRun) byId("runs").scrollIntoView();
}

// Above a question: back to the list, and on to the questions beside it.
function way(state, run, question) {
  const [before, after, at, all] = state.list.beside(question.id);
  const step = (q, text, label) => (q ? el("a", { href: linkTo(run.name, q.id), rel: label }, text) : null);
  return el(
    "nav",
    { class: "crumbs", "aria-label": "Questions" },
    el("a", { href: linkTo(run.name), "data-back": true }, "← Questions"),
    el("span", { class: "id" }, state.runs.length > 1 ? run.name : ""),
    el("span", { class: "steps-beside" }, step(before, "‹ Previous", "prev"), at ? el("span", { class: "id" }, `${at.toLocaleString("en")} of ${all.toLocaleString("en")}`) : null, step(after, "Next ›", "next")),
  );
}

// What is known of the run of a page of one question.
function about(run) {
  if (!run.about.length) return null;
  const facts = run.about.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  return el("dl", { class: "one-run" }, facts);
}

// Links that are no places of their own: back, up, and to a section.
function leave(event, state) {
  const link = event.target.closest("a");
  if (!link) return;
  if (link.dataset.to) {
    event.preventDefault();
    byId(link.dataset.to).scrollIntoView();
  } else if ("skip" in link.dataset) {
    event.preventDefault();
    (asked.hidden ? overview : asked).focus();
  } else if ("home" in link.dataset && !state.only) {
    state.left = null;
    if (!location.hash) event.preventDefault();
    window.scrollTo(0, 0);
  } else if ("home" in link.dataset) event.preventDefault();
}

// A click on a heading of a table sorts by it: up, down, and back as it was.
function sortable(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  if (rows.length < 3) return;
  const value = (row, i) => {
    const cell = row.cells[i];
    const text = cell.querySelector("a, .figure").textContent;
    const number = cell.dataset.number ?? parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(Number(number)) ? text : Number(number);
  };
  // What is no number stands last, whichever way numbers are sorted.
  const compare = (a, b, sign) => (typeof a === typeof b ? sign * (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, i) => {
    const button = el("button", { type: "button" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { none: i ? "descending" : "ascending", ascending: i ? "none" : "descending", descending: i ? "ascending" : "none" }[head.getAttribute("aria-sort") || "none"];
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (next !== "none") head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      body.append(...(next === "none" ? rows : [...rows].sort((a, b) => compare(value(a, i), value(b, i), sign))));
    });
  });
}

start().catch((error) => {
  const old = typeof DecompressionStream === "undefined";
  overview.prepend(el("p", { class: "notice" }, old ? "This page needs a browser of 2023 or newer to show its questions." : `This page could not be opened whole: ${error.message}`));
  document.documentElement.dataset.ready = "no";
  throw error;
});
