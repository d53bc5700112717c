// Charts as SVG elements. A panel is plain data: { type, title, ... }; draw(panel, width, range) returns an element, table(panel) its numbers.
// Texts become text nodes, never markup: what models wrote may be hostile.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}
const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG_NAMESPACE, name), attributes, children);

// Control characters, and those that draw nothing or change the direction of text, are shown as escapes.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const visible = (text) => String(text).replace(CONTROLS, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// Rounds halves to even, as Python does, so that the page and the terminal print the same numbers.
const roundEven = (value) => Math.round(value) - (Math.abs(value % 1) === 0.5 && Math.round(value) % 2 ? 1 : 0);

const FORMATS = {
  share: (v) => (100 * v).toFixed(Math.abs(v) < 0.1 && v !== 0 ? 1 : 0) + " %",
  score: (v) => (100 * v).toFixed(1) + " %",
  points: (v) => (v > 0 ? "+" : "") + (roundEven(+(1000 * v).toPrecision(9)) / 10).toFixed(1),
  times: (v) => +v.toPrecision(3) + "×",
  seconds: (v) => (v >= 100 ? v.toFixed(0) : +v.toPrecision(2)) + " s",
  number: (v) => {
    if (Math.abs(v) >= 1000) return Math.round(v).toLocaleString("en");
    return v !== 0 && Math.abs(v) < 1e-4 ? v.toExponential(0) : String(+v.toPrecision(3));
  },
};
const format = (panel, value) => (value === null || value === undefined ? "–" : FORMATS[panel.unit || "number"](value));

const scale = (from, to, start, end) => (value) => start + ((value - from) / (to - from || 1)) * (end - start);

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const values = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) values.push(+value.toPrecision(12));
  return values;
}

// The smallest and largest value of a panel: panels side by side share a scale.
function extent(panel) {
  if (panel.domain) return panel.domain;
  let low = Infinity, high = -Infinity;
  if (panel.type === "stack") {
    low = 0;
    (panel.x || []).forEach((_, at) => { high = Math.max(high, panel.series.reduce((sum, one) => sum + (one.y[at] || 0), 0)); });
  } else {
    const values = panel.type === "dots" ? panel.points.map((one) => one.y) : panel.type === "bars" ? panel.rows.flatMap((row) => [row.value, row.low, row.high])
      : [...(panel.across || []).map((line) => line.y), ...(panel.series || []).flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])])];
    for (const value of values) {
      if (value === null || value === undefined) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (panel.zero) { low = Math.min(low, 0); high = Math.max(high, 0); }
  if (!(low <= high)) return [0, 1];
  if (low === 0 && high === 0 && (panel.zero || panel.unit === "share")) return [0, panel.unit === "share" ? 0.1 : 1];
  if (low === high) return [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  return [low, high];
}

const join = (ranges) => [Math.min(...ranges.map((range) => range[0])), Math.max(...ranges.map((range) => range[1]))];

const DRAW = { dots: drawDots, lines: drawLines, stack: drawStack, bars: drawBars, heat: drawHeat, tree: drawTree };

function draw(panel, width, range) {
  const chart = DRAW[panel.type](panel, Math.max(width, 220), range || extent(panel));
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", panel.title || "chart");
  return chart;
}

function canvas(width, height, ...children) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart" }, ...children);
}

const label = (x, y, text, attributes) => svg("text", { x, y, ...attributes, text: visible(text) });

// Axes of charts over steps, and what they share: { left, right, top, bottom, x, y, parts }.
function frame(panel, width, range) {
  const height = panel.height || 230;
  const box = { left: 46, right: width - 10, top: 10, bottom: height - 28, height, parts: [] };
  const steps = [...(panel.xRange || [panel.x[0] ?? 0, panel.x.at(-1) ?? 1])];
  if (steps[0] === steps[1]) { steps[0] -= 0.5; steps[1] += 0.5; }
  box.x = scale(steps[0], steps[1], box.left, box.right);
  box.y = scale(range[0], range[1], box.bottom, box.top);
  for (const value of ticks(range[0], range[1], height < 180 ? 3 : 5)) {
    box.parts.push(svg("line", { x1: box.left, x2: box.right, y1: box.y(value), y2: box.y(value), class: "grid" }));
    box.parts.push(label(box.left - 6, box.y(value) + 4, format(panel, value), { class: "tick end" }));
  }
  for (const value of ticks(steps[0], steps[1], Math.max(2, Math.min(8, width / 90))).filter(Number.isInteger)) {
    box.parts.push(label(box.x(value), box.bottom + 17, value, { class: "tick middle" }));
  }
  box.parts.push(label(0, box.bottom + 17, panel.xLabel || "step", { class: "tick" }));
  return box;
}

function drawLines(panel, width, range) {
  const pad = panel.domain ? 0 : (range[1] - range[0]) * 0.06;
  const box = frame(panel, width, [range[0] - (range[0] === 0 ? 0 : pad), range[1] + pad]);
  const marks = (panel.events || []).map((event) => svg("line", { x1: box.x(event), x2: box.x(event), y1: box.top, y2: box.bottom, class: "event" }));
  for (const one of panel.series) {
    if (one.low) marks.push(svg("path", { d: bandPath(one.x || panel.x, one, box), class: "band", style: `fill:${one.color}` }));
  }
  for (const one of panel.series) marks.push(...lineMarks(panel, one, box));
  for (const line of panel.across || []) {
    marks.push(svg("line", { x1: box.left, x2: box.right, y1: box.y(line.y), y2: box.y(line.y), class: "across" }));
    marks.push(label(box.right, box.y(line.y) - 4, line.name, { class: "tick end" }));
  }
  return withCrosshair(panel, canvas(width, box.height, ...box.parts, ...marks), box);
}

function lineMarks(panel, one, box) {
  const xs = one.x || panel.x, isFew = panel.x.length <= 14, smooth = isSmoothed(panel);
  const marks = [svg("path", { d: linePath(xs, one.y, box), class: smooth ? "line raw" : one.dash ? "line dash" : "line", style: `stroke:${one.color}` })];
  if (smooth) marks.push(svg("path", { d: linePath(xs, movingMean(one.y), box), class: "line", style: `stroke:${one.color}` }));
  xs.forEach((x, at) => {
    const y = one.y[at] ?? null;
    if (y === null) return;
    const isAlone = (one.y[at - 1] ?? null) === null && (one.y[at + 1] ?? null) === null;
    if (isFew || isAlone) marks.push(svg("circle", { cx: box.x(x), cy: box.y(y), r: 2.6, style: `fill:${one.color}` }));
  });
  return marks;
}

// A step has few problems and is noisy: longer runs get a moving average on top.
const isSmoothed = (panel) => panel.smooth && panel.x.length >= 20;

function movingMean(ys) {
  const reach = Math.max(1, Math.round(ys.length / 20));
  return ys.map((y, at) => {
    if (y === null) return null;
    const near = ys.slice(Math.max(0, at - reach), at + reach + 1).filter((value) => value !== null);
    return near.reduce((sum, value) => sum + value, 0) / near.length;
  });
}

function linePath(xs, ys, box) {
  let path = "", pen = "M";
  xs.forEach((x, at) => {
    if (ys[at] === null || ys[at] === undefined) { pen = "M"; return; }
    path += `${pen}${box.x(x).toFixed(1)} ${box.y(ys[at]).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function bandPath(xs, one, box) {
  const present = xs.map((_, at) => at).filter((at) => one.low[at] !== null && one.high[at] !== null);
  if (!present.length) return "";
  const point = (at, ys) => `${box.x(xs[at]).toFixed(1)} ${box.y(ys[at]).toFixed(1)}`;
  const top = present.map((at) => point(at, one.high)), bottom = present.reverse().map((at) => point(at, one.low));
  return `M${top.join("L")}L${bottom.join("L")}Z`;
}

function withCrosshair(panel, chart, box) {
  const hair = svg("line", { y1: box.top, y2: box.bottom, class: "hair", visibility: "hidden" });
  const steps = [...new Set(panel.series.flatMap((one) => one.x || panel.x))].sort((a, b) => a - b);
  const move = (event) => {
    const bounds = chart.getBoundingClientRect();
    const at = ((event.clientX - bounds.left) / bounds.width) * chart.viewBox.baseVal.width;
    const step = steps.reduce((best, x) => (Math.abs(box.x(x) - at) < Math.abs(box.x(best) - at) ? x : best), steps[0]);
    if (step === undefined) return;
    for (const [name, value] of [["x1", box.x(step)], ["x2", box.x(step)], ["visibility", "visible"]]) hair.setAttribute(name, value);
    const values = panel.series.map((one) => [one, one.y[(one.x || panel.x).indexOf(step)] ?? null]).filter((row) => row[1] !== null);
    showTip(event, `${panel.xLabel || "step"} ${+step.toPrecision(4)}`, values.map(([one, value]) => [one.color, one.name, format(panel, value)]));
  };
  const leave = () => { hair.setAttribute("visibility", "hidden"); showTip(null); };
  chart.append(hair, svg("rect", {
    x: box.left, y: box.top, width: Math.max(0, box.right - box.left), height: box.bottom - box.top, class: "touch",
    onpointermove: move, onpointerdown: move, onpointerleave: leave,
  }));
  return chart;
}

function drawStack(panel, width, range) {
  const half = panel.x.length > 1 ? (panel.x[1] - panel.x[0]) / 2 : 0.5;
  const last = panel.xRange ? panel.xRange[1] : panel.x.at(-1) ?? 1;
  const box = frame({ ...panel, xRange: [(panel.x[0] ?? 1) - half, last + half] }, width, range);
  const barWidth = box.x(2 * half) - box.x(0), gap = barWidth > 5 ? 1 : 0;
  const bars = panel.x.flatMap((x, at) => {
    let top = 0;
    return panel.series.map((one) => {
      const value = one.y[at] || 0;
      top += value;
      const height = Math.max(0, box.y(top - value) - box.y(top));
      return value ? svg("rect", { x: box.x(x - half) + gap / 2, y: box.y(top), width: Math.max(0.5, barWidth - gap), height, style: `fill:${one.color}` }) : null;
    });
  });
  return withCrosshair(panel, canvas(width, box.height, ...box.parts, ...bars), box);
}

// Rows { name, value, low, high, color, note }: bars from zero, with their intervals; with `spread` points on a scale of their own, so that small differences show.
function drawBars(panel, width, range) {
  const nameWidth = Math.min(150, 16 + 7 * Math.max(4, ...panel.rows.map((row) => row.name.length)));
  const pad = (range[1] - range[0]) * 0.06;
  const from = panel.spread ? range[0] - pad : Math.min(0, range[0]), to = panel.spread ? range[1] + pad : Math.max(0, range[1]);
  const noteWidth = 6 * Math.max(...panel.rows.map((row) => (row.note || "").length));
  const x = scale(from, to + (to - from) * 0.02, nameWidth, width - 64 - noteWidth);
  const rowHeight = 26, height = panel.rows.length * rowHeight + 30;
  const parts = ticks(from, to, width < 420 ? 3 : 5).flatMap((value) => [
    svg("line", { x1: x(value), x2: x(value), y1: 4, y2: height - 24, class: value === 0 ? "across" : "grid" }),
    label(x(value), height - 8, format(panel, value), { class: "tick middle" }),
  ]);
  panel.rows.forEach((row, at) => {
    const y = at * rowHeight + 6, middle = y + (rowHeight - 5) / 2;
    const start = Math.min(x(0), x(row.value)), end = Math.max(x(row.value), x(row.high ?? row.value), panel.spread ? 0 : x(0));
    parts.push(label(nameWidth - 8, y + 14, row.name, { class: "name end" }));
    if (!panel.spread) parts.push(svg("rect", { x: start, y: y + 3, width: Math.abs(x(row.value) - x(0)), height: rowHeight - 11, rx: 2, class: "bar", style: `fill:${row.color}` }));
    if (row.low !== null && row.low !== undefined) {
      const whisker = `M${x(row.low)} ${middle}H${x(row.high)}M${x(row.low)} ${middle - 4}V${middle + 4}M${x(row.high)} ${middle - 4}V${middle + 4}`;
      parts.push(svg("path", { d: whisker, class: "whisker" }));
    }
    if (panel.spread) parts.push(svg("circle", { cx: x(row.value), cy: middle, r: 5, style: `fill:${row.color}` }));
    parts.push(label(end + 6, y + 14, format(panel, row.value) + (row.note ? ` ${row.note}` : ""), { class: "tick" }));
  });
  return canvas(width, height, ...parts);
}

// Points { name, x, y, color }: one measure against another.
function drawDots(panel, width, range) {
  const xs = panel.points.map((one) => one.x), low = Math.min(...xs), high = Math.max(...xs), bottom = 202;
  const pad = (from, to) => (to - from || 1) * 0.06;
  const x = scale(low - pad(low, high), high + pad(low, high), 46, width - 10);
  const y = scale(range[0] - pad(...range), range[1] + pad(...range), bottom, 10);
  const grid = ticks(range[0], range[1], 5).flatMap((value) => [
    svg("line", { x1: 46, x2: width - 10, y1: y(value), y2: y(value), class: "grid" }),
    label(40, y(value) + 4, format(panel, value), { class: "tick end" })]);
  const names = ticks(low, high, 5).map((value) => label(x(value), bottom + 17, FORMATS[panel.xUnit || "number"](value), { class: "tick middle" }));
  names.push(label(width - 10, bottom + 32, panel.xName, { class: "tick end" }));
  const dots = panel.points.map((one) => svg("circle", { cx: x(one.x), cy: y(one.y), r: 3.2, style: `fill:${one.color};fill-opacity:0.75` },
    svg("title", { text: visible(`${one.name}: ${FORMATS.number(one.x)}, ${format(panel, one.y)}`) })));
  return canvas(width, 240, ...grid, ...names, ...dots);
}

// Rows x columns of cells { value, note } or null. The stronger the color, the larger the value.
function drawHeat(panel, width) {
  const nameWidth = 16 + 7 * Math.max(2, ...panel.rows.map((row) => row.length));
  const cellWidth = Math.min(panel.most || 84, (width - nameWidth - 4) / Math.max(1, panel.columns.length));
  // names that are wider than their column take a line for each word
  const isTight = panel.columns.some((name) => 6.4 * name.length > cellWidth - 4);
  const titles = panel.columns.map((name) => (isTight ? name.split(" ") : [name])), deepest = Math.max(1, ...titles.map((words) => words.length));
  const cellHeight = 30, top = 11 + 13 * deepest;
  const [low, high] = panel.domain || [0, 1];
  const middle = (column) => nameWidth + (column + 0.5) * cellWidth;
  const parts = titles.flatMap((words, at) => words.map((word, line) => label(middle(at), top - 8 - 13 * (words.length - 1 - line), word, { class: "tick middle" })));
  panel.rows.forEach((name, down) => {
    const y = top + down * cellHeight;
    parts.push(label(nameWidth - 8, y + 19, name, { class: "name end" }));
    panel.columns.forEach((column, across) => {
      const cell = panel.cells[down][across];
      const rect = { x: nameWidth + across * cellWidth + 1, y: y + 1, width: Math.max(1, cellWidth - 2), height: cellHeight - 2, rx: 3 };
      if (!cell) { parts.push(svg("rect", { ...rect, class: "nothing" })); return; }
      const strength = 0.06 + 0.74 * Math.max(0, Math.min(1, (cell.value - low) / (high - low || 1)));
      const hint = `${name}, ${column}: ${format(panel, cell.value)}${cell.note ? " (" + cell.note + ")" : ""}`;
      parts.push(svg("rect", { ...rect, style: `fill:${panel.color};fill-opacity:${strength.toFixed(3)}` }, svg("title", { text: visible(hint) })));
      const text = cellWidth < 46 && panel.unit === "share" ? String(Math.round(100 * cell.value)) : format(panel, cell.value);
      if (cellWidth > 22) parts.push(label(middle(across), y + 19, text, { class: "cell middle" }));
    });
  });
  return canvas(width, top + panel.rows.length * cellHeight + 4, ...parts);
}

// A row for every slot, a bar for every life, a curve from parents to their child.
function drawTree(panel, width) {
  const slots = [...new Set(panel.members.map((one) => one.slot))].sort((a, b) => b.charCodeAt(0) - a.charCodeAt(0) || a.slice(1) - b.slice(1));
  const left = 40, rowHeight = 32, height = slots.length * rowHeight + 30;
  const x = scale(0, Math.max(1, panel.last), left, width - 16);
  const y = (slot) => slots.indexOf(slot) * rowHeight + 18;
  const byId = Object.fromEntries(panel.members.map((one) => [one.member, one]));
  const parts = slots.map((slot) => label(left - 10, y(slot) + 4, slot, { class: "name end" }));
  for (const value of ticks(0, panel.last, Math.max(2, width / 110)).filter(Number.isInteger)) {
    parts.push(svg("line", { x1: x(value), x2: x(value), y1: 4, y2: height - 22, class: "grid" }), label(x(value), height - 6, value, { class: "tick middle" }));
  }
  const links = [], lives = [];
  for (const one of panel.members) {
    for (const parent of one.parents.map((id) => byId[id]).filter(Boolean)) {
      links.push(svg("path", { d: linkPath(x(one.born), y(parent.slot), y(one.slot)), class: "link", style: `stroke:${panel.color(parent)}` }));
    }
    lives.push(...lifeMarks(panel, one, x(one.born), x(one.died ?? panel.last), y(one.slot)));
  }
  return canvas(width, height, ...parts, ...links, ...lives);
}

function linkPath(x, from, to) {
  if (from === to) return `M${x - 6} ${from}H${x}`;
  const start = x - Math.min(26, Math.max(8, Math.abs(to - from) / 3));
  return `M${start} ${from}C${x} ${from} ${start} ${to} ${x} ${to}`;
}

function lifeMarks(panel, one, start, end, y) {
  const rating = `${format({}, one.first_mu)} → ${format({}, one.mu)} ± ${format({}, one.sigma)}`;
  const facts = [["", "operator", one.operator], ["", "parents", one.parents.join(", ") || "none"], ["", "life", `step ${one.born} to ${one.died ?? "now"}`], ["", "rating", rating]];
  const marks = [svg("rect", {
    x: start + (one.born ? 1.5 : 0), y: y - 5, width: Math.max(3, end - start - 3), height: 10, rx: 5,
    class: one.died === null ? "life" : "life dead", style: `fill:${panel.color(one)}`,
    onpointermove: (event) => showTip(event, one.member, facts), onpointerleave: () => showTip(null),
  })];
  if (one.died !== null) marks.push(label(end - 3, y + 4, "×", { class: "tick end" }));
  if (one.operator !== "new" && end - start > one.operator.length * 5.6) marks.push(label(start + 4, y + 17, one.operator, { class: "small" }));
  return marks;
}

// The numbers of a panel as rows of a table, the first of them its header.
function table(panel) {
  if (panel.type === "lines" || panel.type === "stack") {
    const steps = [...new Set(panel.series.flatMap((one) => one.x || panel.x))].sort((a, b) => a - b);
    const columns = panel.series.flatMap((one) => (one.low ? [[one.name, one, "y"], ["low", one, "low"], ["high", one, "high"]] : [[one.name, one, "y"]]));
    const value = (step, one, key) => one[key][(one.x || panel.x).indexOf(step)] ?? "";
    return [["step", ...columns.map((column) => column[0])], ...steps.map((step) => [step, ...columns.map(([, one, key]) => value(step, one, key))])];
  }
  if (panel.type === "dots") return [["", panel.xName, panel.yName], ...panel.points.map((one) => [one.name, one.x, one.y])];
  if (panel.type === "bars") return [["", "value", "low", "high"], ...panel.rows.map((row) => [row.name, row.value, row.low ?? "", row.high ?? ""])];
  if (panel.type === "heat") return [["", ...panel.columns], ...panel.rows.map((name, down) => [name, ...panel.cells[down].map((cell) => (cell ? cell.value : ""))])];
  const head = ["member", "born", "died", "operator", "parents", "rating", "sigma"];
  return [head, ...panel.members.map((one) => [one.member, one.born, one.died ?? "", one.operator, one.parents.join(" "), one.mu, one.sigma])];
}

let tipNode = null;

function showTip(event, head, rows) {
  tipNode = tipNode || document.body.appendChild(html("div", { class: "tip", role: "status" }));
  tipNode.hidden = !event;
  if (!event) return;
  tipNode.replaceChildren(html("b", { text: visible(head) }), ...rows.map(([color, name, value]) =>
    html("div", {}, color ? html("i", { style: `background:${color}` }) : null, html("span", { text: visible(name) }), html("em", { text: visible(value) }))));
  const box = tipNode.getBoundingClientRect();
  tipNode.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6)) + "px";
  tipNode.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 6)) + "px";
}
