// Ids, labels and literals of one question.

// Whether a label says no more than its id, as `place of birth` and `people.person.place_of_birth` do.
function isSame(id, label) {
  const bare = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
  return bare(id).endsWith(bare(label));
}

// An id as it is shown: of a whole IRI the end, which is enough beside its label.
const brief = (id) => (/^<|:\/\//.test(id) ? id.replace(/^<|>$/g, "").split(/[/#]/).filter(Boolean).pop() || id : id);

const idTag = (id, ...before) => el("span", { class: "id", title: id }, ...before, brief(id));

class Terms {
  constructor(trace) {
    this.names = new Map(Object.entries(trace.names || {}));
    for (const e of trace.entities || []) if (e.label && e.label !== e.id) this.names.set(e.id, e.label);
    const ids = [...this.names.keys()].filter((id) => !/^.?[a-z]+$/.test(id) && !isSame(id, this.names.get(id))).sort((a, b) => b.length - a.length);
    const any = ids.map((id) => id.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    this.pattern = any ? new RegExp(`(?<![\\w:/?.])(?:${any})(?![\\w:/])`, "g") : null;
  }

  // A term of a fact: {label, id, literal}. Ids are short ones, `<IRI>`, or text in quotes for a literal.
  read(term) {
    const quoted = /^"(?:[^"\\]|\\.)*"/.exec(term);
    if (quoted) {
      try {
        return { label: JSON.parse(quoted[0]), id: "", literal: true };
      } catch {
        return { label: quoted[0].slice(1, -1), id: "", literal: true };
      }
    }
    const label = this.names.get(term);
    if (label) return { label, id: term, literal: false };
    const iri = /^<(.*)>$/.exec(term);
    if (!iri) return { label: term, id: "", literal: false };
    const local = iri[1].split(/[/#]/).filter(Boolean).pop() || iri[1];
    return { label: local, id: iri[1], literal: false };
  }

  // A term as an element: its label, its id behind it.
  show(term, kind) {
    const { label, id, literal } = this.read(term);
    return el("span", { class: `term ${kind || ""} ${literal ? "literal" : ""}`, title: id || null }, label, id && !isSame(brief(id), label) ? idTag(id, " ") : null);
  }

  // Text with the ids in it turned into labels, as nodes.
  text(text) {
    return this.labelled(text || "").flatMap((part) => (typeof part === "string" ? variables(part) : [part]));
  }

  labelled(text) {
    if (!this.pattern) return [text];
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(this.pattern)) {
      if (match.index < end) continue;
      const id = match[0];
      const label = this.names.get(id);
      const after = text.slice(match.index + id.length);
      const explained = after.startsWith(` (${label})`);
      const tagged = text.slice(0, match.index).endsWith(`${label} [`) && after.startsWith("]");
      parts.push(text.slice(end, tagged ? match.index - 2 : match.index));
      parts.push(el("span", { class: "named" }, tagged ? "" : label, idTag(id, " ")));
      end = match.index + id.length + (explained ? label.length + 3 : tagged ? 1 : 0);
    }
    parts.push(text.slice(end));
    return parts;
  }

  // A rule: its relations as arrows between nodes, conditions as words.
  rule(text) {
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(/<-\[([^\]]+)\]-|-\[([^\]]+)\]->/g)) {
      parts.push(...this.text(text.slice(end, match.index)));
      const [back, relation] = match[1] ? [true, match[1]] : [false, match[2]];
      parts.push(el("span", { class: "arrow" }, back ? "← " : "— ", this.show(relation), back ? " —" : " →"));
      end = match.index + match[0].length;
    }
    parts.push(...this.text(text.slice(end)));
    return parts;
  }
}

// Names of variables never break behind their question mark.
function variables(text) {
  return text.split(/(\?\w+)/).map((part, i) => (i % 2 ? el("span", { class: "variable" }, part) : part));
}

// A fact as one line: subject, relation, object.
function factLine(terms, [subject, relation, object], ...more) {
  return el("li", { class: "fact" }, terms.show(subject), el("span", { class: "arrow" }, "— ", terms.show(relation), " →"), terms.show(object), ...more);
}
