// The page of one run: how it was made, and all that happened.

const { trace, about } = JSON.parse(byId("run").textContent);
const facts = Object.entries(about).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
byId("question").append(el("dl", { class: "one-run" }, facts), ...questionView(trace).filter(Boolean));
document.documentElement.dataset.ready = "yes";
