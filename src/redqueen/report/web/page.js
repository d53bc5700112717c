// The page: header, summary, sections with the views side by side, and, if it is live, polling for newer data.

const MAX_VIEWS_AT_FIRST = 3;
let DATA = JSON.parse(document.getElementById("data").textContent);
const SHOWN = new Set(DATA.views.map((_, at) => at).slice(0, MAX_VIEWS_AT_FIRST));

const shownViews = () => DATA.views.filter((_, at) => SHOWN.has(at));
const count = (number) => number.toLocaleString("en");

function tile(name, value, note = "") {
  return html("div", { class: "tile" },
    html("span", { text: name }), html("b", { text: visible(value) }), html("small", { text: visible(note) }));
}

// The first questions of any reader, with short answers.
function answers(view) {
  return html("div", { class: "answers" }, (DATA.views.length > 1 ? view.answers.slice(0, -1) : view.answers).map((one) =>
    html("a", { class: `tile ${one.level}`, href: `#${one.section}` },
      html("span", { text: visible(one.question) }), html("b", { text: visible(one.answer) }), html("small", { text: visible(one.note) }))));
}

// Of several worlds: a row for each, also of those that are not shown. What a population wins is for a comparison to say: it has the tests.
function overview() {
  const questions = [...new Set(DATA.views.flatMap((view) => view.answers.slice(0, -1).map((one) => one.question)))];
  const cell = (one) => html("td", one ? { class: one.level, text: visible(one.answer), title: visible(one.note) } : { text: "–" });
  const rows = DATA.views.map((view) => html("tr", {}, html("td", { text: visible(view.name) }), html("td", { text: `${view.steps_done}${view.steps_wanted ? ` of ${view.steps_wanted}` : ""}` }),
    questions.map((question) => cell(view.answers.find((one) => one.question === question)))));
  const head = ["world", "steps", ...questions].map((name) => html("th", { text: name }));
  return html("figure", { class: "wide overview" }, html("h3", { text: "All worlds" }),
    html("p", { class: "note" }, "Did a population win anything? ", html("code", { text: "redqueen compare RUN" }), " sets the arms side by side, with tests over their seeds."),
    html("div", { class: "scroll" }, html("table", {}, html("thead", {}, html("tr", {}, head)), html("tbody", {}, rows))));
}

const duration = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`);

function tiles(view) {
  const tail = Math.max(1, Math.floor(view.steps.length / 10));
  const when = tail > 1 ? "in the last tenth of the run" : "in the last step";
  const tailMean = (line = []) => {
    const values = line.slice(-tail).filter((value) => value !== null);
    return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : undefined;
  };
  const solved = tailMean(view.metrics["solve/pass_rate"]), complexity = tailMean(view.complexity_index);
  const left = view.active && view.pace && view.steps_wanted ? (view.steps_wanted - view.steps_done) * view.pace.step_s : 0;
  const running = view.active ? `, running${left ? `, ${duration(left)} left` : ""}` : "";
  const ofWanted = view.steps_wanted ? `of ${count(view.steps_wanted)}${running}` : "";
  const speed = view.active && view.pace ? `, ${count(Math.round(view.pace.tokens_per_s))} a second` : "";
  return html("div", { class: "tiles" },
    tile("steps", count(view.steps_done), ofWanted),
    tile("problems", count(view.counts.problems), `from ${count(view.counts.proposals)} proposals`),
    tile("attempts", count(view.counts.attempts), `${count(view.counts.tokens_sampled)} tokens sampled${speed}`),
    solved === undefined ? null : tile("solve rate", FORMATS.share(solved), when),
    complexity === undefined ? null : tile("complexity", `${complexity.toFixed(2)}×`, "relative to the first tenth"));
}

function nextSteps(view) {
  if (!view.next_steps.length || (DATA.live && view.active) || DATA.views.length > 1) return null;
  const other = view.next_steps.some(([command]) => command.includes("OTHER")) ? ", OTHER that of another" : "";
  return html("div", { class: "next" }, html("h3", { text: "What to do next" }), html("dl", { class: "words" }, view.next_steps.flatMap(([command, why]) =>
    [html("dt", {}, html("code", { text: visible(command) })), html("dd", { text: visible(why) })])), html("p", { class: "note", text: `RUN is the folder of this run${other}.` }));
}

const MARKS = { fact: "·", good: "✓", warning: "!" };

function findings(view) {
  const list = (levels) => view.findings.filter((one) => levels.includes(one.level)).map((one) =>
    html("li", { class: one.level },
      html("i", { text: MARKS[one.level] }), html("a", { href: `#${one.section}`, text: visible(one.text) })));
  const warnings = list(["warning"]);
  const none = "Nothing looks suspicious to the checks of this page. That is no proof that all is well.";
  return html("div", { class: "findings" },
    html("div", {}, html("h3", { text: "What happened" }), html("ul", {}, list(["fact", "good"])), warnings.length ? null : html("p", { class: "note", text: none })),
    html("div", { class: "aside" },
      warnings.length ? html("div", {}, html("h3", { text: "What looks suspicious" }), html("ul", {}, warnings)) : null,
      nextSteps(view)));
}

function legend(panel) {
  if (panel.legend === "slots") {
    const slots = [...new Set(panel.series.map((one) => one.name.split(".")[0]))];
    return legendOf(slots.sort(byNumber).map((slot) => [slot, memberColor(slot)]));
  }
  const isNeeded = (panel.series || []).length > 1 || panel.type === "stack";
  return isNeeded ? legendOf(panel.series.map((one) => [one.name, one.color])) : null;
}

const byNumber = (a, b) => a.localeCompare(b, "en", { numeric: true });
const legendOf = (entries) => html("div", { class: "legend" }, entries.map(([name, color]) =>
  html("span", {}, html("i", { style: `background:${color}` }), visible(name))));

// The rows of a table as a CSV file. The page loads nothing: the file is in the link.
function download(rows, title) {
  // a spreadsheet would take a text that begins like this for a formula
  const plain = (value) => (typeof value === "string" && /^[=+@-]/.test(value) ? `'${value}` : value);
  const cell = (value) => `"${visible(plain(value)).replaceAll('"', '""')}"`;
  const text = rows.map((row) => row.map(cell).join(",")).join("\n");
  const name = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}.csv`;
  return html("a", { class: "note", download: name, href: `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`, text: "as CSV" });
}

// The numbers behind a figure, made when they are first opened.
function numbers(panels) {
  const details = html("details", { class: "numbers" }, html("summary", { text: "numbers" }));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    for (const panel of panels) {
      if (panels.length > 1) details.append(html("h4", { text: visible(panel.title || "") }));
      const rows = table(panel);
      details.append(plainTable(rows), download(rows, panel.title || "numbers"));
    }
  });
  return details;
}

const redraws = [];

function plot(panel, range) {
  const holder = html("div", { class: "plot" });
  let width = 0;
  redraws.push(() => {
    if (!holder.clientWidth || Math.abs(holder.clientWidth - width) < 8) return;
    width = holder.clientWidth;
    holder.replaceChildren(draw(panel, width, range));
  });
  return holder;
}

// Views side by side share their x axis, and panels of one name or place share their y axis.
function sharedRanges(panelsByView, views) {
  const ranges = {};
  if (views.length > 1) {
    const last = Math.max(...views.map((view) => view.steps_done));
    for (const panel of panelsByView.flat()) {
      if (panel.x) panel.xRange = [panel.xRange ? panel.xRange[0] : panel.x[0] ?? 1, last];
    }
  }
  for (const panels of panelsByView) {
    panels.forEach((panel, at) => {
      const key = panel.scale || at;
      ranges[key] = ranges[key] ? join([ranges[key], extent(panel)]) : extent(panel);
    });
  }
  return ranges;
}

// What a figure is, and what is good or bad in it, for who has not read the paper.
function explanation(id) {
  const texts = EXPLAINED[id];
  if (!texts) return null;
  const names = ["What is this?", "Good", "Bad"];
  return html("details", { class: "explained" }, html("summary", { text: "what does this mean?" }),
    html("dl", {}, texts.flatMap((text, at) => [html("dt", { text: names[at] }), html("dd", { text })])));
}

function figureFrame(figure, views, title, note, columns, more) {
  return html("figure", { id: `figure-${figure.id}`, class: figure.wide || views.length > 1 ? "wide" : "" },
    html("figcaption", {}, html("h3", { text: visible(title) }), note ? html("p", { class: "note", text: note }) : null, explanation(figure.id)),
    html("div", { class: "views", style: `--views:${views.length}` }, columns.map((column, at) =>
      html("div", { class: "view" },
        views.length > 1 ? html("h4", { class: "of", text: visible(views[at].name) }) : null, column))),
    more);
}

function customFigure(figure, views) {
  const parts = views.map(figure.custom);
  const first = parts.find(Boolean);
  if (!first) return null;
  const columns = parts.map((part) => part && html("div", {}, html("p", { class: "note", text: part.note }), part.node));
  return figureFrame(figure, views, first.title, "", columns, null);
}

// Panels that some view has a value for: short runs have empty ones, of parts of a run that were too few.
function panelsWithValues(figure, views) {
  const hasValues = ({ series }) => !series || series.some(({ y }) => y?.some((value) => value !== null && value !== undefined));
  const panelsByView = views.map(figure.panels);
  const titles = new Set(panelsByView.flat().filter(hasValues).map((panel) => panel.title));
  return panelsByView.map((panels) => panels.filter((panel) => titles.has(panel.title)));
}

function panelFigure(figure, views) {
  const panelsByView = panelsWithValues(figure, views);
  if (!panelsByView.some((panels) => panels.length)) return null;
  const title = figure.title || panelsByView.find((panels) => panels.length)[0].title;
  const ranges = sharedRanges(panelsByView, views);
  const many = panelsByView.some((panels) => panels.length > 1);
  const columns = panelsByView.map((panels) =>
    html("div", { class: many ? "panels" : "", style: many ? `--small:${figure.small || 260}px` : "" },
      panels.map((panel, at) => html("div", { class: "panel" },
        many ? html("h4", { text: visible(panel.title || "") }) : null,
        legend(panel), plot(panel, ranges[panel.scale || at])))));
  const smoothed = panelsByView.flat().some(isSmoothed) ? " Thick line: moving average." : "";
  const note = figure.note ? figure.note + smoothed : "";
  return figureFrame(figure, views, title, note, columns, numbers(panelsByView.flat()));
}

function header() {
  const first = DATA.views[0], single = DATA.views.length === 1;
  const { base, machine, created, version } = first.about;
  const facts = [`base ${base}`, machine, created.replace("T", " ").slice(0, 16), `redqueen ${version}`, `seed ${first.seed}`];
  const about = single ? facts.filter(Boolean).join(" · ") : `${DATA.views.length} worlds side by side`;
  const toggle = (at, checked) => {
    if (checked) SHOWN.add(at);
    else if (SHOWN.size > 1) SHOWN.delete(at);
    render();
  };
  const chips = single ? null : html("div", { class: "chips" }, "shown: ", DATA.views.map((view, at) =>
    html("label", {},
      html("input", { type: "checkbox", checked: SHOWN.has(at), onchange: (event) => toggle(at, event.target.checked) }),
      visible(view.name))));
  return html("header", {},
    html("div", { class: "brand" }, html("i", { text: "♛" }), html("h1", { text: visible(single ? first.name : DATA.title) })),
    html("p", { class: "note", text: visible(about) }),
    html("p", { class: "intro", text: INTRODUCTION }),
    html("details", { class: "explained" }, html("summary", { text: "words on this page" }), html("dl", { class: "words" }, WORDS.flatMap(([word, text]) => [html("dt", { text: word }), html("dd", { text })]))),
    html("p", { id: "live", class: "note", hidden: !DATA.live }), chips);
}

// How the run was made: enough to make it again, and to tell whether it came out alike.
function recipeSection(views) {
  const part = (view) => {
    const entries = Object.entries(view.settings), changed = entries.filter(([, [, usual]]) => usual !== "");
    const origin = view.origin ? [html("p", { text: visible(`A fork of ${view.origin.run} after its step ${view.origin.step}, with ${Object.entries(view.origin.settings).map(([path, value]) => `${path}=${JSON.stringify(value)}`).join(", ") || "the same settings"}.`) })] : [];
    return html("div", {},
      views.length > 1 ? html("h3", { text: visible(view.name) }) : null, ...origin,
      html("p", { class: "note", text: visible(view.digest ? `Digest of the records (redqueen digest): ${view.digest}. Runs with equal digests have equal records.` : "The digest of its records is here when the run has ended.") }),
      view.recipe ? html("details", {}, html("summary", { text: "as a file: save it as recipe.toml, and `redqueen run recipe.toml` plays the same run again" }),
        html("pre", { text: visible(view.recipe) })) : null,
      html("details", {}, html("summary", { text: `${changed.length} settings that are not the default` }),
        plainTable([["setting", "value", "default"], ...changed.map(([path, own]) => [path, ...own])])),
      html("details", {}, html("summary", { text: `all ${entries.length} settings` }),
        plainTable([["setting", "value"], ...entries.map(([path, [value]]) => [path, value])])));
  };
  return html("section", { id: "recipe" }, html("h2", { text: "How it was made" }),
    html("div", { class: "recipe" }, views.map(part)));
}

function sectionNode(section, views) {
  const figures = section.figures.map((one) => (one.custom ? customFigure : panelFigure)(one, views)).filter(Boolean);
  const before = section.before ? section.before() : null;
  if (section.optional && !before && !figures.length) return null;
  if (before && !figures.length) return html("section", { id: section.id }, html("h2", { text: section.title }), before);
  return html("section", { id: section.id }, html("h2", { text: section.title }), before,
    figures.length ? html("div", { class: "figures" }, figures)
      : html("p", { class: "note", text: section.empty || "Nothing of this has been recorded." }));
}

function render() {
  const views = shownViews();
  redraws.length = 0;
  const summary = html("section", { id: "summary" }, DATA.views.length > 1 ? overview() : null, views.map((view) =>
    html("div", { class: "summary" },
      views.length > 1 ? html("h2", { text: visible(view.name) }) : null, answers(view), tiles(view), findings(view))));
  const browser = html("section", { id: "problems" }, html("h2", { text: "Problems, one by one" }), problemBrowser(views));
  const sections = [...SECTIONS.filter((one) => !one.isShown || views.some(one.isShown)), PEOPLE].map((section) => [section, sectionNode(section, views)]).filter(([, node]) => node);
  const links = html("nav", { "aria-label": "sections" }, [...sections.map(([section]) => section), { id: "problems", short: "Problems" }, { id: "recipe", short: "Settings" }].map((section) =>
    html("a", { href: `#${section.id}`, text: section.short })));
  const windows = DATA.views.some((view) => view.window > 1) ? " A point is the mean over several steps." : "";
  const footer = html("footer", { class: "note", text: `Made by redqueen ${DATA.version} from the ledger alone.${windows}` });
  document.getElementById("page").replaceChildren(
    header(), links, summary, ...sections.map(([, node]) => node), browser, recipeSection(views), footer);
  redraws.forEach((redraw) => redraw());
}

// What tells a fold-out from others when the page is drawn again.
const keyOf = (one) => [one.closest("figure, section, header")?.id ?? "", one.querySelector("summary").textContent].join(" ");

// A live page polls; the server answers 204 if nothing changed, else with all figures.
async function poll() {
  try {
    const answer = await fetch(`data.json?seen=${encodeURIComponent(DATA.stamp)}`, { credentials: "same-origin" });
    if (answer.status === 200) {
      DATA = await answer.json();
      const at = scrollY, focused = document.activeElement, opened = new Set([...document.querySelectorAll("details[open]")].map(keyOf));
      render();
      document.querySelectorAll("details").forEach((one) => { if (opened.has(keyOf(one))) one.open = true; });
      scrollTo(0, at);
      if (focused && focused.isConnected) focused.focus({ preventScroll: true });
    } else if (answer.status !== 204) throw new Error(String(answer.status));
    document.getElementById("live").textContent = `live · updated ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    document.getElementById("live").textContent = `no answer from \`redqueen watch\` (${error.message}); trying again`;
  }
  setTimeout(poll, DATA.every_s * 1000);
}

let resizing = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(resizing);
  resizing = requestAnimationFrame(() => redraws.forEach((redraw) => redraw()));
});
render();
if (DATA.live) poll();
