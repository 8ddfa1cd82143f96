// Queries: plain colouring, and a button that copies.

const WORDS = {
  SPARQL: /^(?:PREFIX|BASE|SELECT|DISTINCT|REDUCED|ASK|CONSTRUCT|DESCRIBE|WHERE|FILTER|OPTIONAL|UNION|MINUS|BIND|VALUES|GRAPH|ORDER|BY|ASC|DESC|LIMIT|OFFSET|GROUP|HAVING|AS|NOT|EXISTS|IN|COUNT|SUM|MIN|MAX|AVG|STR|LANG|YEAR|REGEX|CONTAINS|LCASE|a|true|false)$/i,
  SQL: /^(?:SELECT|DISTINCT|FROM|WHERE|AND|OR|NOT|NULL|IS|IN|LIKE|BETWEEN|JOIN|LEFT|RIGHT|INNER|OUTER|ON|GROUP|ORDER|BY|HAVING|ASC|DESC|LIMIT|OFFSET|UNION|EXCEPT|INTERSECT|AS|CASE|WHEN|THEN|ELSE|END|COUNT|SUM|MIN|MAX|AVG|CAST|EXISTS|WITH|TRUE|FALSE)$/i,
};
const TOKENS = /(#[^\n]*(?=\n|$)|--[^\n]*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(<[^<>\s]*>)|([?$]\w+)|([A-Za-z_][\w-]*:[\w.%-]*)|([A-Za-z_]\w*)|(\b\d[\w.]*)/g;
const KINDS = ["comment", "string", "iri", "variable", "name", "word", "number"];

function coloured(text, language) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    let kind = KINDS[match.slice(1).findIndex((group) => group !== undefined)];
    if (kind === "word") kind = WORDS[language].test(match[0]) ? "keyword" : "";
    if (kind === "comment" && language === "SPARQL" && match[0].startsWith("--")) kind = "";
    parts.push(text.slice(end, match.index), kind ? el("span", { class: `t-${kind}` }, match[0]) : match[0]);
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

function queryBlock(text, language) {
  const button = el("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    const done = await copy(text.trim());
    button.textContent = done ? "Copied" : "Select and copy it by hand";
    say(done ? `${language} copied` : "could not copy");
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  const code = el("code", {}, coloured(text.trim(), language));
  return el("div", { class: "query" }, el("div", { class: "query-head" }, el("span", {}, language), button), el("pre", { tabindex: "0", "aria-label": language }, code));
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByHand(text);
  }
}

// Pages opened from a file may not have the clipboard; the old way still works there.
function copyByHand(text) {
  const area = el("textarea", { class: "hush", readonly: true, "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
