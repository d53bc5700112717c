// The page of a comparison: for each way of matching, every outcome as bars with intervals, and all numbers as a table.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLORS = ["#7d8590", "#c8324a", "#2a78b8", "#1f9e95", "#a04a9c", "#e0812f", "#b99a2e", "#4f9b4a"];
const order = DATA.arms.map((one) => one.arm);
const armColor = (arm) => COLORS[order.indexOf(arm) % COLORS.length];
const short = (value) => (Math.abs(value) >= 1e6 ? value.toExponential(2) : String(+value.toPrecision(4)));
const estimate = (value, interval) => short(value) + (interval ? ` [${short(interval[0])}, ${short(interval[1])}]` : "");

function panelOf(row) {
  return { type: "bars", title: row.name, zero: true, rows: row.arms.map((one) => ({ name: one.arm.length > 18 ? "…" + one.arm.slice(-17) : one.arm, value: one.mean, low: one.interval?.[0], high: one.interval?.[1], color: armColor(one.arm) })) };
}

function numbersOf(rows) {
  const head = ["", ...order, ...order.slice(1).map((arm) => `${arm}: difference`)];
  const body = rows.map((row) => {
    const cells = Object.fromEntries(row.arms.map((one) => [one.arm, one]));
    const differences = order.slice(1).map((arm) => (cells[arm] && cells[arm].difference !== null ? `${estimate(cells[arm].difference, cells[arm].difference_interval)}${cells[arm].p === null ? "" : `, p ${+cells[arm].p.toPrecision(2)}`}${cells[arm].pairs ? "" : " †"}` : "–"));
    return [row.name, ...order.map((arm) => (cells[arm] ? estimate(cells[arm].mean, cells[arm].interval) : "–")), ...differences];
  });
  return plainTable([head, ...body]);
}

function renderComparison() {
  const redraws = [];
  const charts = (rows) => html("div", { class: "panels", style: "--small:360px" }, rows.map((row) => {
    const holder = html("div", { class: "plot" });
    redraws.push(() => holder.replaceChildren(draw(panelOf(row), holder.clientWidth)));
    return html("div", { class: "panel" }, html("h4", { text: visible(row.name) }), holder);
  }));
  const sections = Object.entries(DATA.tables).map(([name, found], at) => html("section", { id: `match-${at}` }, html("h2", { text: name[0].toUpperCase() + name.slice(1) }), html("p", { class: "note", text: DATA.matches[name] }),
    html("figure", { class: "wide whole" }, charts(found.outcomes), html("h3", { text: "All numbers" }), numbersOf([...found.outcomes, ...found.compute]))));
  const arms = plainTable([["arm", "seeds", "adapters"], ...DATA.arms.map((one) => [one.arm, one.seeds.join(", "), one.members])]);
  const note = `Means over seeds with 95 % bootstrap intervals. Differences are to ${order[0]}: paired by seed where both arms have two seeds or more in common (sign-flip test), else apart (permutation test, †). One seed has no interval.`;
  document.getElementById("page").replaceChildren(html("header", {}, html("div", { class: "brand" }, html("i", { text: "♛" }), html("h1", { text: "Comparison" })), html("p", { class: "note", text: visible(note) })), html("figure", { class: "wide" }, arms), ...sections);
  redraws.forEach((redraw) => redraw());
  return redraws;
}
const redraws = renderComparison();
addEventListener("resize", () => redraws.forEach((redraw) => redraw()));
