// A small graph of facts, drawn in layers from the entities of the question outwards.
// Facts that share a relation and one end share the relation's label. Neighbours always stand in layers
// side by side, so no line crosses a box, and boxes have a place each, so no labels overlap.

// In pixels: from row to row, between columns, between boxes side by side, between rows of boxes, height of a
// box, and room left and right of its label.
const ROW = 34, GAP = 34, SIDE = 14, DROP = 26, BOX = 26, PAD = 22;
// In an outline, from one depth to the next, and the room for lines at the right.
const INDENT = 20, MARGIN = 24;

const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  return (text, font) => {
    context.font = font;
    return context.measureText(text).width;
  };
})();

const FONT = "600 13px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

function clipped(text, room) {
  if (measure(text, FONT) <= room) return text;
  let end = text.length;
  while (end > 1 && measure(text.slice(0, end) + "…", FONT) > room) end -= 1;
  return text.slice(0, end).trimEnd() + "…";
}

// Boxes of entities and of relations; every fact joins subject, relation, object.
function boxesOf(facts) {
  const key = ([s, r, o], end) => JSON.stringify(end === "s" ? ["s", s, r] : ["o", r, o]);
  const sizes = new Map();
  for (const fact of facts) for (const end of "so") sizes.set(key(fact, end), (sizes.get(key(fact, end)) || 0) + 1);
  const boxes = new Map();
  const box = (id, term, relation) => boxes.get(id) || boxes.set(id, { id, term, relation, next: new Set(), facts: [] }).get(id);
  const lines = new Map();
  facts.forEach((fact, number) => {
    const hub = sizes.get(key(fact, "o")) > sizes.get(key(fact, "s")) ? key(fact, "o") : key(fact, "s");
    const [s, r, o] = [box("n" + fact[0], fact[0]), box(hub, fact[1], true), box("n" + fact[2], fact[2])];
    for (const [from, to, head] of [[s, r, false], [r, o, true]]) {
      from.next.add(to);
      to.next.add(from);
      const id = JSON.stringify([from.id, to.id]);
      if (!lines.has(id)) lines.set(id, { from, to, head, facts: [] });
      lines.get(id).facts.push(number);
    }
    for (const end of [s, r, o]) if (end.facts.at(-1) !== number) end.facts.push(number);
  });
  return { boxes: [...boxes.values()], lines: [...lines.values()] };
}

// Breadth first from the entities of the question; a part that has none begins at its busiest box.
function layersOf(boxes, isTopic) {
  const layers = [];
  const visit = (starts) => {
    let now = starts;
    now.forEach((box) => (box.layer = 0));
    for (let depth = 0; now.length; depth += 1) {
      (layers[depth] = layers[depth] || []).push(...now);
      const next = [];
      for (const box of now) {
        for (const other of box.next) {
          if (other.layer !== undefined) continue;
          other.layer = depth + 1;
          next.push(other);
        }
      }
      now = next;
    }
  };
  const topics = boxes.filter((box) => !box.relation && isTopic(box.term));
  visit(topics);
  for (;;) {
    const left = boxes.filter((box) => box.layer === undefined && !box.relation);
    if (!left.length) return layers;
    visit([left.reduce((best, box) => (box.next.size > best.next.size ? box : best))]);
  }
}

function ordered(layers) {
  const place = () => layers.forEach((layer) => layer.forEach((box, i) => (box.at = i - (layer.length - 1) / 2)));
  place();
  for (let round = 0; round < 8; round += 1) {
    const forward = round % 2 === 0;
    for (const layer of forward ? layers : [...layers].reverse()) {
      for (const box of layer) {
        const beside = [...box.next].filter((other) => (forward ? other.layer < box.layer : other.layer > box.layer));
        box.pull = beside.length ? beside.reduce((sum, other) => sum + other.at, 0) / beside.length : box.at;
      }
      layer.sort((a, b) => a.pull - b.pull || a.at - b.at);
    }
    place();
  }
  return layers;
}

// Each box moves towards its neighbours as far as the order and the room between boxes allow.
function settled(layers, size, space) {
  for (const layer of layers) {
    let at = 0;
    for (const box of layer) {
      box.across = at + size(box) / 2;
      at += size(box) + space;
    }
    const middle = (at - space) / 2;
    for (const box of layer) box.across -= middle;
  }
  for (let round = 0; round < 24; round += 1) {
    for (const layer of round % 2 ? layers : [...layers].reverse()) {
      for (const box of layer) box.want = [...box.next].reduce((sum, other) => sum + other.across, 0) / box.next.size;
      pooled(layer, size, space);
    }
  }
  const first = Math.min(...layers.flat().map((box) => box.across - size(box) / 2));
  for (const box of layers.flat()) box.across -= first;
  return Math.max(...layers.flat().map((box) => box.across + size(box) / 2));
}

// Places nearest to those wanted that keep order and room: pool adjacent violators.
function pooled(layer, size, space) {
  const groups = [];
  let before = 0;
  for (const box of layer) {
    const offset = before + size(box) / 2;
    before += size(box) + space;
    groups.push({ sum: box.want - offset, count: 1 });
    while (groups.length > 1 && groups.at(-2).sum / groups.at(-2).count > groups.at(-1).sum / groups.at(-1).count) {
      const last = groups.pop();
      groups.at(-1).sum += last.sum;
      groups.at(-1).count += last.count;
    }
    box.offset = offset;
  }
  let at = 0;
  for (const group of groups) for (let i = 0; i < group.count; i += 1, at += 1) layer[at].across = group.sum / group.count + layer[at].offset;
}

// Left to right where that fits with whole labels, else top to bottom where that does, else left to right with
// labels cut where they stay readable, else as an outline, which always fits.
function laidOut(facts, terms, isTopic, isAnswer, room) {
  const { boxes, lines } = boxesOf(facts);
  const layers = ordered(layersOf(boxes, isTopic));
  const across = (layer) => layer.reduce((sum, box) => sum + box.width + SIDE, -SIDE);
  fitTexts(boxes, terms, Math.min(300, room));
  if (columnsOf(layers).width <= room) return { boxes, lines, ...leftToRight(layers) };
  if (Math.max(...layers.map(across)) <= room) return { boxes, lines, ...topToBottom(layers) };
  const share = (room - GAP * (layers.length - 1)) / layers.length;
  if (share >= 120) {
    fitTexts(boxes, terms, share);
    return { boxes, lines, ...leftToRight(layers) };
  }
  return { boxes, lines, ...outline(boxes, layers, terms, isAnswer, room) };
}

function fitTexts(boxes, terms, widest) {
  for (const box of boxes) {
    box.text = clipped(terms.read(box.term).label, widest - PAD);
    box.width = measure(box.text, FONT) + PAD;
  }
}

function columnsOf(layers) {
  const widths = layers.map((layer) => Math.max(...layer.map((box) => box.width)));
  return { widths, width: widths.reduce((sum, width) => sum + width, 0) + GAP * (layers.length - 1) };
}

function leftToRight(layers) {
  const { widths, width } = columnsOf(layers);
  const height = settled(layers, () => BOX, ROW - BOX);
  let x = 0;
  layers.forEach((layer, i) => {
    for (const box of layer) [box.x, box.y] = [x + (i ? box.width : widths[0] * 2 - box.width) / 2, box.across];
    x += widths[i] + GAP;
  });
  return { size: [width, height], upright: false };
}

function topToBottom(layers) {
  const width = settled(layers, (box) => box.width, SIDE);
  for (const box of layers.flat()) [box.x, box.y] = [box.across, box.layer * (BOX + DROP) + BOX / 2];
  return { size: [width, layers.length * (BOX + DROP) - DROP], upright: true };
}

// A box below the other, each a little to the right of the one it comes from; ways to an answer come first.
function outline(boxes, layers, terms, isAnswer, room) {
  for (const box of boxes) box.below = [];
  const roots = [];
  for (const box of layers.flat()) {
    box.up = [...box.next].find((other) => other.layer < box.layer);
    (box.up ? box.up.below : roots).push(box);
    if (isAnswer(box.term) && !box.relation) for (let at = box; at && !at.leads; at = at.up) at.leads = true;
  }
  const first = (list) => [...list.filter((box) => box.leads), ...list.filter((box) => !box.leads)];
  let row = 0;
  const place = (box, depth) => {
    const left = depth * INDENT;
    box.text = clipped(terms.read(box.term).label, Math.max(80, room - left - MARGIN - PAD - 4));
    box.width = measure(box.text, FONT) + PAD;
    [box.x, box.y] = [left + box.width / 2, row * ROW + BOX / 2];
    row += 1;
    first(box.below).forEach((other) => place(other, depth + 1));
  };
  first(roots).forEach((box) => place(box, 0));
  const width = Math.max(...boxes.map((box) => box.x + box.width / 2));
  return { size: [width + MARGIN, row * ROW - (ROW - BOX)], outlined: true };
}

// In an outline: down from a box and right to the one below it, or around the right where the two are not so.
function elbow({ from, to }) {
  const left = (box) => box.x - box.width / 2, right = (box) => box.x + box.width / 2;
  if (to.up === from) return `M${left(from) + 9},${from.y + BOX / 2} V${to.y} H${left(to)}`;
  if (from.up === to) return `M${left(from)},${from.y} H${left(to) + 9} V${to.y + BOX / 2}`;
  const far = Math.max(right(from), right(to)) + MARGIN - 6;
  return `M${right(from)},${from.y} C${far},${from.y} ${far},${to.y} ${right(to)},${to.y}`;
}

// From the edge of one box to the edge of the other, as a soft curve.
function curve({ from, to }, upright) {
  const sign = to.layer > from.layer ? 1 : -1;
  const [a, b] = upright
    ? [[from.x, from.y + (sign * BOX) / 2], [to.x, to.y - (sign * BOX) / 2]]
    : [[from.x + (sign * from.width) / 2, from.y], [to.x - (sign * to.width) / 2, to.y]];
  const half = upright ? [0, (b[1] - a[1]) / 2] : [(b[0] - a[0]) / 2, 0];
  return `M${a.map(Math.round)} C${a[0] + half[0]},${a[1] + half[1]} ${b[0] - half[0]},${b[1] - half[1]} ${b.map(Math.round)}`;
}

let drawings = 0;

function drawFacts(facts, terms, topics, answers, room) {
  const isTopic = (term) => topics.has(term), isAnswer = (term) => answers.has(term) || answers.has(terms.read(term).label);
  const { boxes, lines, size, upright, outlined } = laidOut(facts, terms, isTopic, isAnswer, room);
  const head = `head-${(drawings += 1)}`;
  const [width, height] = [size[0] + 4, size[1] + 4];
  const edges = lines.map((line) => svg("path", { class: "edge", d: outlined ? elbow(line) : curve(line, upright), "marker-end": line.head ? `url(#${head})` : null }));
  const shapes = boxes.map((box) => shape(box, terms, isTopic, isAnswer));
  const marker = svg("marker", { id: head, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z", class: "head" }));
  const drawing = svg(
    "svg",
    { class: "network", width, height, viewBox: `-2 -2 ${width} ${height}`, role: "group", "aria-label": `Graph of ${count(facts.length, "fact")}` },
    svg("defs", {}, marker), svg("g", {}, edges), svg("g", {}, shapes),
  );
  const told = el("ul", { class: "told facts", "aria-live": "polite" });
  const idle = el("li", { class: "under" }, "Point at, tap or tab to a part of the graph to read its facts.");
  told.append(idle);
  const focus = (chosen) => {
    const lit = new Set(chosen);
    drawing.classList.toggle("lit", lit.size > 0);
    boxes.forEach((box, i) => shapes[i].classList.toggle("on", box.facts.some((fact) => lit.has(fact))));
    lines.forEach((line, i) => edges[i].classList.toggle("on", line.facts.some((fact) => lit.has(fact))));
    const shown = chosen.slice(0, 4).map((fact) => factLine(terms, facts[fact]));
    if (chosen.length > 4) shown.push(el("li", { class: "under" }, `and ${chosen.length - 4} more`));
    told.replaceChildren(...(shown.length ? shown : [idle]));
  };
  let held = null;
  const parts = [...boxes.map((box, i) => [shapes[i], box.facts]), ...lines.map((line, i) => [edges[i], line.facts])];
  for (const [node, of] of parts) {
    node.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && focus(of));
    node.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && focus(held || []));
    node.addEventListener("focus", () => focus((held = of)));
    node.addEventListener("click", (event) => (event.stopPropagation(), focus((held = of))));
  }
  drawing.addEventListener("click", () => focus((held = null) || []));
  drawing.addEventListener("keydown", (event) => event.key === "Escape" && focus((held = null) || []));
  return el("div", { class: "drawn-facts" }, el("div", { class: "canvas" }, drawing), told);
}

function shape(box, terms, isTopic, isAnswer) {
  const { label, id, literal } = terms.read(box.term);
  const kinds = box.relation ? ["relation"] : ["node", isTopic(box.term) && "topic", isAnswer(box.term) && "answer", literal && "literal"].filter(Boolean);
  const said = [label, id, kinds.includes("topic") && "in the question", kinds.includes("answer") && "answer"].filter(Boolean).join(", ");
  return svg(
    "g",
    { class: `box ${kinds.join(" ")}`, tabindex: 0, role: "img", "aria-label": said, transform: `translate(${Math.round(box.x)},${Math.round(box.y)})` },
    svg("title", {}, id ? `${label} (${id})` : label),
    svg("rect", { x: -box.width / 2, y: -BOX / 2, width: box.width, height: BOX, rx: box.relation ? BOX / 2 : 6 }),
    svg("text", { "text-anchor": "middle", dy: "0.35em" }, box.text),
  );
}
