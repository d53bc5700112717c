// People: what they did and what came of it, and, on a live page that may write, the forms to take part. Names and problems are hostile text like any
// other: they become text nodes.

const DONE = { pose: "posed", veto: "vetoed", rate: "rated", answer: "answered" };

function peopleTable(view) {
  const { rows, total, waiting } = view.people;
  if (!rows.length && !waiting.length) return null;
  const waits = waiting.map((one) => ["next", one.author, DONE[one.action], one.what, "waits for the next step"]);
  const done = rows.map((one) => [String(one.step), one.author, DONE[one.action], one.what, one.detail ? `${one.outcome}: ${one.detail}` : one.outcome]);
  const more = total > rows.length ? ` The newest ${count(rows.length)} of ${count(total)}; the ledger has all.` : "";
  const note = `What people did on the live page or in redqueen play, and what came of it. Answers are not trained on.${more}`;
  return { title: "Who did what", note, node: html("div", { class: "wrap" }, plainTable([["step", "person", "", "what", "outcome"], ...waits, ...done])) };
}

function preferredTeachers(view) {
  const { teachers, weight } = view.people;
  if (!teachers.length) return null;
  const rows = teachers.map((one) => [one.teacher, one.strength, one.won, one.lost, one.reward ?? "–"]);
  const counts = weight ? `Their ratings add up to ±${weight} to a teacher's reward.` : "Their ratings do not enter rewards here (reward.people_weight = 0).";
  const note = `A Bradley-Terry fit over compared problems: a problem is as strong as its teacher and its structure together, in logits, 0 is the average. ${counts}`;
  return { title: "Whose problems people prefer", note, node: plainTable([["teacher", "strength", "preferred", "not preferred", "mean reward"], ...rows]) };
}

// Taking part. The forms are built once and survive updates of the page, so that nobody loses what they are writing.

let forms = null;
const person = { view: 0, name: "" };
try { person.name = localStorage.getItem("redqueen-name") || ""; } catch { /* a browser may keep nothing */ }

async function send(action, content, status, view = person.view) {
  if (!person.name.trim()) {
    status.className = "status bad";
    status.textContent = "Please write your name first, at the top of this section: it is recorded with what you do.";
    return false;
  }
  status.className = "status";
  status.textContent = "sending …";
  try {
    const answer = await fetch("people", {
      method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ view, author: person.name, action, content }),
    });
    if (!answer.ok) throw new Error((await answer.text()).trim() || String(answer.status));
    const isActive = DATA.views[view].active;
    status.className = "status good";
    status.textContent = isActive ? "Thank you. The next step takes it up." : "Thank you. It waits until the run is resumed.";
    return true;
  } catch (error) {
    status.className = "status bad";
    status.textContent = visible(error.message);
    return false;
  }
}

function nameField() {
  const change = (event) => {
    person.name = event.target.value;
    try { localStorage.setItem("redqueen-name", person.name); } catch { /* as above */ }
  };
  return html("label", {}, "your name", html("input", { name: "author", maxlength: 60, value: person.name, placeholder: "recorded with all you do", oninput: change }));
}

function poseForm() {
  const fields = html("div", { class: "fields" }), status = html("p", { class: "status", role: "status" });
  const kinds = () => DATA.views[person.view].people.kinds;
  const choose = html("select", { name: "kind", onchange: () => build() });
  function build() {
    const kind = kinds().find((one) => one.name === choose.value) || kinds()[0];
    const rows = (at) => (kind.blocks.length > 3 ? 1 : at ? 2 : 6);
    fields.replaceChildren(...[
      kind.asks ? html("details", { class: "numbers" }, html("summary", { text: "what teachers are asked" }), html("pre", { text: visible(kind.asks) })) : null,
      kind.references.length ? referenceField(kind) : null,
      ...kind.blocks.map((label, at) => html("label", {}, label + (kind.blocks.filter((one) => one === label).length > 1 ? ` ${at}` : ""),
        html("textarea", { name: label, rows: rows(at), spellcheck: "false", maxlength: 20000 })))].filter(Boolean));
  }
  function referenceField(kind) {
    const problems = DATA.views[person.view].problems.items.filter((item) => item.problem && kind.references.includes(item.kind));
    const archived = problems.filter((item) => item.solve_rate > 0 && item.solve_rate < 1); // what the archive takes, unless it is told otherwise
    const known = (archived.length ? archived : problems).slice(-40).reverse();
    const options = known.map((item) => html("option", { value: item.problem, text: visible(`${item.problem.slice(0, 8)}: ${textOf(item).slice(0, 70)}`) }));
    return html("label", {}, "made from this problem of the archive", html("select", { name: "reference" }, options));
  }
  async function submit(event) {
    event.preventDefault();
    const blocks = [...fields.querySelectorAll("textarea")].map((area) => [area.name, area.value]);
    const reference = fields.querySelector("select")?.value || "";
    if (await send("pose", { kind: choose.value, blocks, reference }, status)) fields.querySelectorAll("textarea").forEach((area) => { area.value = ""; });
  }
  choose.replaceChildren(...kinds().map((kind) => html("option", { value: kind.name, text: visible(kind.summary ? `${kind.name}: ${kind.summary}` : kind.name) })));
  build();
  return html("form", { id: "pose", class: "card", onsubmit: submit }, html("h3", { text: "Pose a problem" }),
    html("p", { class: "note", text: "It is verified in the run's sandbox, then every student attempts it and learns from it." }),
    html("label", {}, "kind", choose), fields, html("div", { class: "buttons" }, html("button", { class: "main", text: "Pose it" })), status);
}

const anyOf = (list) => list[Math.floor(Math.random() * list.length)];

// Two problems of one kind, of different teachers where there are any.
function choosePair() {
  const items = DATA.views[person.view].problems.items.filter((item) => item.problem && item.blocks);
  for (let tries = 0; tries < 20 && items.length; tries++) {
    const first = anyOf(items);
    const others = items.filter((item) => item.kind === first.kind && item.problem !== first.problem);
    const strangers = others.filter((item) => item.teacher !== first.teacher);
    if (others.length) return [first, anyOf(strangers.length ? strangers : others)];
  }
  return null;
}

function rateForm() {
  const pair = html("div", { class: "pair" }), status = html("p", { class: "status", role: "status" });
  function next() {
    const found = choosePair();
    if (!found) {
      pair.replaceChildren(html("p", { class: "note", text: "There are not two problems of one kind yet." }));
      return;
    }
    pair.replaceChildren(...found.map((item, at) => html("div", { class: "side" },
      ...item.blocks.map(([label, text]) => block(visible(label), text, item.kind)),
      html("button", { class: "main", type: "button", "data-problem": item.problem, text: "This one is better",
        onclick: async () => { if (await send("rate", { better: item.problem, worse: found[1 - at].problem }, status)) next(); } }))));
  }
  next();
  return html("div", { id: "rate", class: "card" }, html("h3", { text: "Which is the better problem?" }),
    html("p", { class: "note", text: "The one you would rather learn from. Who wrote them is not shown." }), pair,
    html("div", { class: "buttons" }, html("button", { type: "button", text: "Show two others", onclick: () => { status.textContent = ""; next(); } })), status);
}

// Vetoes are for good: the first click asks, the second one does it.
function vetoButtons(item, view) {
  if (!DATA.can_write || !item.problem) return null;
  const status = html("p", { class: "status", role: "status" });
  const button = (text, template) => {
    const node = html("button", { type: "button", "data-template": String(template), text, onclick: async () => {
      if (node.textContent === text) {
        node.textContent = template ? "Sure? Click again to veto all problems like it" : "Sure? Click again to veto this problem";
        return;
      }
      node.textContent = text;
      await send("veto", { problem: item.problem, template }, status, view);
    } });
    return node;
  };
  return html("div", { class: "veto" }, html("div", { class: "buttons" }, button("Veto this problem", false), button("Veto its template", true)), status);
}

function takePart() {
  if (!DATA.live) return null;
  if (!DATA.can_write) {
    return html("p", { class: "note", text: "To pose, veto and rate problems, open the address with the token that redqueen watch printed, on the machine of the run." });
  }
  if (forms && forms.views === DATA.views.length) return forms.node;
  const body = html("div", { class: "forms" });
  const build = () => body.replaceChildren(...(DATA.views[person.view].people.kinds.length ? [poseForm()] : []), rateForm());
  const choose = (event) => { person.view = +event.target.value; build(); };
  const options = DATA.views.map((view, at) => html("option", { value: at, text: visible(view.name), selected: at === person.view }));
  const which = DATA.views.length > 1 ? html("label", {}, "run", html("select", { name: "world", onchange: choose }, options)) : null;
  build();
  const note = html("p", { class: "note", text: "To veto a problem, or all that differ from it in values only, choose it under Problems: it leaves the archive, and proposals like it are rejected." });
  forms = { views: DATA.views.length, node: html("div", { id: "take-part" }, html("div", { class: "filters" }, nameField(), which), body, note) };
  return forms.node;
}

const PEOPLE = { id: "people", short: "People", title: "People", optional: true, before: takePart, figures: [
  { id: "people-rows", wide: true, custom: peopleTable }, { id: "preferred-teachers", wide: true, custom: preferredTeachers }] };
