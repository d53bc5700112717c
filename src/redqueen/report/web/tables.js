// A plain table: rows of texts and numbers, the first of them its header.

function plainTable([head, ...body]) {
  const cell = (value) => html("td", { text: typeof value === "number" ? +value.toPrecision(5) : visible(value), class: typeof value === "number" ? "n" : "" });
  return html("div", { class: "scroll" }, html("table", {},
    html("thead", {}, html("tr", {}, head.map((name) => html("th", { text: visible(name) })))),
    html("tbody", {}, body.map((row) => html("tr", {}, row.map(cell))))));
}

// What problems look like: names for readers, and whether a number is a share.
const LOOKS = {
  length: ["characters shown to the student"], answer_length: ["characters of the answer"], names: ["names in the program"], constants: ["numbers in the program"],
  constant_texts: ["texts in the program"], answer_trivial: ["answer is trivial (0, [], True ...)", "share"], answer_shown: ["answer can be read in the question", "share"],
  answer_echo: ["output equals the input", "share"], message_tells: ["message gives away a line of the program", "share"], outputs_equal: ["same output for every input", "share"],
  answer_top: ["commonest answer", "share"], answer_type_top: ["commonest type of answer", "share"],
};

// A row for each look, a column for each kind: the first quarter of the run and the last.
function driftTable(view) {
  const { rows, answers } = view.drift;
  if (!rows.length) return null;
  const kinds = [...new Set(rows.map((one) => one.kind))], looks = [...new Set(rows.map((one) => one.name))];
  const shown = (value, unit) => (value === null || value === undefined ? "–" : FORMATS[unit || "number"](value));
  const cell = (look, kind) => {
    const one = rows.find((row) => row.name === look && row.kind === kind), unit = (LOOKS[look] || [])[1] || (look.endsWith("_top") ? "share" : "number");
    return one ? `${shown(one.first, unit)} → ${shown(one.last, unit)}` : "–";
  };
  const problems = kinds.map((kind) => String(rows.find((row) => row.kind === kind).problems));
  const common = answers.map((one) => `${one.kind}: ${visible(one.answer).slice(0, 40)} (${FORMATS.share(one.share)})`).join(" · ");
  const body = looks.map((look) => [(LOOKS[look] || [look.replaceAll("_", " ").replace(/ top$/, ": share of the commonest")])[0], ...kinds.map((kind) => cell(look, kind))]);
  return { title: "What problems look like", note: `First quarter of the run → last quarter, means over invented problems. Commonest answers at the end: ${common || "none"}.`,
    node: html("div", { class: "whole" }, plainTable([["", ...kinds], ...body, ["problems in the last quarter", ...problems]])) };
}
