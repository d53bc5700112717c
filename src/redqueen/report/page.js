// The page: head, summary, sections, sides next to each other, and, where it is live, a look for news now and then.

const MOST_SIDES_AT_FIRST = 3;
let DATA = JSON.parse(document.getElementById("data").textContent);
let SHOWN = new Set(DATA.sides.map((_, at) => at).slice(0, MOST_SIDES_AT_FIRST));

const shownSides = () => DATA.sides.filter((_, at) => SHOWN.has(at));

function tile(name, value, note) {
  return html("div", { class: "tile" }, html("span", { text: name }), html("b", { text: visible(value) }), html("small", { text: visible(note || "") }));
}

function tiles(side) {
  const tail = Math.max(1, Math.floor(side.steps.length / 10)), when = tail > 1 ? "in the last tenth of the run" : "in the last step";
  const last = (line) => {
    const found = (line || []).slice(-tail).filter((value) => value !== null);
    return found.length ? found.reduce((sum, value) => sum + value, 0) / found.length : undefined;
  };
  const solved = last(metric(side, "solve/pass_rate")), complexity = last(side.complexity_index);
  const gain = side.suites.find((suite) => suite.students?.gain);
  return html("div", { class: "tiles" },
    tile("steps", side.steps_done.toLocaleString("en"), side.steps_wanted ? `of ${side.steps_wanted.toLocaleString("en")}${side.active ? ", going on" : ""}` : ""),
    tile("problems", side.counts.problems.toLocaleString("en"), `of ${side.counts.proposals.toLocaleString("en")} proposals`),
    tile("attempts", side.counts.attempts.toLocaleString("en"), `${side.counts.tokens_written.toLocaleString("en")} tokens in all`),
    solved === undefined ? null : tile("solve rate", FORMATS.share(solved), when),
    complexity === undefined ? null : tile("complexity", `${complexity.toFixed(2)}×`, "that of the first tenth"),
    gain ? tile("points over the base", FORMATS.points(gain.students.gain[0]), `${gain.suite}, [${FORMATS.points(gain.students.gain[1])}, ${FORMATS.points(gain.students.gain[2])}]`) : null);
}

function story(side) {
  const names = { fact: "·", good: "✓", warning: "!" };
  const lines = (levels) => side.story.filter((one) => levels.includes(one.level)).map((one) => html("li", { class: one.level }, html("i", { text: names[one.level] }), html("a", { href: `#${one.section}`, text: visible(one.text) })));
  const warnings = lines(["warning"]);
  return html("div", { class: "story" },
    html("div", {}, html("h3", { text: "What happened" }), html("ul", {}, lines(["fact", "good"]))),
    html("div", {}, html("h3", { text: "What looks suspicious" }), warnings.length ? html("ul", {}, warnings) : html("p", { class: "note", text: "None of the checks found anything. That is no proof that all is well." })));
}

function legend(panel) {
  if (panel.legend === "places") {
    const places = [...new Set(panel.series.map((one) => one.name.split(".")[0]))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    return legendOf(places.map((place) => [place, memberColor(place)]));
  }
  return (panel.series || []).length > 1 || panel.type === "stack" ? legendOf(panel.series.map((one) => [one.name, one.color])) : null;
}
const legendOf = (entries) => html("div", { class: "legend" }, entries.map(([name, color]) => html("span", {}, html("i", { style: `background:${color}` }), visible(name))));

function numbers(panels) {
  const details = html("details", { class: "numbers" }, html("summary", { text: "numbers" }));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(...panels.flatMap((panel) => [panels.length > 1 ? html("h4", { text: visible(panel.title || "") }) : null, plainTable(table(panel))].filter(Boolean)));
  });
  return details;
}

const redraws = [];
function plot(panel, range) {
  const holder = html("div", { class: "plot" });
  let width = 0;
  redraws.push(() => {
    if (Math.abs(holder.clientWidth - width) < 8 || !holder.clientWidth) return;
    width = holder.clientWidth;
    holder.replaceChildren(draw(panel, width, range));
  });
  return holder;
}

function figure(figure, sides) {
  const found = sides.map((side) => (figure.custom ? figure.custom(side) : figure.panels(side)));
  if (!found.some((one) => one && (figure.custom || one.length))) return null;
  const title = figure.title || (figure.custom ? found.find(Boolean).title : found.find((one) => one.length)[0].title);
  const ranges = {};
  if (!figure.custom && sides.length > 1) {
    const last = Math.max(...sides.map((side) => side.steps_done));
    for (const panel of found.flat()) if (panel.x) panel.xRange = [panel.xRange ? panel.xRange[0] : panel.x[0] ?? 1, last];
  }
  if (!figure.custom) found.forEach((panels) => panels.forEach((panel, at) => {
    const key = panel.scale || at;
    ranges[key] = ranges[key] ? join([ranges[key], extent(panel)]) : extent(panel);
  }));
  const many = !figure.custom && found.some((panels) => panels.length > 1);
  const columns = found.map((one, at) => html("div", { class: "side" },
    sides.length > 1 ? html("h4", { class: "of", text: visible(sides[at].name) }) : null,
    figure.custom ? (one ? html("div", {}, html("p", { class: "note", text: one.note }), one.node) : null)
      : html("div", { class: many ? "panels" : "", style: many ? `--small:${figure.small || 260}px` : "" }, one.map((panel, number) => html("div", { class: "panel" }, many ? html("h4", { text: visible(panel.title || "") }) : null, legend(panel), plot(panel, ranges[panel.scale || number]))))));
  return html("figure", { id: `figure-${figure.id}`, class: figure.wide || sides.length > 1 ? "wide" : "" },
    html("figcaption", {}, html("h3", { text: visible(title) }), figure.note ? html("p", { class: "note", text: figure.note + (!figure.custom && found.flat().some(isSmoothed) ? " Thick: the mean of the steps around." : "") }) : null),
    html("div", { class: "sides", style: `--sides:${sides.length}` }, columns),
    figure.custom ? null : numbers(found.flat()));
}

function head() {
  const chips = DATA.sides.length < 2 ? null : html("div", { class: "chips" }, "shown: ", DATA.sides.map((side, at) => html("label", {}, html("input", { type: "checkbox", checked: SHOWN.has(at), onchange: (event) => { if (event.target.checked) SHOWN.add(at); else if (SHOWN.size > 1) SHOWN.delete(at); render(); } }), visible(side.name))));
  const first = DATA.sides[0];
  const about = DATA.sides.length === 1 ? [`base ${first.about.base}`, first.about.machine, first.about.created.replace("T", " ").slice(0, 16), `redqueen ${first.about.version}`, `seed ${first.seed}`].filter(Boolean).join(" · ") : `${DATA.sides.length} worlds side by side`;
  return html("header", {}, html("div", { class: "brand" }, html("i", { text: "♛" }), html("h1", { text: visible(DATA.sides.length === 1 ? first.name : DATA.title) })), html("p", { class: "note", text: visible(about) }), html("p", { id: "live", class: "note", hidden: !DATA.live }), chips);
}

function render() {
  const sides = shownSides();
  redraws.length = 0;
  const summary = html("section", { id: "summary" }, sides.map((side) => html("div", { class: "summary" }, sides.length > 1 ? html("h2", { text: visible(side.name) }) : null, tiles(side), story(side))));
  const sections = SECTIONS.map((section) => {
    const figures = section.figures.map((one) => figure(one, sides)).filter(Boolean);
    return html("section", { id: section.id }, html("h2", { text: section.title }), figures.length ? html("div", { class: "figures" }, figures) : html("p", { class: "note", text: "This run has no records of that." }));
  });
  const browser = html("section", { id: "problems" }, html("h2", { text: "Problems, one by one" }), problemBrowser(sides));
  const links = html("nav", { "aria-label": "sections" }, [...SECTIONS, { id: "problems", short: "Problems" }].map((section) => html("a", { href: `#${section.id}`, text: section.short })));
  document.getElementById("page").replaceChildren(head(), links, summary, ...sections, browser, html("footer", { class: "note", text: `Made by redqueen ${DATA.version} from the ledger alone. ${DATA.sides.some((side) => side.window > 1) ? "In long runs a point is the mean over several steps." : ""}` }));
  redraws.forEach((redraw) => redraw());
}

// A live page asks for news; the server answers with nothing new, or with all figures of the newest step.
async function look() {
  const line = document.getElementById("live");
  try {
    const answer = await fetch(`data.json?seen=${encodeURIComponent(DATA.stamp)}`, { credentials: "same-origin" });
    if (answer.status === 200) {
      DATA = await answer.json();
      const at = scrollY;
      render();
      scrollTo(0, at);
    } else if (answer.status !== 204) throw new Error(String(answer.status));
    document.getElementById("live").textContent = `live · looked at ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    line.textContent = `no answer from \`redqueen watch\` (${error.message}); looking again`;
  }
  setTimeout(look, DATA.every_s * 1000);
}

let resizing = 0;
addEventListener("resize", () => { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(() => redraws.forEach((redraw) => redraw())); });
render();
if (DATA.live) look();
