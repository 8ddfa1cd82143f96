// The questions of a run: a list to search and to filter.

const SHOWN = 100;

class RunList {
  constructor(runs) {
    this.runs = runs;
    this.filters = { text: "", outcome: "", error: "", tag: "" };
    this.number = -1;
    this.rows = el("ol", { class: "rows" });
    this.told = el("p", { class: "count", role: "status" });
    this.more = el("button", { type: "button", class: "more", onclick: () => this.grow() }, "Show more");
    this.about = el("div", {});
    this.tools = el("div", { class: "tools", role: "search" });
    this.element = el("div", {}, this.picker(), this.about, this.tools, this.told, this.rows, this.more);
  }

  picker() {
    if (this.runs.length < 2) return null;
    const options = this.runs.map((run, i) => el("option", { value: i }, run.name));
    this.select = el("select", { id: "run", onchange: () => (location.hash = linkTo(this.runs[this.select.value].name)) }, options);
    return el("label", { class: "field pick" }, el("span", {}, "Run"), this.select);
  }

  open(number) {
    if (number === this.number) return;
    this.number = number;
    if (this.select) this.select.value = number;
    Object.assign(this.filters, { text: "", outcome: "", error: "", tag: "" });
    this.about.replaceChildren(...aboutRun(this.run));
    this.tools.replaceChildren(...this.fields());
    this.refresh();
  }

  get run() {
    return this.runs[this.number];
  }

  fields() {
    const questions = this.run.questions;
    const search = el("input", { type: "search", placeholder: "Search questions and answers", oninput: () => this.set("text", search.value.trim().toLowerCase()) });
    const outcomes = tally(questions.map((q) => [outcomeOf(q)])).map(([name, number]) => [name, OUTCOMES[name].word, number]);
    const none = questions.filter((q) => q.status && q.status !== "answered").length;
    if (none) outcomes.push(["unanswered", "no answer", none]);
    const same = ([name, number]) => [name, name, number];
    return [
      el("label", { class: "field search" }, el("span", {}, "Search"), search),
      this.choice("outcome", "Outcome", outcomes),
      this.choice("error", "What went wrong", tally(questions.map((q) => [q.error])).map(same)),
      this.choice("tag", "Tag", tally(questions.map((q) => q.tags)).map(same)),
    ].filter(Boolean);
  }

  choice(name, title, options) {
    if (!options.length || (options.length === 1 && name === "outcome")) return null;
    const select = el("select", { onchange: () => this.set(name, select.value) }, el("option", { value: "" }, "all"), options.map(([value, word, number]) => el("option", { value }, `${word} (${number.toLocaleString("en")})`)));
    return el("label", { class: "field" }, el("span", {}, title), select);
  }

  set(name, value) {
    this.filters[name] = value;
    this.refresh();
  }

  matches(q) {
    const { text, outcome, error, tag } = this.filters;
    if (outcome && (outcome === "unanswered" ? q.status === "answered" : outcomeOf(q) !== outcome)) return false;
    if ((error && q.error !== error) || (tag && !q.tags.includes(tag))) return false;
    return !text || [q.id, q.question, ...q.answer, ...q.gold].join("\n").toLowerCase().includes(text);
  }

  refresh() {
    this.found = this.run.questions.filter((q) => this.matches(q));
    const all = this.run.questions.length;
    this.told.textContent = this.found.length === all ? count(all, "question") : `${this.found.length.toLocaleString("en")} of ${count(all, "question")}`;
    this.rows.replaceChildren();
    this.grow();
  }

  grow() {
    const from = this.rows.childElementCount;
    this.rows.append(...this.found.slice(from, from + SHOWN).map((q) => this.row(q)));
    this.more.hidden = this.rows.childElementCount >= this.found.length;
  }

  row(q) {
    const { sign, word } = OUTCOMES[outcomeOf(q)];
    const said = q.answer.length ? q.answer.slice(0, 3).join(", ") + (q.answer.length > 3 ? ` and ${q.answer.length - 3} more` : "") : STATUS[q.status] || "no answer";
    return el(
      "li",
      {},
      el(
        "a",
        { href: linkTo(this.run.name, q.id), class: `row ${outcomeOf(q)}` },
        el("span", { class: "sign", title: word }, el("span", { "aria-hidden": "true" }, sign), el("span", { class: "hush" }, word)),
        el("span", { class: "asked" }, q.question),
        el("span", { class: `said ${q.answer.length ? "" : "none"}` }, said),
        el("span", { class: "marks" }, q.status === "unsure" ? badge("partly", STATUS.unsure) : null, q.error && q.error !== said ? badge("bad", q.error) : null, typeof q.score === "number" && q.score > 0 && q.score < 0.9995 ? badge("partly", q.score.toFixed(2)) : null),
      ),
    );
  }

  // The questions before and after one, as the list shows them now.
  beside(id) {
    const at = this.found.findIndex((q) => q.id === id);
    return at < 0 ? [] : [this.found[at - 1], this.found[at + 1], at + 1, this.found.length];
  }
}

// Values with how often each occurs, most frequent first.
function tally(lists) {
  const counts = new Map();
  for (const value of lists.flat()) if (value) counts.set(value, (counts.get(value) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

function aboutRun(run) {
  const judged = run.questions.filter((q) => typeof q.score === "number");
  const mean = judged.reduce((sum, q) => sum + q.score, 0) / judged.length;
  const counts = tally(run.questions.map((q) => [outcomeOf(q)]));
  const share = (name) => (counts.find(([kind]) => kind === name) || [name, 0])[1];
  const bar = judged.length ? ["right", "partly", "wrong"].map((kind) => el("span", { class: `part ${kind}`, style: `flex-grow:${share(kind)}` })) : [];
  const words = ["right", "partly", "wrong"].filter(share).map((kind) => badge(kind, `${OUTCOMES[kind].sign} ${share(kind).toLocaleString("en")} ${OUTCOMES[kind].word}`));
  const facts = run.about.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  return [
    judged.length ? el("div", { class: "sum" }, el("p", { class: "mean" }, el("strong", {}, mean.toFixed(3)), ` mean ${run.metric}`), el("div", { class: "shares", "aria-hidden": "true" }, bar), el("p", { class: "badges" }, words)) : null,
    facts.length ? el("details", { class: "about" }, el("summary", {}, "How this run was made"), el("dl", {}, facts)) : null,
  ].filter(Boolean);
}
