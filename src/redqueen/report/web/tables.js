// A plain table: rows of texts and numbers, the first of them its header.

function plainTable([head, ...body]) {
  const cell = (value) => html("td", { text: typeof value === "number" ? +value.toPrecision(5) : visible(value), class: typeof value === "number" ? "n" : "" });
  return html("div", { class: "scroll" }, html("table", {},
    html("thead", {}, html("tr", {}, head.map((name) => html("th", { text: visible(name) })))),
    html("tbody", {}, body.map((row) => html("tr", {}, row.map(cell))))));
}
