// The page of a comparison: the verdict, the arms, curves, and for each way of matching every outcome as points with intervals, and all numbers as a table.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLORS = ["#7d8590", "#c8324a", "#2a78b8", "#1f9e95", "#a04a9c", "#e0812f", "#b99a2e", "#4f9b4a", "#8a5a3c", "#4bb3dd", "#e3698f", "#6a63d4"];
const ARMS = DATA.arms.map((one) => one.arm);
const armColor = (arm) => COLORS[ARMS.indexOf(arm) % COLORS.length];
const short = (value) => (Math.abs(value) >= 1e6 ? value.toExponential(2) : String(+value.toPrecision(4)));
const TRAINED = "at equal trained tokens";

// Scores and rates are shares, which differ by points.
function unitOf(name) {
  if (name.endsWith(": gain over the base")) return "points";
  return name.includes(": ") || ["solve rate", "valid proposals"].includes(name) ? "score" : "number";
}
const SHOW = { score: (value) => (100 * value).toFixed(1), points: FORMATS.points, number: short };
const WORDS = { score: " %", points: " points", number: "" };
const estimate = (value, interval, unit) => SHOW[unit](value) + WORDS[unit] + (interval ? ` [${SHOW[unit](interval[0])}, ${SHOW[unit](interval[1])}]` : "");

function panelOf(row) {
  const name = (arm) => (arm.length > 18 ? "…" + arm.slice(-17) : arm);
  const rows = row.arms.map((one) => ({ name: name(one.arm), value: one.mean, low: one.interval?.[0], high: one.interval?.[1], color: armColor(one.arm) }));
  return { type: "bars", title: row.name, spread: true, unit: unitOf(row.name), rows };
}

function difference(cell, unit) {
  if (!cell || cell.difference === null) return "–";
  const p = cell.p === null ? "" : `, p ${+cell.p.toPrecision(2)}`;
  const holm = cell.p_holm === null ? "" : ` (Holm ${+cell.p_holm.toPrecision(2)})`;
  return `${estimate(cell.difference, cell.difference_interval, unit === "number" ? unit : "points")}${p}${holm}${cell.pairs || cell.p === null ? "" : " †"}`;
}

function numbersOf(rows) {
  const head = ["", ...ARMS, ...ARMS.slice(1).map((arm) => `${arm}: difference`)];
  const body = rows.map((row) => {
    const cells = Object.fromEntries(row.arms.map((one) => [one.arm, one])), unit = unitOf(row.name);
    const means = ARMS.map((arm) => (cells[arm] ? estimate(cells[arm].mean, cells[arm].interval, unit) : "–"));
    return [row.name, ...means, ...ARMS.slice(1).map((arm) => difference(cells[arm], unit))];
  });
  return plainTable([head, ...body]);
}

const redraws = [];
const redrawAll = () => redraws.forEach((redraw) => redraw());

function charts(panels) {
  return html("div", { class: "panels", style: "--small:360px" }, panels.map((panel) => {
    const holder = html("div", { class: "plot" });
    redraws.push(() => { if (holder.clientWidth) holder.replaceChildren(draw(panel, holder.clientWidth)); });
    return html("div", { class: "panel" }, html("h4", { text: visible(panel.title) }), holder);
  }));
}

// A score over trained tokens: a line for each arm, its interval over seeds as a band.
function curvePanel(curve) {
  const cell = (point, arm) => point.arms.find((one) => one.arm === arm);
  const series = ARMS.map((arm) => {
    const cells = curve.points.map((point) => cell(point, arm));
    return { name: arm, color: armColor(arm), y: cells.map((one) => one?.mean ?? null),
      low: cells.map((one) => one?.interval?.[0] ?? null), high: cells.map((one) => one?.interval?.[1] ?? null) };
  });
  return { type: "lines", title: curve.name, unit: "share", xLabel: "k tok", x: curve.points.map((point) => point.tokens / 1000), series };
}

// What differs nowhere, such as the score of the base, is in the table only.
const differs = (row) => new Set(row.arms.map((one) => one.mean)).size > 1;

function fold(title, node) {
  const details = html("details", { class: "fold" }, html("summary", { text: title }), node);
  details.addEventListener("toggle", redrawAll);
  return details;
}

// Declared outcomes first; all others are a click away where some were declared.
function matchSection([name, tables]) {
  const declared = tables.outcomes.filter((row) => row.declared && differs(row)), others = tables.outcomes.filter((row) => !row.declared && differs(row));
  const shown = declared.length ? declared : others;
  const parts = [charts(shown.map(panelOf)), declared.length && others.length ? fold(`${others.length} exploratory outcomes`, charts(others.map(panelOf))) : null,
    fold("all numbers", numbersOf([...tables.outcomes, ...tables.compute]))];
  const body = [html("p", { class: "note", text: DATA.matches[name] }), html("figure", { class: "wide whole" }, parts)];
  return name === TRAINED ? html("section", {}, html("h2", { text: sentence(name) }), body) : fold(sentence(name), html("section", {}, body));
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);
const armLegend = () => html("div", { class: "legend" }, ARMS.map((arm) => html("span", {}, html("i", { style: `background:${armColor(arm)}` }), visible(arm))));

// Of many arms: a row for each, a column for each outcome. Green is above the first arm, red below; pale where that does not hold after Holm's adjustment.
function verdictTable() {
  const cell = (own) => (own ? html("td", { class: own.place + (own.adjusted || own.place === "equal" ? "" : " unsure"), text: own.text }) : html("td", { text: "–" }));
  const arms = ARMS.slice(1).filter((arm) => DATA.verdict_table.some((row) => row.arms[arm]));
  const summary = DATA.verdict_table.map((row) => {
    const clear = (place) => Object.entries(row.arms).filter(([, own]) => own.place === place && own.adjusted).map(([arm]) => arm);
    const below = clear("below"), above = clear("above");
    return html("li", {}, html("b", { text: visible(`${row.outcome}: ${above.length ? above.join(", ") : "no arm"} above ${ARMS[0]}`) }), visible(below.length ? `; below it ${below.join(", ")}` : ""));
  });
  const head = html("tr", {}, ["arm", ...DATA.verdict_table.map((row) => (row.match === TRAINED ? row.outcome : `${row.outcome}, ${row.match}`))].map((name) => html("th", { text: visible(name) })));
  const body = arms.map((arm) => html("tr", {}, html("td", { text: visible(arm) }), DATA.verdict_table.map((row) => cell(row.arms[arm]))));
  return html("figure", { class: "wide verdict" }, html("h3", { text: "Verdict" }), html("ul", {}, summary),
    html("p", { class: "note", text: `Differences to ${ARMS[0]} ${[...new Set(DATA.verdict_table.map((row) => row.match))].join(" or ")}, scores in points, with 95 % intervals. Green: above, red: below, clear of zero; pale: not once adjusted for all declared outcomes. No colour: no difference shown.${DATA.declared.length ? "" : " Exploratory, as no outcome was declared."}` }),
    html("div", { class: "scroll" }, html("table", {}, html("thead", {}, head), html("tbody", {}, body))));
}

// Which arms there are, and what sets them apart: of the others only what is not as in the first.
function armsFigure() {
  const arms = plainTable([["arm", "seeds", "adapters"], ...DATA.arms.map((one) => [one.arm, one.seeds.join(", "), one.members])]);
  const differing = Object.entries(DATA.settings);
  const rows = differing.map(([path, own]) => [path, ...ARMS.map((arm, at) => (at && own[arm] === own[ARMS[0]] ? "same" : own[arm]))]);
  const settings = html("details", { open: ARMS.length < 5 }, html("summary", { text: differing.length === 1 ? "1 setting that differs" : `${differing.length} settings that differ` }), plainTable([["setting", ...ARMS], ...rows]));
  return html("figure", { class: "wide whole arms" }, html("h3", { text: "Arms" }), arms, differing.length ? settings : null);
}

const curves = DATA.curves.length ? [html("section", { id: "curves" }, html("h2", { text: "Curves" }),
  html("p", { class: "note", text: "Over thousands of trained tokens, all adapters of a run together; bands are 95 % intervals over seeds." }),
  html("figure", { class: "wide whole" }, armLegend(), charts(DATA.curves.map(curvePanel))))] : [];
const listed = (title, lines) => (lines.length ? [html("figure", { class: "wide" }, html("h3", { text: title }),
  html("ul", {}, lines.map((line) => html("li", { text: visible(line) }))))] : []);
const tested = new Set(DATA.verdict_table.flatMap((row) => Object.keys(row.arms)));
const verdict = tested.size > 1 ? [verdictTable()] : listed("Verdict", DATA.verdicts);
const leftOut = listed("Like is compared with like", DATA.left_out);
const header = html("header", {},
  html("div", { class: "brand" }, html("i", { text: "♛" }), html("h1", { text: "Comparison" })),
  html("p", { class: "note", text: visible(DATA.method) }));
document.getElementById("page").replaceChildren(header, ...verdict, ...leftOut, armsFigure(), ...curves, ...Object.entries(DATA.tables).map(matchSection));
redrawAll();
addEventListener("resize", redrawAll);
