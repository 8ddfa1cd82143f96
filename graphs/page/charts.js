// Plots: Vega-Lite as SVG, in the colours of the page, light or dark.

const INK = "var(--ink)", MUTED = "var(--muted)", LINE = "var(--line)";
const CHART_STYLE = {
  background: "transparent",
  font: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
  view: { stroke: null },
  axis: {
    labelColor: MUTED, titleColor: INK, gridColor: LINE, domainColor: LINE, tickColor: LINE,
    labelFontSize: 12, titleFontSize: 12, titleFontWeight: 600, titlePadding: 8, labelLimit: 160,
  },
  legend: { labelColor: INK, titleColor: INK, labelFontSize: 12, titleFontSize: 12, orient: "bottom", columns: 3, labelLimit: 260, symbolStrokeWidth: 2, symbolBaseFillColor: MUTED, symbolBaseStrokeColor: MUTED },
  header: { labelColor: INK, titleColor: INK, labelFontSize: 12, titleFontSize: 12 },
  title: { color: INK, subtitleColor: MUTED },
  text: { color: INK, fill: INK },
  rule: { color: MUTED },
  errorbar: { rule: { color: MUTED } },
  point: { size: 80, filled: true, opacity: 0.95 },
  line: { strokeWidth: 2.5 },
  mark: { color: "var(--c1)" },
  range: { category: [1, 2, 3, 4, 5, 6, 7, 8].map((i) => `var(--c${i})`) },
};

function merged(low, high) {
  const result = { ...low };
  for (const [name, value] of Object.entries(high || {})) {
    const both = value && typeof value === "object" && !Array.isArray(value) && result[name] && typeof result[name] === "object";
    result[name] = both ? merged(result[name], value) : value;
  }
  return result;
}

const isSingle = (spec) => !["facet", "hconcat", "vconcat", "concat", "repeat"].some((key) => key in spec) &&
  !["row", "column", "facet"].some((key) => key in (spec.encoding || {}));

// Names under an axis are upright only where they would not fit side by side.
function nameAngle(spec, room) {
  const x = (spec.encoding || {}).x || {};
  const values = ((spec.data || {}).values || []).map((row) => String(row[x.field] ?? ""));
  const names = [...new Set(values)];
  const longest = Math.max(0, ...names.map((name) => measure(name, "12px sans-serif")));
  return (longest + 10) * names.length < room - 80 ? 0 : -40;
}

function fitted(spec, room) {
  const style = { ...CHART_STYLE, axisXDiscrete: { labelAngle: nameAngle(spec, room) } };
  const result = { ...spec, config: merged(style, spec.config) };
  delete result.background;
  if (!isSingle(spec)) return result;
  return { ...result, width: "container", height: spec.height || 280, autosize: { type: "fit", contains: "padding" } };
}

async function drawCharts() {
  const places = [...document.querySelectorAll("[data-chart]")];
  if (!places.length) return;
  const specs = await block("charts");
  const library = URL.createObjectURL(new Blob([await unpack("vega")], { type: "text/javascript" }));
  await new Promise((resolve, reject) => {
    document.head.append(el("script", { src: library, onload: resolve, onerror: () => reject(new Error("the plots' library did not load")) }));
  });
  URL.revokeObjectURL(library);
  for (const place of places) {
    // Between two plots the page may answer to its reader.
    await new Promise((resolve) => setTimeout(resolve));
    try {
      const options = { renderer: "svg", actions: false, ast: true, tooltip: { theme: "custom" } };
      await window.vegaEmbed(place, fitted(specs[Number(place.dataset.chart)], place.clientWidth), options);
      place.classList.add("drawn");
    } catch (error) {
      place.replaceChildren(el("p", { class: "notice" }, `This plot could not be drawn: ${error.message}`));
    }
  }
}
