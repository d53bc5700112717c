// The browser of problems: filters, a list, and one proposal with all that came of it. Everything models wrote is a text node.

const PAGE = 60;

function difficultyOf(item) {
  if (item.rejection !== null) return "rejected";
  if (item.solve_rate === null) return "unattempted";
  if (item.solve_rate <= 0) return "unsolved";
  if (item.solve_rate >= 1) return "trivial";
  return item.solve_rate <= 1 / 3 ? "hard" : item.solve_rate <= 2 / 3 ? "middling" : "easy";
}

// All text of a proposal: of its payload where it became a problem, else as the teacher wrote it.
const textOf = (item) => (item.payload ? Object.values(item.payload).flat().join("\n") : item.text);

const same = (one, other) => one !== null && other !== null && one.step === other.step && one.proposal === other.proposal;

// The thought and the answer within an attempt, in either prompt pack.
function parts(text) {
  const chat = /^([\s\S]*?)<\/think>([\s\S]*)$/.exec(text);
  if (chat) return [chat[1].replace(/^\s*<think>/, "").trim(), chat[2].trim()];
  const compact = /^>>think\n([\s\S]*?)(?=^>>)([\s\S]*)$/m.exec(text);
  return compact ? [compact[1].trim(), compact[2].trim()] : ["", text.trim()];
}

// What is asked for and looked at, kept when a live page gets news.
const wanted = { side: 0, first: "", last: "", teacher: "", student: "", kind: "", difficulty: "", text: "" };
let chosen = null;

function problemBrowser(sides) {
  let shown = PAGE;
  if (wanted.side >= sides.length) wanted.side = 0;
  const list = html("div", { class: "list", role: "list" }), detail = html("div", { class: "detail", tabindex: "-1" }), count = html("p", { class: "note" });
  const filters = html("form", { class: "filters", onsubmit: (event) => event.preventDefault() });

  const items = () => sides[wanted.side].problems.items;
  const matching = () => items().filter((item) =>
    (wanted.first === "" || item.step >= +wanted.first) && (wanted.last === "" || item.step <= +wanted.last) &&
    ["teacher", "student", "kind"].every((name) => !wanted[name] || item[name] === wanted[name]) &&
    (!wanted.difficulty || difficultyOf(item) === wanted.difficulty) &&
    (!wanted.text || textOf(item).includes(wanted.text)));

  function choice(name, title, values) {
    const options = [html("option", { value: "", text: "any" }), ...values.map((value) => html("option", { value, text: visible(value), selected: wanted[name] === value }))];
    return html("label", {}, title, html("select", { name, onchange: (event) => { wanted[name] = event.target.value; shown = PAGE; refresh(); } }, options));
  }
  function field(name, title, type) {
    return html("label", {}, title, html("input", { name, type, value: wanted[name], oninput: (event) => { wanted[name] = event.target.value; shown = PAGE; refresh(); } }));
  }
  function build() {
    const values = (name) => [...new Set(items().map((item) => item[name]).filter((value) => value !== null && value !== undefined))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const chooseSide = sides.length < 2 ? null : html("label", {}, "run", html("select", { name: "side", onchange: (event) => { wanted.side = +event.target.value; shown = PAGE; build(); refresh(); } }, sides.map((side, at) => html("option", { value: at, text: visible(side.name), selected: at === wanted.side }))));
    filters.replaceChildren(...[chooseSide, field("first", "from step", "number"), field("last", "to step", "number"), choice("teacher", "teacher", values("teacher")), choice("student", "student", values("student")),
      choice("kind", "kind", values("kind")), choice("difficulty", "difficulty", [...Object.keys(DIFFICULTY), "rejected"]), field("text", "program has", "search")].filter(Boolean));
  }
  function refresh() {
    const found = matching(), total = sides[wanted.side].problems.total, sample = items().length;
    const of = sample < total ? ` This page holds ${sample.toLocaleString("en")} of ${total.toLocaleString("en")} proposals, spread evenly over the run; the ledger has them all.` : "";
    count.textContent = `${found.length.toLocaleString("en")} proposals match.${of}`;
    list.replaceChildren(...found.slice(0, shown).map(row));
    if (found.length > shown) list.append(html("button", { class: "more", text: "more", onclick: () => { shown += PAGE; refresh(); } }));
    if (!found.length) list.append(html("p", { class: "note", text: "Nothing matches." }));
  }
  function row(item) {
    const kind = difficultyOf(item);
    const end = item.rejection === null ? (item.solve_rate === null ? "" : FORMATS.share(item.solve_rate)) : item.rejection;
    const button = html("button", { class: "row", role: "listitem", "aria-current": same(item, chosen) ? "true" : null, onclick: () => { chosen = item; list.querySelector("[aria-current]")?.removeAttribute("aria-current"); button.setAttribute("aria-current", "true"); show(item); } },
      html("i", { style: `background:${DIFFICULTY[kind] || "#7d8590"}` }), html("span", { text: `step ${item.step}` }), html("span", { text: visible(`${item.teacher} → ${item.student ?? "?"}`) }), html("span", { text: visible(item.kind) }), html("em", { text: visible(end) }));
    return button;
  }
  function block(title, text) {
    return text === "" || text === undefined || text === null ? null : html("div", { class: "block" }, html("h4", { text: title }), html("pre", { text: visible(text) }));
  }
  // A payload is the kind's own: each field is a block. Fields that run parallel to the gold answers are shown beside them.
  function payloadBlocks({ payload, gold }) {
    const lines = (value) => (Array.isArray(value) ? value.join("\n") : String(value ?? ""));
    const beside = Object.keys(payload).find((name) => Array.isArray(payload[name]) && payload[name].length === gold.length && gold.length > 1);
    return [...Object.entries(payload).map(([name, value]) => (name === beside ? block(`${name} → gold`, value.map((one, at) => `${one}  →  ${gold[at]}`).join("\n")) : block(name, lines(value)))), beside ? null : block("gold", lines(gold))];
  }
  function show(item, move = true) {
    const facts = [`step ${item.step}`, `teacher ${item.teacher}`, `student ${item.student ?? "?"}`, item.kind, `reward ${item.reward}`, `advantage ${item.advantage}`];
    if (item.problem) facts.push(...Object.entries(item.features).map(([name, value]) => `${name} ${value}`));
    const attempts = (item.attempts || []).map(([text, verdict, why, reward, advantage, tokens], at) => {
      const [thought, answer] = parts(text);
      return html("div", { class: `attempt ${["correct", "wrong", "malformed"].includes(verdict) ? verdict : ""}` },
        html("h4", {}, html("b", { text: visible(`${at + 1}. ${verdict}`) }), ` · reward ${reward} · advantage ${advantage} · ${tokens} tokens`),
        block("thought", thought), block("answer", answer), why ? html("p", { class: "note", text: visible(why) }) : null);
    });
    detail.replaceChildren(html("p", { class: "facts", text: visible(facts.join(" · ")) }), ...[
      item.rejection !== null ? html("p", { class: "rejected", text: visible(`rejected: ${item.rejection}${item.detail ? " – " + item.detail : ""}`) }) : null,
      ...(item.problem ? payloadBlocks(item) : [block("text", item.text)]),
      attempts.length ? html("h4", { class: "attempts", text: `${attempts.length} attempts, ${FORMATS.share(item.solve_rate ?? 0)} right` }) : null, ...attempts].filter(Boolean));
    if (move && phone) detail.scrollIntoView({ block: "start" });
  }
  const phone = matchMedia("(max-width: 800px)").matches;
  if (!phone) chosen = items().find((item) => same(item, chosen)) || items().find((item) => item.problem) || null;
  build();
  refresh();
  if (chosen) show(chosen, false);
  return html("div", { class: "browser" }, filters, count, html("div", { class: "panes" }, list, detail));
}
