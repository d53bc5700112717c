// The problem browser: filters, a list, and one proposal with its problem and attempts. All text of models is in text nodes.

const PAGE_SIZE = 60;

function difficultyOf(item) {
  if (item.rejection !== null) return "rejected";
  if (item.solve_rate === null) return "unattempted";
  if (item.solve_rate <= 0) return "zero-pass";
  if (item.solve_rate >= 1) return "all-pass";
  return item.solve_rate <= 1 / 3 ? "hard" : item.solve_rate <= 2 / 3 ? "medium" : "easy";
}

// Problems that people posed are for everybody.
const studentOf = (item) => item.student ?? (item.teacher.startsWith("person:") ? "all" : "?");

const isSame = (one, other) => one && other && one.step === other.step && one.proposal === other.proposal;

// All text of a proposal: as its task kind shows the problem, else as the teacher wrote it.
const textOf = (item) => (item.blocks ? item.blocks.map((one) => one[1]).join("\n") : item.text);

// Reasoning and answer of an attempt, in either prompt format.
function splitReasoning(text) {
  const chat = /^([\s\S]*?)<\/think>([\s\S]*)$/.exec(text);
  if (chat) return [chat[1].replace(/^\s*<think>/, "").trim(), chat[2].trim()];
  const compact = /^>>think\n([\s\S]*?)(?=^>>)([\s\S]*)$/m.exec(text);
  return compact ? [compact[1].trim(), compact[2].trim()] : ["", text.trim()];
}

// Parts of problems about programs that are Python; messages and reasoning are prose.
const PYTHON_BLOCKS = ["program", "input", "output", "gold", "answer", "input → output"];

function block(title, text, kind = "") {
  if (text === "" || text === undefined || text === null) return null;
  const isPython = kind.startsWith("code_") && PYTHON_BLOCKS.includes(title);
  return html("div", { class: "block" }, html("h4", { text: title }), html("pre", {}, isPython ? pythonNodes(visible(text)) : visible(text)));
}

// Reasoning with the line marked that first contradicts execution, where that was looked at.
function reasoningBlock(text, departs) {
  if (departs === undefined || departs === null) return block("reasoning", text);
  const lines = text.split("\n").map((line, at) => html("span", { class: at + 1 === departs ? "departs" : "", text: visible(line) + "\n" }));
  return html("div", { class: "block" }, html("h4", { text: `reasoning, contradicted by execution in line ${departs}` }), html("pre", {}, lines));
}

// A readable answer without the marks of the compact prompt format; one that cannot be read stays as it was written.
const shownAnswer = (answer, verdict) =>
  (verdict === "malformed" || (answer.match(/^>>/gm) || []).length > 2 ? answer : answer.replace(/^>>\w+\n/, "").replace(/\n?>>end\s*$/, ""));

function attemptNode([text, verdict, detail, reward, advantage, tokens, student, departs], at, kind) {
  const [reasoning, answer] = splitReasoning(text);
  return html("div", { class: `attempt ${["correct", "wrong", "malformed"].includes(verdict) ? verdict : ""}` },
    html("h4", {}, html("b", { text: visible(`${at + 1}. ${verdict}`) }), visible(` · ${student}`), ` · reward ${reward} · advantage ${advantage} · ${tokens} tokens`),
    reasoningBlock(reasoning, departs), block("answer", shownAnswer(answer, verdict), kind), detail ? html("p", { class: "note", text: visible(detail) }) : null);
}

function proposalNodes(item, view) {
  const facts = [`step ${item.step}`, `teacher ${item.teacher}`, `student ${studentOf(item)}`, item.kind, `reward ${item.reward}`, `advantage ${item.advantage}`];
  facts.push(...Object.entries(item.features || {}).map(([name, value]) => `${FEATURES[name] || name.replaceAll("_", " ")} ${value}`));
  const rejection = item.rejection === null ? null
    : html("p", { class: "rejected", text: visible(`rejected: ${item.rejection}${item.detail ? " – " + item.detail : ""}`) });
  const attempts = (item.attempts || []).map((one, at) => attemptNode(one, at, item.kind));
  const heading = attempts.length
    ? html("h4", { class: "attempts", text: `${attempts.length} attempts, ${FORMATS.share(item.solve_rate ?? 0)} correct` }) : null;
  const body = (item.blocks || [["text", item.text]]).map(([label, text]) => block(visible(label), text, item.kind));
  return [html("p", { class: "facts", text: visible(facts.join(" · ")) }), rejection, ...body, vetoButtons(item, DATA.views.indexOf(view)), heading, ...attempts].filter(Boolean);
}

// The filter and the selection survive an update of a live page.
const filter = { view: 0, first: "", last: "", teacher: "", student: "", kind: "", difficulty: "", text: "", order: "hardest" };

// How the list may be sorted. Rejected proposals have no solve rate: they come last.
const ORDERS = {
  first: ["earliest", (a, b) => a.step - b.step],
  last: ["latest", (a, b) => b.step - a.step],
  hardest: ["hardest that was solved", (a, b) => rankOf(a) - rankOf(b) || b.step - a.step],
  reward: ["best for the teacher", (a, b) => b.reward - a.reward],
  longest: ["longest", (a, b) => textOf(b).length - textOf(a).length],
};
const rankOf = (item) => (item.rejection !== null || !item.solve_rate ? 2 : item.solve_rate);
let selected = null;

function isMatch(item) {
  return (!filter.first || item.step >= +filter.first) && (!filter.last || item.step <= +filter.last) &&
    ["teacher", "student", "kind"].every((name) => !filter[name] || item[name] === filter[name]) &&
    (!filter.difficulty || difficultyOf(item) === filter.difficulty) &&
    (!filter.text || textOf(item).includes(filter.text));
}

// One problem of the beginning, one of the middle and one of the end of what matches, all of one kind: the commonest, unless one is chosen. Those that
// were solved about half of the time come first, `turn` says how many of them to pass over.
const TIMES = ["beginning", "middle", "end"];

function threeTimes(items, turn) {
  const problems = items.filter((item) => item.problem && item.blocks).sort((a, b) => a.step - b.step), counts = {};
  for (const { kind } of problems) counts[kind] = (counts[kind] || 0) + 1;
  const kind = Object.keys(counts).sort((a, b) => counts[b] - counts[a])[0];
  const own = problems.filter((item) => item.kind === kind), size = Math.max(1, Math.floor(own.length / 10));
  if (new Set(own.map((item) => item.step)).size < 3) return null;
  const middle = Math.floor((own.length - size) / 2), balance = (item) => Math.abs((item.solve_rate ?? 1) - 0.5);
  const parts = [own.slice(0, size), own.slice(middle, middle + size), own.slice(-size)];
  return parts.map((part) => part.sort((a, b) => balance(a) - balance(b))[turn % part.length]);
}

function timesNode(items, turn, onMore) {
  const chosen = threeTimes(items, turn);
  if (!chosen) return null;
  const solved = (item) => (item.solve_rate === null ? "not attempted" : `solved ${FORMATS.share(item.solve_rate)}`);
  const columns = chosen.map((item, at) => html("div", { class: "side" },
    html("h4", {}, html("b", { text: TIMES[at] }), visible(` · step ${item.step} · ${item.teacher} · ${item.kind} · ${solved(item)}`)),
    ...item.blocks.map(([label, text]) => block(visible(label), text, item.kind))));
  return html("div", { class: "card times" }, html("h3", { text: "Beginning, middle and end, side by side" }), html("div", { class: "pair" }, columns),
    html("div", { class: "buttons" }, html("button", { type: "button", text: "Show three others", onclick: onMore })));
}

function problemBrowser(views) {
  let turn = 0;
  const times = html("div", {});
  let shown = PAGE_SIZE;
  if (filter.view >= views.length) filter.view = 0;
  const filters = html("form", { class: "filters", onsubmit: (event) => event.preventDefault() });
  const list = html("div", { class: "list", role: "list" });
  const detail = html("div", { class: "detail", tabindex: "-1" }), summary = html("p", { class: "note" });
  const items = () => views[filter.view].problems.items;
  const isPhone = matchMedia("(max-width: 800px)").matches;

  function change(name, value) {
    filter[name] = value;
    shown = PAGE_SIZE;
    turn = 0;
    if (name === "view") buildFilters();
    refresh();
  }
  function select(name, title, values) {
    const options = values.map((value) => html("option", { value, text: visible(value), selected: filter[name] === value }));
    return html("label", {}, title,
      html("select", { name, onchange: (event) => change(name, event.target.value) }, html("option", { value: "", text: "any" }), options));
  }
  function input(name, title, type) {
    return html("label", {}, title, html("input", { name, type, value: filter[name], oninput: (event) => change(name, event.target.value) }));
  }
  function selectView() {
    const options = views.map((view, at) => html("option", { value: at, text: visible(view.name), selected: at === filter.view }));
    return html("label", {}, "run", html("select", { name: "view", onchange: (event) => change("view", +event.target.value) }, options));
  }
  function selectOrder() {
    const options = Object.entries(ORDERS).map(([name, [title]]) => html("option", { value: name, text: title, selected: filter.order === name }));
    return html("label", {}, "sorted by", html("select", { name: "order", onchange: (event) => change("order", event.target.value) }, options));
  }
  function buildFilters() {
    const values = (name) => [...new Set(items().map((item) => item[name]).filter((value) => value !== null && value !== undefined))].sort(byNumber);
    filters.replaceChildren(...[
      views.length > 1 ? selectView() : null,
      input("first", "from step", "number"), input("last", "to step", "number"),
      select("teacher", "teacher", values("teacher")), select("student", "student", values("student")),
      select("kind", "kind", values("kind")), select("difficulty", "difficulty", [...Object.keys(DIFFICULTY), "rejected"]),
      input("text", "text contains", "search"), selectOrder()].filter(Boolean));
  }
  function row(item) {
    const outcome = item.rejection ?? (item.solve_rate === null ? "" : FORMATS.share(item.solve_rate));
    const choose = () => {
      selected = item;
      list.querySelector("[aria-current]")?.removeAttribute("aria-current");
      button.setAttribute("aria-current", "true");
      detail.replaceChildren(...proposalNodes(item, views[filter.view]));
      if (isPhone) detail.scrollIntoView({ block: "start" });
    };
    const button = html("button", { class: "row", role: "listitem", "aria-current": isSame(item, selected) ? "true" : null, onclick: choose },
      html("i", { style: `background:${DIFFICULTY[difficultyOf(item)] || "#7d8590"}` }), html("span", { text: `step ${item.step}` }),
      html("span", { text: visible(`${item.teacher} → ${studentOf(item)}`) }), html("span", { text: visible(item.kind) }),
      html("em", { text: visible(outcome) }));
    return button;
  }
  function compareTimes(matching) {
    const more = () => { turn += 1; compareTimes(matching); };
    times.replaceChildren(...[timesNode(matching, turn, more)].filter(Boolean));
  }
  function refresh() {
    const matching = items().filter(isMatch).sort(ORDERS[filter.order][1]), total = views[filter.view].problems.total;
    const sampled = items().length < total
      ? ` This page holds ${count(items().length)} of ${count(total)} proposals, an even sample of the run; the ledger has all of them.` : "";
    summary.textContent = `${count(matching.length)} proposals match.${sampled}`;
    // what is shown beside the list is in the list
    if (!isPhone && !matching.some((item) => isSame(item, selected))) selected = matching.find((item) => item.problem) || matching[0] || null;
    detail.replaceChildren(...(selected && matching.some((item) => isSame(item, selected)) ? proposalNodes(selected, views[filter.view]) : []));
    list.replaceChildren(...matching.slice(0, shown).map(row));
    const more = () => { shown += PAGE_SIZE; refresh(); };
    if (matching.length > shown) list.append(html("button", { class: "more", text: "more", onclick: more }));
    compareTimes(matching);
    if (!matching.length) list.append(html("p", { class: "note", text: "No proposal matches." }));
  }

  if (!isPhone) selected = items().find((item) => isSame(item, selected)) || null;
  buildFilters();
  refresh();
  return html("div", { class: "browser" }, filters, summary, html("div", { class: "panes" }, list, detail), times);
}
