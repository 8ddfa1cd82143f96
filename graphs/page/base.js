// What everything below is made of: elements, sections, lists that fold.
// Text of graphs and models is only ever set as text; nothing here takes a string for HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== "" && c !== false));
  return node;
}

const el = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
const byId = (id) => document.getElementById(id);
const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many || one + "s"}`;

function say(text) {
  byId("said").textContent = text;
}

function section(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

function leftOut(number, one, many) {
  return number ? el("p", { class: "under" }, `and ${count(number, one, many)} more, left out here`) : null;
}

// A list that shows its first few entries, and the rest when asked.
function folded(entries, most, one, many) {
  if (entries.length <= most + 2) return entries; // a button would take as much room
  const rest = entries.slice(most);
  const more = el("button", { type: "button", class: "more" }, `Show ${count(rest.length, "more " + one, "more " + (many || one + "s"))}`);
  const holder = { LI: () => el("li", { class: "more-row" }, more), TR: () => el("tr", {}, el("td", { class: "words", colspan: entries[0].cells.length }, more)) }[entries[0].tagName]?.() || more;
  more.addEventListener("click", () => {
    holder.replaceWith(...rest);
    rest[0].setAttribute("tabindex", "-1");
    rest[0].focus();
  });
  return [...entries.slice(0, most), holder];
}
