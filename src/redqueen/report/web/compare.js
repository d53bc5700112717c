// The page of a comparison: for each way of matching, every outcome as bars with intervals, and all numbers as a table.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLORS = ["#7d8590", "#c8324a", "#2a78b8", "#1f9e95", "#a04a9c", "#e0812f", "#b99a2e", "#4f9b4a"];
const ARMS = DATA.arms.map((one) => one.arm);
const armColor = (arm) => COLORS[ARMS.indexOf(arm) % COLORS.length];
const short = (value) => (Math.abs(value) >= 1e6 ? value.toExponential(2) : String(+value.toPrecision(4)));
const estimate = (value, interval) => short(value) + (interval ? ` [${short(interval[0])}, ${short(interval[1])}]` : "");

function panelOf(row) {
  const name = (arm) => (arm.length > 18 ? "…" + arm.slice(-17) : arm);
  const rows = row.arms.map((one) => ({ name: name(one.arm), value: one.mean, low: one.interval?.[0], high: one.interval?.[1], color: armColor(one.arm) }));
  return { type: "bars", title: row.name, zero: true, rows };
}

function difference(cell) {
  if (!cell || cell.difference === null) return "–";
  const p = cell.p === null ? "" : `, p ${+cell.p.toPrecision(2)}`;
  const holm = cell.p_holm === null ? "" : ` (Holm ${+cell.p_holm.toPrecision(2)})`;
  return `${estimate(cell.difference, cell.difference_interval)}${p}${holm}${cell.pairs || cell.p === null ? "" : " †"}`;
}

function numbersOf(rows) {
  const head = ["", ...ARMS, ...ARMS.slice(1).map((arm) => `${arm}: difference`)];
  const body = rows.map((row) => {
    const cells = Object.fromEntries(row.arms.map((one) => [one.arm, one]));
    const means = ARMS.map((arm) => (cells[arm] ? estimate(cells[arm].mean, cells[arm].interval) : "–"));
    return [row.name, ...means, ...ARMS.slice(1).map((arm) => difference(cells[arm]))];
  });
  return plainTable([head, ...body]);
}

const redraws = [];

function charts(panels) {
  return html("div", { class: "panels", style: "--small:360px" }, panels.map((panel) => {
    const holder = html("div", { class: "plot" });
    redraws.push(() => holder.replaceChildren(draw(panel, holder.clientWidth)));
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

function matchSection([name, tables], at) {
  return html("section", { id: `match-${at}` },
    html("h2", { text: name[0].toUpperCase() + name.slice(1) }), html("p", { class: "note", text: DATA.matches[name] }),
    html("figure", { class: "wide whole" },
      charts(tables.outcomes.map(panelOf)), html("h3", { text: "All numbers" }), numbersOf([...tables.outcomes, ...tables.compute])));
}

const curves = DATA.curves.length ? [html("section", { id: "curves" }, html("h2", { text: "Curves" }),
  html("p", { class: "note", text: "Over thousands of trained tokens, all adapters of a run together; bands are 95 % intervals over seeds." }),
  html("figure", { class: "wide whole" }, charts(DATA.curves.map(curvePanel))))] : [];
const arms = plainTable([["arm", "seeds", "adapters"], ...DATA.arms.map((one) => [one.arm, one.seeds.join(", "), one.members])]);
const differing = Object.entries(DATA.settings);
const settings = differing.length ? [html("figure", { class: "wide" }, html("h3", { text: "Settings that differ" }),
  plainTable([["setting", ...ARMS], ...differing.map(([path, own]) => [path, ...ARMS.map((arm) => own[arm])])]))] : [];
const listed = (title, lines) => (lines.length ? [html("figure", { class: "wide" }, html("h3", { text: title }),
  html("ul", {}, lines.map((line) => html("li", { text: visible(line) }))))] : []);
// Of many arms: a row for each, a column for each outcome. Green is above the first arm, red below; pale where that does not hold after Holm's adjustment.
function verdictTable() {
  const cell = (own) => (own ? html("td", { class: own.place + (own.adjusted ? "" : " unsure"), text: own.text }) : html("td", { text: "–" }));
  const arms = ARMS.slice(1).filter((arm) => DATA.verdict_table.some((row) => row.arms[arm]));
  const summary = DATA.verdict_table.map((row) => {
    const above = Object.entries(row.arms).filter(([, own]) => own.place === "above" && own.adjusted).map(([arm]) => arm);
    return html("li", { text: visible(`${row.outcome}: ${above.length ? above.join(", ") : "no arm"} above ${ARMS[0]}`) });
  });
  const head = html("tr", {}, ["arm", ...DATA.verdict_table.map((row) => row.outcome)].map((name) => html("th", { text: visible(name) })));
  const body = arms.map((arm) => html("tr", {}, html("td", { text: visible(arm) }), DATA.verdict_table.map((row) => cell(row.arms[arm]))));
  return html("figure", { class: "wide verdict" }, html("h3", { text: "Verdict" }), html("ul", {}, summary),
    html("p", { class: "note", text: `Differences to ${ARMS[0]} at equal trained tokens, with 95 % intervals. Green: above, red: below, clear of zero; pale: not once adjusted for all declared outcomes. No colour: no difference shown.${DATA.declared.length ? "" : " Exploratory, as no outcome was declared."}` }),
    html("div", { class: "scroll" }, html("table", {}, html("thead", {}, head), html("tbody", {}, body))));
}
const tested = new Set(DATA.verdict_table.flatMap((row) => Object.keys(row.arms)));
const verdict = tested.size > 1 ? [verdictTable()] : listed("Verdict", DATA.verdicts);
const leftOut = listed("Like is compared with like", DATA.left_out);
const header = html("header", {},
  html("div", { class: "brand" }, html("i", { text: "♛" }), html("h1", { text: "Comparison" })),
  html("p", { class: "note", text: visible(DATA.method) }));
document.getElementById("page").replaceChildren(header, ...verdict, html("figure", { class: "wide" }, arms), ...settings, ...leftOut, ...curves, ...Object.entries(DATA.tables).map(matchSection));
const redrawAll = () => redraws.forEach((redraw) => redraw());
redrawAll();
addEventListener("resize", redrawAll);
