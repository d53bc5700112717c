// A plain table: rows of texts and numbers, the first of them its head.

function plainTable(rows) {
  const [head, ...body] = rows;
  const cell = (value) => (typeof value === "number" ? +value.toPrecision(5) : visible(value));
  return html("div", { class: "scroll" }, html("table", {}, html("thead", {}, html("tr", {}, head.map((name) => html("th", { text: visible(name) })))), html("tbody", {}, body.map((row) => html("tr", {}, row.map((value) => html("td", { text: cell(value), class: typeof value === "number" ? "n" : "" })))))));
}
