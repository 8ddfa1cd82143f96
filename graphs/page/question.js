// One question: answer, cost, plan, steps, memory, query, proof.

const STATUS = { answered: "answered", unsure: "not sure", not_found: "not found", budget_spent: "budget spent" };

const badge = (kind, ...text) => el("span", { class: `badge ${kind}` }, ...text);

function questionView(trace) {
  const terms = new Terms(trace);
  const found = [graphCard, proofCard, queryCard, documentsCard, observationCard];
  const way = [planCard, stepsCard];
  const parts = (cards) => cards.map((card) => card(trace, terms)).filter(Boolean);
  const [left, right] = [parts(way), parts(found)];
  return [
    answerCard(trace, terms),
    el("div", { class: left.length && right.length ? "columns two" : "columns" }, el("div", { class: "way" }, left), el("div", { class: "found" }, right)),
  ];
}

function answerCard(trace, terms) {
  return el(
    "header",
    { class: "answer-head" },
    el("h1", { tabindex: "-1" }, trace.question),
    el("p", { class: "badges" }, badge(trace.status === "answered" ? "plain" : "warn", STATUS[trace.status])),
    el("div", { class: "answers" }, el("div", { class: "card" }, el("h2", {}, "Answer"), answerChips(trace), readAs(trace, terms), reason(trace, terms), sureness(trace, terms))),
    entities(trace, terms),
    cost(trace.usage, trace.steps),
  );
}

function answerChips(trace) {
  if (!trace.answer.length) return el("p", { class: "none" }, "none");
  const items = trace.labels.map((label, i) => {
    const value = trace.answer[i];
    const id = value !== label.replaceAll(",", "") && !["true", "false"].includes(value) ? idTag(value, " ") : null;
    return el("li", { class: trace.status === "unsure" ? "unsure" : "" }, label, id);
  });
  return [el("ul", { class: "chips" }, folded(items, 24, "answer")), leftOut((trace.cut || {}).answer, "answer")];
}

const asSentence = (text) => text.replace(/^[a-z](?!\w*:)/, (c) => c.toUpperCase()).replace(/([^.!?])$/, "$1.");

function reason(trace, terms) {
  return trace.reason ? el("p", { class: "why" }, terms.rule(asSentence(trace.reason))) : null;
}

// How the question was understood, where a reading gave the answer.
function readAs(trace, terms) {
  const reading = (trace.readings || [])[trace.followed ?? -1];
  return reading && trace.answer.length ? el("p", { class: "read-as" }, el("span", { class: "under" }, "Read as "), terms.rule(reading.reading)) : null;
}

const percent = (share) => (share < 0.005 ? "under 1 %" : `${Math.round(share * 100)} %`);

function sureness(trace, terms) {
  if (typeof trace.confidence !== "number") return null;
  const rivals = (trace.rivals || []).map((r) => el("li", {}, r.labels.join(", "), ` (${percent(r.confidence)}) `, el("span", { class: "rule" }, terms.rule(r.reading))));
  return [el("p", { class: "under sure" }, `${percent(trace.confidence)} sure`), rivals.length ? el("details", {}, el("summary", {}, count(rivals.length, "other reading")), el("ol", {}, rivals)) : null];
}

// The entities that the followed reading names; without a reading, all.
function usedEntities(trace) {
  const reading = (trace.readings || [])[trace.followed ?? -1];
  return (trace.entities || []).filter((e) => !reading || reading.reading.includes(e.label));
}

function entities(trace, terms) {
  // That "Fula" is Fula says nothing.
  const telling = usedEntities(trace).filter((e) => e.mention !== e.label || !isSame(brief(e.id), e.label) || e.score < 0.995);
  if (!telling.length) return null;
  const named = telling.map((e) =>
    el("li", {}, el("q", {}, e.mention), " is ", terms.show(e.id, "topic"), e.score < 0.995 ? el("span", { class: "id" }, ` score ${e.score.toFixed(2)}`) : null));
  return el("ul", { class: "entities", "aria-label": "Entities of the question" }, named);
}

function cost(usage, steps) {
  const money = usage.cost === null ? "unknown" : usage.cost === 0 ? "$0" : `$${usage.cost.toFixed(4)}`;
  const about = usage.estimated ? "about " : "";
  const tokens = usage.input_tokens + usage.output_tokens;
  const figures = [
    [steps.length === 1 ? "step" : "steps", steps.length || null],
    ["taken back", steps.filter((s) => s.rolled_back).length || null],
    [usage.queries === 1 ? "graph query" : "graph queries", usage.queries],
    [usage.calls === 1 ? "model call" : "model calls", usage.calls],
    ["tokens", usage.calls ? about + tokens.toLocaleString("en") : null],
    ["cost", usage.calls ? money : null],
    ["seconds", usage.seconds < 10 ? usage.seconds.toFixed(2) : usage.seconds.toFixed(0)],
  ];
  const shown = figures.filter(([, value]) => value !== null);
  return el("dl", { class: "cost" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, typeof value === "number" ? value.toLocaleString("en") : value))));
}

function planCard(trace, terms) {
  const readings = trace.readings || [], rules = trace.rules || [], dropped = trace.dropped || [];
  if (!readings.length && !rules.length && !dropped.length) return null;
  const cut = trace.cut || {};
  const read = readings.map((r, i) => el("li", {}, el("div", { class: "rule" }, terms.rule(r.reading)), el("p", { class: "under" }, `${r.provenance} · ${percent(r.confidence)} `, i === trace.followed ? badge("plain", trace.picked ? "picked by you" : "followed") : null)));
  const kept = rules.map((rule) => el("li", {}, el("div", { class: "rule" }, terms.rule(rule.rule)), el("p", { class: "under" }, figuresOf(rule))));
  const left = dropped.map((rule) => el("li", {}, el("div", { class: "rule" }, terms.rule(rule.text)), el("p", { class: "under" }, `dropped: ${rule.reason}`)));
  return section(
    "Plan",
    read.length || kept.length ? null : el("p", { class: "none" }, "no reading and no rule was found"),
    read.length ? el("ol", { class: "rules" }, folded(read, 4, "reading")) : null,
    leftOut(cut.readings, "reading"),
    kept.length ? el("ol", { class: "rules" }, folded(kept, 4, "rule")) : null,
    leftOut(cut.rules, "rule"),
    left.length ? el("details", {}, el("summary", {}, `${count(left.length + (cut.dropped || 0), "rule")} dropped, and why`), el("ol", { class: "rules dropped" }, left), leftOut(cut.dropped, "rule")) : null,
  );
}

function figuresOf(rule) {
  const share = (value) => value.toFixed(2);
  const figures = rule.support
    ? [`support ${rule.support}`, `precision ${share(rule.precision)}`, `recall ${share(rule.recall)}`]
    : [`score ${share(rule.score)}`];
  return [rule.provenance, ...figures].filter(Boolean).join(" · ");
}

function stepsCard(trace, terms) {
  const steps = trace.steps || [];
  if (!steps.length) return null;
  const waiting = [...(trace.corrections || [])];
  const items = steps.map((step, place) => {
    const told = waiting.filter((c) => c.step === step.number && (!step.guideline || c.guideline === step.guideline || step.rolled_back));
    told.forEach((c) => waiting.splice(waiting.indexOf(c), 1));
    return stepItem(step, told, terms, steps[place + 1]);
  });
  const rest = waiting.map((c) => correction(c, terms, `Step ${c.step}: `));
  return section("Steps", el("ol", { class: "steps" }, items), rest.length ? el("div", {}, el("h3", {}, "Other corrections"), rest) : null);
}

function stepItem(step, told, terms, next) {
  const bad = step.error || step.rolled_back || told.length;
  const feedback = step.error || (step.outcome && step.outcome !== "rows" ? step.outcome : "");
  const noted = step.guideline && !told.length ? badge("plain", `guideline ${step.guideline}`) : null;
  return el(
    "li",
    { class: `step ${bad ? "went-wrong" : ""} ${step.rolled_back ? "rolled-back" : ""}` },
    el("div", { class: "number", "aria-hidden": "true" }, step.number),
    el(
      "div",
      { class: "step-body" },
      step.thought ? el("p", { class: "thought" }, terms.rule(step.thought)) : null,
      step.action ? el("p", { class: "action" }, el("code", {}, terms.text(step.action))) : null,
      feedback || step.rolled_back || noted
        ? el("p", { class: "badges" }, feedback ? badge(bad ? "bad" : "warn", feedback.replaceAll("_", " ")) : null, step.rolled_back ? badge("bad", "rolled back") : null, noted)
        : null,
      observed(step, terms),
      told.map((c) => correction(c, terms, "", next)),
    ),
  );
}

// What the action showed; of a step that was rolled back, its correction says what was wrong.
function observed(step, terms) {
  const said = (step.observation || "").trim();
  if (!said || step.rolled_back) return null;
  const lines = said.split("\n");
  const offered = offers(said);
  const whole = el("div", { class: "observed" }, offered ? offered.map((row) => offerRow(row, terms)) : terms.rule(said));
  const cut = step.cut ? el("p", { class: "under" }, `${step.cut.toLocaleString("en")} characters more were observed, left out here`) : null;
  if (lines.length <= 6 && said.length <= 500) return [whole, cut];
  const first = offered ? count(offered.reduce((sum, row) => sum + row.relations.length, 0), "relation") + " offered" : lines.length > 6 ? `${count(lines.length, "line")}: ${lines[0]}` : said.slice(0, 90) + "…";
  return el("details", { class: "long" }, el("summary", {}, offered ? first : terms.text(first)), whole, cut);
}

// `{'forward': ['P19 (place of birth)', ...], 'backward': [...]}`: the relations offered, as two rows.
function offers(said) {
  const match = /^\{'forward': \[(.*?)\], 'backward': \[(.*?)\]\}$/s.exec(said);
  if (!match) return null;
  const read = (list) => [...list.matchAll(/'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"/g)].map((m) => m[1] ?? m[2]);
  return [
    { side: "from it", relations: read(match[1]) },
    { side: "to it", relations: read(match[2]) },
  ];
}

function offerRow({ side, relations }) {
  if (!relations.length) return null;
  const named = relations.map((relation) => {
    const [, id, label] = /^(\S+) \((.*)\)$/s.exec(relation) || [null, "", relation];
    return el("li", {}, label, id ? el("span", { class: "id" }, " ", id) : null);
  });
  return el("div", { class: "offer" }, el("span", { class: "side" }, side), el("ul", {}, named));
}

function correction(told, terms, before, next) {
  return el(
    "aside",
    { class: "correction" },
    el("p", { class: "correction-head" }, before || "", "Corrected by ", el("code", {}, told.guideline), told.source ? el("span", { class: "id" }, ` ${told.source}`) : null),
    told.reason ? reasonText(told.reason, terms) : null,
    next && next.action ? el("p", { class: "under" }, "Done instead: ", el("code", {}, terms.text(next.action))) : null,
    told.fixes.length ? el("div", { class: "fixes" }, el("p", {}, "Fixes that were tried on the graph and offered:"), el("ul", {}, told.fixes.map((fix) => el("li", {}, el("code", {}, terms.text(fix)))))) : null,
  );
}

// What was wrong: its beginning, and all of it when asked.
function reasonText(text, terms) {
  const whole = el("div", { class: "observed" }, terms.rule(text));
  if (text.length <= 320) return whole;
  const begin = text.slice(0, 180).replace(/\s+\S*$/, "");
  return el("details", { class: "long" }, el("summary", {}, terms.text(begin), " …"), whole);
}

function distinct(facts) {
  return [...new Map(facts.map((fact) => [JSON.stringify(fact.slice(0, 3)), fact.slice(0, 3)])).values()];
}

const proofFact = (p) => p.ids || [p.subject, p.relation, p.object];

// The memory of the run; where it kept none, the proof.
function graphCard(trace, terms) {
  // That a member is of its class says nothing that the answer does not.
  const types = new Set(trace.types || []), drawn = (facts) => distinct(facts).filter(([, relation]) => !types.has(relation));
  const memory = drawn((trace.memory || []).flat());
  const facts = memory.length ? memory : drawn((trace.proof || []).map(proofFact));
  if (!facts.length) return null;
  const place = el("div", {});
  const topics = new Set(usedEntities(trace).map((e) => e.id));
  const answers = new Set([...(trace.answer || []), ...(trace.labels || [])]);
  const bare = new Set([...topics].filter((t) => facts.some(([s, , o]) => s === t || o === t)));
  // Without short ids the entities of the question are known by the end of their IRI.
  for (const [s, , o] of bare.size ? [] : facts) for (const n of [s, o]) if (topics.has(terms.read(n).label)) bare.add(n);
  const draw = (room) => drawFacts(facts.slice(0, 60), terms, bare, answers, room);
  requestAnimationFrame(() => placeGraph(place, draw));
  const title = memory.length ? "Facts that were followed" : "Facts of the proof";
  const larger = facts.length > 6 ? el("button", { type: "button", class: "more", onclick: () => enlarge(title, draw) }, "Enlarge") : null;
  const legend = ["topic", "in the question", "answer", "answer", "relation", "relation"];
  return section(
    title,
    el("div", { class: "legend" }, [0, 2, 4].map((i) => el("span", { class: legend[i] }, legend[i + 1])), larger),
    place,
    leftOut((trace.cut || {})[memory.length ? "memory" : "proof"], "fact"),
  );
}

function placeGraph(place, draw) {
  place.replaceChildren(draw(place.clientWidth));
  const canvas = place.querySelector(".canvas"), topic = canvas.querySelector(".topic") || canvas.querySelector(".box");
  canvas.scrollTop = topic.getBoundingClientRect().top - canvas.getBoundingClientRect().top - canvas.clientHeight / 2;
}

// The graph alone, as large as the window.
function enlarge(title, draw) {
  const place = el("div", {}), close = el("button", { type: "button", class: "more" }, "Close");
  const dialog = el("dialog", { class: "card", "aria-label": title, onclose: () => dialog.remove() }, el("div", { class: "dialog-head" }, el("h2", {}, title), close), place);
  close.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  placeGraph(place, draw);
}

function proofCard(trace, terms) {
  const proof = trace.proof || [], rows = trace.rows || [];
  if (!proof.length && !rows.length) return null;
  const cut = trace.cut || {};
  const items = proof.map((p) => factLine(terms, proofFact(p), p.from_document ? sentence(p.from_document) : null));
  const read = proof.filter((p) => p.from_document).length;
  return section(
    "Proof",
    read ? el("p", { class: "notice" }, `${read} of ${count(proof.length, "fact")} ${read === 1 ? "was" : "were"} read from documents, not found in the graph.`) : null,
    items.length ? el("ul", { class: "facts" }, folded(items, 8, "fact")) : el("ul", { class: "facts" }, folded(rows.map((row) => el("li", { class: "fact" }, row)), 12, "row")),
    leftOut(cut.proof || cut.rows, proof.length ? "fact" : "row"),
  );
}

function sentence({ document: title, source, sentence: said, id }) {
  const web = /^https?:\/\//i.test(source || "");
  const where = web ? el("a", { href: source, rel: "noopener noreferrer", target: "_blank" }, title || source) : [title, source && source !== title ? ` (${source})` : ""].join("");
  return el("blockquote", {}, el("p", {}, said), el("footer", {}, where, id ? el("span", { class: "id" }, ` fact ${id}`) : null));
}

function queryCard(trace) {
  const blocks = [trace.sparql ? queryBlock(trace.sparql, "SPARQL") : null, trace.sql ? queryBlock(trace.sql, "SQL") : null].filter(Boolean);
  const program = trace.program ? el("details", {}, el("summary", {}, "The actions it was built from"), el("pre", { tabindex: "0" }, el("code", {}, trace.program))) : null;
  return blocks.length || program ? section("Query", blocks, program) : null;
}

function documentsCard(trace, terms) {
  const facts = trace.facts || [], written = trace.written || [];
  if (!facts.length && !written.length) return null;
  const items = facts.map((f) => {
    const clash = (f.conflicts || []).length ? el("p", { class: "notice" }, "contradicts the graph: ", f.conflicts.join("; ")) : null;
    const known = el("p", { class: "under" }, `${f.status} · confidence ${Number(f.confidence).toFixed(2)} · read by ${f.reader}`);
    return factLine(terms, proofFact(f), sentence(f), known, clash);
  });
  return section(
    "Read from documents",
    el("ul", { class: "facts" }, folded(items, 6, "fact")),
    leftOut((trace.cut || {}).facts, "fact"),
    written.length ? el("div", {}, el("h3", {}, "Written by the model itself, so no proof"), el("ul", { class: "facts" }, written.map((fact) => el("li", { class: "fact" }, terms.text(fact))))) : null,
  );
}

function observationCard(trace, terms) {
  const seen = trace.observation || {}, facts = seen.facts || [];
  if (!facts.length) return null;
  const most = Math.max(...facts.map((fact) => fact[3]), 0.01);
  const items = facts.map((fact) => {
    const bar = svg("svg", { class: "score", width: 44, height: 6, "aria-hidden": "true" }, svg("rect", { class: "rest", width: 44, height: 6, rx: 3 }), svg("rect", { width: Math.max(2, (44 * Math.max(0, fact[3])) / most), height: 6, rx: 3 }));
    return factLine(terms, fact, el("span", { class: "id scored" }, bar, fact[3].toFixed(2)));
  });
  const from = (seen.from || []).length ? el("p", { class: "under" }, "seen from ", seen.from.map((id, i) => [i ? ", " : "", terms.show(id)])) : null;
  const cuts = (seen.cuts || []).map((cut) => el("p", { class: "under" }, cut));
  const all = facts.length + ((trace.cut || {}).observation || 0);
  return section("Observation", el("details", {}, el("summary", {}, `${count(all, "fact")} near the entities, nearest to the question first`), from, cuts, el("ul", { class: "facts" }, items), leftOut((trace.cut || {}).observation, "fact")));
}
