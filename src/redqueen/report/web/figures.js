// The sections of a report and their figures. The `panels` of a figure give what to draw for one view (one world of one run).

const WARM = ["#c8324a", "#e0812f", "#a04a9c", "#b99a2e", "#e3698f", "#8a5a3c", "#d9573f", "#7a3b66"];
const COOL = ["#2a78b8", "#1f9e95", "#6a63d4", "#4f9b4a", "#4bb3dd", "#3c5f8a", "#7fa83a", "#8793e0"];
const SERIES = ["#2a78b8", "#e0812f", "#1f9e95", "#a04a9c", "#b99a2e", "#c8324a", "#7d8590", "#6a63d4", "#4f9b4a", "#8a5a3c", "#4bb3dd", "#e3698f"];
const DIFFICULTY = { "zero-pass": "#7b2d3b", hard: "#c8324a", medium: "#d9a13b", easy: "#5aa9a0", "all-pass": "#9fb3c4" };
const TEACHER = WARM[0], STUDENT = COOL[0];
const SHARE = { unit: "share", domain: [0, 1] };

// The same name has the same color in all views: of task kinds, rejection reasons, stages.
const namesByGroup = {};
function colorOf(group, name) {
  const names = (namesByGroup[group] ||= []);
  if (!names.includes(name)) names.push(name);
  return SERIES[names.indexOf(name) % SERIES.length];
}

const memberColor = (member) => (member.startsWith("T") ? WARM : COOL)[(parseInt(member.slice(1), 10) || 0) % WARM.length];
const replacements = (view) => [...new Set(view.members.filter((one) => one.born > 0).map((one) => one.born))];

// Lines of metrics, [[metric, label, color], ...]; metrics that the run does not have are left out.
function metricLines(view, title, wanted, options) {
  const present = wanted.filter(([name]) => view.metrics[name]);
  const series = present.map(([name, label, color]) => ({ name: label, color, y: view.metrics[name] }));
  return series.length ? [{ type: "lines", title, x: view.steps, series, ...options }] : [];
}

// Lines of all metrics below a prefix, one for each task kind.
function kindLines(view, title, prefix, isShown = () => true) {
  const names = Object.keys(view.metrics).filter((name) => name.startsWith(prefix) && isShown(view.metrics[name]));
  const lines = names.map((name) => [name, name.slice(prefix.length), colorOf("kinds", name.slice(prefix.length))]);
  return metricLines(view, title, lines, { ...SHARE, smooth: true });
}

function ratingPanel(view, role) {
  const series = view.ratings.filter((one) => one.role === role).map((one) => ({
    name: one.member, color: memberColor(one.member), x: one.steps, y: one.mu,
    low: one.mu.map((mu, at) => mu - one.sigma[at]), high: one.mu.map((mu, at) => mu + one.sigma[at]),
  }));
  if (!series.length) return [];
  const title = `Ratings of ${role === "both" ? "members" : role + "s"}`;
  return [{ type: "lines", title, x: view.steps, xRange: [0, view.steps_done], series, scale: "ratings", legend: "slots", height: 260 }];
}

// Students at every ranking: what they were selected by, against how good they were.
function selectionPanels(view) {
  const panels = [["fitness", "exam"], ["rating", "exam"], ["fitness", "heldout"], ["exam", "heldout"]].flatMap(([xName, yName]) => {
    const rows = view.selection.points.filter((one) => one[xName] !== null && one[yName] !== null && !(xName === "fitness" && yName === "exam" && one.measure === "exam"));
    const points = rows.map((one) => ({ name: `${one.member}, step ${one.step}`, x: one[xName], y: one[yName], color: memberColor(one.member) }));
    const title = `${xName} against ${yName === "heldout" ? "held-out score" : "exam"}`;
    return points.length > 2 ? [{ type: "dots", title, points, xName, yName, xUnit: xName === "exam" ? "share" : "number", unit: "share" }] : [];
  });
  const rows = view.selection.correlations.map((one) => ({ name: one.name, value: one.value, color: STUDENT, note: one.rankings === 1 ? "(1 ranking)" : `(${one.rankings} rankings)` }));
  return rows.length ? [...panels, { type: "bars", title: "Rank correlation within rankings", rows, domain: [-1, 1], zero: true }] : panels;
}

const ROLE_NAMES = (one) => (one.game === one.role ? one.role : `${one.game}: ${one.role}`);

function accuracyPanels(view) {
  const rows = view.games?.accuracy ?? [];
  if (!rows.length) return [];
  const series = rows.map((one) => ({ name: ROLE_NAMES(one), color: colorOf("roles", ROLE_NAMES(one)), y: one.line }));
  const bars = rows.filter((one) => one.last).flatMap((one) => {
    const [value, low, high] = one.last, same = one.same === null ? [] : [{ name: "always the same", value: one.same, color: "#8f8577" }];
    return [{ name: ROLE_NAMES(one), value, low, high, color: colorOf("roles", ROLE_NAMES(one)) }, ...same];
  });
  return [{ type: "lines", title: "Right verdicts, over steps", x: view.steps, ...SHARE, smooth: true, across: [{ name: "chance", y: 0.5 }], series },
    { type: "bars", title: "In the last quarter", rows: bars, unit: "share", zero: true }];
}

function gainPanel(view) {
  const series = (view.games?.gains ?? []).map((one) => ({ name: ROLE_NAMES(one), color: colorOf("roles", ROLE_NAMES(one)), y: one.line }));
  return series.length ? [{ type: "lines", title: "Gain of repaired answers", x: view.steps, smooth: true, across: [{ name: "no gain", y: 0 }], series }] : [];
}

function rolePay(view) {
  const names = Object.keys(view.metrics).map((name) => /^games\/(.+)\/([^/]+)\/reward$/.exec(name)).filter(Boolean);
  const lines = names.map(([name, game, role]) => [name, ROLE_NAMES({ game, role }), colorOf("roles", ROLE_NAMES({ game, role }))]);
  return metricLines(view, "Rewards in games", lines, { smooth: true });
}

function rolePanels(view) {
  const ratings = view.games?.ratings ?? [];
  return [...new Set(ratings.map((one) => one.role))].map((role) => ({
    type: "lines", title: role, x: view.steps, xRange: [0, view.steps_done], scale: "roles", legend: "slots", height: 200,
    series: ratings.filter((one) => one.role === role).map((one) => ({
      name: one.member, color: memberColor(one.member), x: one.steps, y: one.mu,
      low: one.mu.map((mu, at) => mu - one.sigma[at]), high: one.mu.map((mu, at) => mu + one.sigma[at]) })) }));
}

// One game of each in full. All that models wrote is in text nodes.
function transcripts(view) {
  const examples = view.games?.examples ?? [];
  if (!examples.length) return null;
  const turn = (one) => html("div", { class: `attempt ${["correct", "wrong", "malformed"].includes(one.verdict) ? one.verdict : ""}` },
    html("h4", {}, html("b", { text: visible(`${one.name}. ${one.role} ${one.member}`) }),
      visible([one.shown.length ? ` · shown ${one.shown.join(", ")}` : "", one.said ? ` · says ${one.said}, truth: ${one.truth}` : ` · ${one.verdict}`, ` · reward ${one.reward}`].join(""))),
    block("text", one.text), one.detail ? html("p", { class: "note", text: visible(one.detail) }) : null);
  const attempt = (one) => html("div", { class: `attempt ${one.verdict}` },
    html("h4", {}, html("b", { text: visible(`${one.name}. attempt of ${one.student}`) }), visible(` · ${one.verdict}`)), block("text", one.text));
  const nodes = examples.map((one) => html("details", { class: "game" }, html("summary", { text: visible(`${one.game}, step ${one.step}`) }),
    one.blocks.map(([label, text]) => block(visible(label), text, one.kind)), one.attempts.map(attempt), one.turns.map(turn)));
  const note = "Of each game the last one that could be read best: the problem, the attempts it is about, and the first turn from each prompt. Verdicts are by execution.";
  return { title: "One game of each", note, node: html("div", { class: "transcripts" }, nodes) };
}

const emptyCells = (rows, columns) => rows.map(() => columns.map(() => null));

function matrixPanels(view) {
  const { windows, teachers, students, cells } = view.matrix;
  return windows.map(([first, last], window) => {
    const shown = emptyCells(teachers, students);
    for (const [at, teacher, student, correct, attempts] of cells) {
      if (at === window && attempts) shown[teacher][student] = { value: correct / attempts, note: `${correct} of ${attempts}` };
    }
    const title = first === last ? `step ${first}` : `steps ${first}–${last}`;
    return { type: "heat", title, rows: teachers, columns: students, cells: shown, color: STUDENT, unit: "share", most: 56 };
  });
}

function crossplayPanel(view) {
  const { students, problems, cells } = view.crossplay;
  if (!cells.length) return [];
  const shown = emptyCells(students, problems);
  for (const [student, problem, n, correct] of cells) {
    shown[students.indexOf(student)][problems.indexOf(problem)] = { value: correct / n, note: `${correct} of ${n}` };
  }
  const rows = students.map((step) => `students ${step}`), columns = problems.map((step) => `to ${step}`);
  return [{ type: "heat", title: "Students of one step on problems of another", rows, columns, cells: shown, color: COOL[1], unit: "share" }];
}

function kindPanel({ slots, kinds, cells }, title, color) {
  if (!cells.length) return [];
  const shown = emptyCells(slots, kinds);
  for (const [slot, kind, n, solved] of cells) shown[slot][kind] = { value: solved / n, note: `${n} problems` };
  return [{ type: "heat", title, rows: slots, columns: kinds, cells: shown, color, unit: "share" }];
}

function specialistPanels(view) {
  return view.specialists.map(({ step, members, columns, cells }) => {
    const shown = emptyCells(members, columns);
    for (const [member, column, attempts, correct] of cells) shown[member][column] = { value: correct / attempts, note: `${correct} of ${attempts}` };
    const counted = columns.map((name, at) => `${name} n=${Math.max(...cells.filter((one) => one[1] === at).map((one) => one[2]), 0)}`);
    return { type: "heat", title: `exam of step ${step}`, rows: members, columns: counted, cells: shown, color: STUDENT, unit: "share", most: 62 };
  });
}

function tierPanels({ suite, tiers }) {
  return [...new Set(tiers.map((row) => row[1]))].map((kind) => {
    const own = tiers.filter((row) => row[1] === kind);
    const subjects = [...new Set(own.map((row) => row[0]))], columns = [...new Set(own.map((row) => row[2]))].sort((a, b) => a - b);
    const cells = subjects.map((subject) => columns.map((tier) => {
      const row = own.find((one) => one[0] === subject && one[2] === tier);
      return row ? { value: row[4] / row[3], note: `${row[4]} of ${row[3]}` } : null;
    }));
    const title = `${suite}: ${kind}, % correct by tier`;
    return { type: "heat", title, rows: subjects, columns: columns.map((tier) => `${tier} n=${Math.max(...own.filter((one) => one[2] === tier).map((one) => one[3]))}`), cells, color: COOL[1], unit: "share", most: 62 };
  });
}

function agreementPanel({ suite, agreement }) {
  const names = agreement.subjects;
  if (names.length < 2) return [];
  const cells = emptyCells(names, names);
  for (const [one, other, same, kappa] of agreement.pairs) {
    const cell = { value: same, note: kappa === null ? "" : `kappa ${kappa}` }, row = names.indexOf(one), column = names.indexOf(other);
    cells[row][column] = cells[column][row] = cell;
  }
  const title = `${suite}: items on which two students agree`;
  return [{ type: "heat", title, rows: names, columns: names, cells, color: COOL[2], unit: "share", domain: [0.5, 1] }];
}

function scorePanels({ suite, base, students, subjects, products, items, lines }) {
  const color = (subject) => (subject.startsWith("base") ? "#8f8577" : products.some((one) => one.subject === subject) || subject === "students" ? "var(--soft)" : memberColor(subject));
  const counts = Object.fromEntries([...products, ...subjects].map((one) => [one.subject, one.items === items ? "" : ` (${one.items} items)`]));
  const bar = (subject, [value, low, high]) => ({ name: subject === "students" ? "mean student" : subject + (counts[subject] || ""), value, low, high, color: color(subject) });
  const all = [...products, ...(students ? [students] : []), ...subjects];
  const scores = [...(base ? [bar("base", base)] : []), ...all.map((one) => bar(one.subject, one.score))];
  const gains = all.filter((one) => one.gain).map((one) => bar(one.subject, one.gain));
  const panels = [];
  if (scores.length) panels.push({ type: "bars", title: `${suite}: correct, of ${items} items`, rows: scores, unit: "share", zero: true });
  if (gains.length) panels.push({ type: "bars", title: `${suite}: points over the base, paired by item`, rows: gains, unit: "points", zero: true });
  if (lines.steps.length > 1) {
    panels.push({ type: "lines", title: `${suite}: over steps`, x: lines.steps, unit: "share", across: base ? [{ name: "base", y: base[0] }] : [], series: [
      { name: "mean student", color: "var(--soft)", y: lines.mean, low: lines.low, high: lines.high },
      { name: "weakest student", color: COOL[0], y: lines.weakest, dash: true }] });
  }
  return panels;
}

function rejectionPanels(view) {
  const { lines, slots } = view.rejections;
  const reasons = Object.keys(lines), teachers = Object.keys(slots), columns = reasons.slice(0, 9);
  if (!reasons.length) return [];
  const cell = (teacher, reason) => {
    const n = slots[teacher][reason] || 0, total = Object.values(slots[teacher]).reduce((sum, one) => sum + one, 0);
    return { value: n / total, note: `${n} proposals` };
  };
  const series = reasons.map((reason) => ({ name: reason, color: colorOf("reasons", reason), y: lines[reason] }));
  const cells = teachers.map((teacher) => columns.map((reason) => cell(teacher, reason)));
  return [
    { type: "stack", title: "Share of proposals rejected, by reason", x: view.steps, unit: "share", series },
    { type: "heat", title: "By teacher, over the whole run", rows: teachers, columns, unit: "share", color: TEACHER, cells },
  ];
}

function timingPanel(view) {
  const stages = Object.keys(view.timings.lines);
  const series = stages.map((name) => ({ name, color: colorOf("stages", name), y: view.timings.lines[name] }));
  return series.length ? [{ type: "stack", title: "Time by stage", x: view.steps, unit: "seconds", series }] : [];
}

const WORKER_FIGURES = [
  ["sampled_per_s", "Tokens sampled per second"], ["trained_per_s", "Tokens trained per second"], ["fill", "Sequence slots in use", SHARE],
  ["busy_s", "Busy seconds per step"], ["memory_gb", "Memory in GB"], ["restarts", "Restarts so far"]];

// One line a worker. Runs on one device have none.
function workerPanels(view) {
  const names = Object.keys(view.metrics).filter((name) => name.startsWith("time/worker/"));
  const workers = [...new Set(names.map((name) => name.split("/")[2]))].sort((a, b) => a - b);
  return WORKER_FIGURES.flatMap(([name, title, options]) =>
    metricLines(view, title, workers.map((worker) => [`time/worker/${worker}/${name}`, `worker ${worker}`, colorOf("workers", worker)]), { height: 150, zero: true, ...options }));
}

function placementTable(view) {
  if (!view.placements?.length) return null;
  const head = ["block", "slots", "worker", "machine", "device", "since step", "moves"];
  const rows = view.placements.map((one) => [one.block, `${one.first_slot}-${one.first_slot + one.slots - 1}`, one.worker, one.host, one.device, one.step, one.moves]);
  const mixed = new Set(view.placements.map((one) => one.device)).size > 1 ? " These devices differ, and round differently: records follow them." : "";
  return { title: "Blocks and their devices", note: `Where the slots of a block are computed together.${mixed}`, node: plainTable([head, ...rows]) };
}

const LEAST_CHILDREN = 5;

function operatorTable(view) {
  if (!view.operators.length) return null;
  const head = ["operator", "children", "alive", "steps lived", "rating gain", "times parent"];
  const rows = view.operators.map((one) => [one.operator, one.children, one.alive, one.children < LEAST_CHILDREN ? "–" : one.steps_lived, one.children < LEAST_CHILDREN ? "–" : one.rating_gain, one.times_parent]);
  const note = "Which operators produced members that lasted. Steps lived: the mean, living members counted so far. Rating gain: from birth to death or today. Means of fewer than five children say nothing, and are left out.";
  return { title: "Operator credit", note, node: plainTable([head, ...rows]) };
}

function templateList(view) {
  const { programs, different, most_common: mostCommon } = view.templates;
  if (!mostCommon.length) return null;
  const note = `${count(different)} different templates in ${count(programs)} programs. An example of each of the most common:`;
  const examples = mostCommon.map((one) => html("div", {}, html("b", { text: FORMATS.share(one.share) }), html("pre", {}, pythonNodes(visible(one.program)))));
  return { title: "Most common templates", note, node: html("div", { class: "templates" }, examples) };
}

const FEATURES = { ast_depth: "AST depth", cyclomatic: "cyclomatic complexity", loc: "lines of code", steps_executed: "steps executed" };

// The features that the task kinds of a run record, in their order.
function complexity(view) {
  const known = Object.keys(FEATURES), names = Object.keys(view.metrics).filter((name) => name.startsWith("complexity/")).map((name) => name.slice(11));
  return [...known.filter((name) => names.includes(name)), ...names.filter((name) => !known.includes(name))].map((name) => [name, FEATURES[name] || name.replaceAll("_", " ")]);
}
const DISTANCES = [
  ["population/distance/teacher", "teachers", TEACHER], ["population/least_distance/teacher", "closest teachers", WARM[1]],
  ["population/distance/student", "students", STUDENT], ["population/least_distance/student", "closest students", COOL[1]]];

const SECTIONS = [
  { id: "race", short: "Race", title: "The arms race", figures: [
    { id: "solve-rate", note: "Over all attempts of all students. In a race it goes up and down: teachers find harder problems, students catch up. A line that only falls means that teachers run away, one that only rises that students do.",
      panels: (view) => metricLines(view, "Solve rate of students", [["solve/pass_rate", "solve rate", STUDENT]], { ...SHARE, events: replacements(view), smooth: true }) },
    { id: "difficulty", note: "Features of invented problems (of programs: AST depth, cyclomatic complexity, lines and variables), relative to the first tenth of the run (1 = no change).",
      panels: (view) => (view.complexity_index.length ? [{ type: "lines", title: "Complexity of problems", x: view.steps, unit: "times", smooth: true, events: replacements(view), series: [{ name: "complexity", color: TEACHER, y: view.complexity_index }] }] : []) },
    { id: "ratings", wide: true, title: "Ratings of both roles", note: "TrueSkill: the line is the mean, the band one standard deviation. A line that starts later is a child in the slot of a member that died.",
      panels: (view) => ["teacher", "student", "both"].flatMap((role) => ratingPanel(view, role)) },
    { id: "rewards", note: "Mean reward of a problem and of an attempt. Teachers earn most for problems that are solved sometimes; how often is best is up to reward.teacher.",
      panels: (view) => metricLines(view, "Rewards", [["reward/teacher", "teachers", TEACHER], ["reward/student", "students", STUDENT]], { events: replacements(view), smooth: true }) },
    { id: "validity", note: "Share of proposals that are valid problems, and of attempts that cannot be parsed.",
      panels: (view) => metricLines(view, "Format", [["verify/valid_frac", "valid proposals", TEACHER], ["solve/malformed_frac", "malformed attempts", STUDENT]], { ...SHARE, smooth: true }) },
  ] },
  { id: "games", short: "Games", title: "Games between students", isShown: (view) => view.games, figures: [
    { id: "verdicts", wide: true, title: "Are critics and judges right?", small: 420, panels: accuracyPanels,
      note: "By execution; what cannot be read is wrong. With 95 % intervals over games. Grey: what always saying the more frequent word would have scored." },
    { id: "gains", panels: gainPanel, note: "Correct after a critique less correct before, on average. Half of the attempts that are repaired were correct: always following bad advice loses." },
    { id: "game-rewards", panels: rolePay, note: "Mean reward of a turn, by game and role." },
    { id: "role-ratings", wide: true, title: "Ratings by role", small: 300, panels: rolePanels,
      note: "TrueSkill: a member wins in a step where it earns more a turn than the others in its role do on average." },
    { id: "transcripts", wide: true, custom: transcripts },
  ] },
  { id: "complexity", short: "Complexity", title: "Problems: complexity and difficulty", figures: [
    { id: "complexity-measures", wide: true, title: "Complexity measures", small: 200, note: "Means over invented problems. Kinds that derive their problems from archived ones are left out.",
      panels: (view) => complexity(view).flatMap(([name, title], at) => metricLines(view, title, [[`complexity/${name}`, title, SERIES[at % SERIES.length]]], { height: 150, smooth: true })) },
    { id: "solved-shares", wide: true, note: "Problems by solve rate: zero-pass, up to a third, up to two thirds, more, all-pass. The middle teaches most.",
      panels: (view) => [{ type: "stack", title: "Difficulty of problems", x: view.steps, ...SHARE, series: Object.keys(DIFFICULTY).map((name) => ({ name, color: DIFFICULTY[name], y: view.difficulty[name] })) }] },
    { id: "kinds", note: "Solve rate by task kind. code_o asks for the output of a program, code_i for an input, code_f for the program.", panels: (view) => kindLines(view, "Solve rate by kind", "solve/pass_rate/") },
    { id: "reasoning", note: "Share of attempts that reason before they answer, by task kind. Kinds without any are left out.",
      panels: (view) => kindLines(view, "Reasoning before answering", "solve/reasoning_frac/", (line) => line.some((value) => value > 0)) },
  ] },
  { id: "coverage", short: "Coverage", title: "Coverage: is it new?", figures: [
    { id: "coverage-lines", note: "Cells of the coverage map (a grid over complexity) and behaviours (outputs for probe inputs) seen so far. Cells alone can grow by elaboration.",
      panels: (view) => metricLines(view, "Cells and behaviours so far", [["coverage/cells", "cells", TEACHER], ["coverage/behaviours", "behaviours", COOL[1]]], { zero: true }) },
    { id: "repeats", note: "Share of invented problems that resemble an earlier one of this world.",
      panels: (view) => [{ type: "lines", title: "Seen before", x: view.steps, ...SHARE, smooth: true, series: [
        { name: "same structure, other values", color: SERIES[1], y: view.novelty.lines.structure }, { name: "same behaviour", color: SERIES[2], y: view.novelty.lines.behaviour },
        { name: "same cell", color: SERIES[6], y: view.novelty.lines.cell }] }] },
    { id: "templates", note: "Probability that two programs of a window are equal up to names, numbers and strings. Rising lines: teachers drift to a few templates.",
      panels: (view) => (view.templates.programs ? [{ type: "lines", title: "Shared templates", x: view.templates.ends, unit: "share", zero: true, series: [
        { name: "two programs of one teacher", color: TEACHER, y: view.templates.within }, { name: "of two teachers", color: SERIES[6], y: view.templates.between, dash: true }] }] : []) },
    { id: "most-common", custom: templateList },
  ] },
  { id: "drift", short: "Drift", title: "Drift: do problems change their looks?", figures: [
    { id: "answers-drift", note: "By task kind. Trivial: 0, [], True and their like. A shown answer stands in what the student is given, an echo equals the input. Rising lines: answers can be guessed.", wide: true, title: "Answers", small: 240,
      panels: (view) => [["answer_trivial", "Trivial answers"], ["answer_shown", "Answers shown"], ["answer_echo", "Output equals input"], ["answer_top", "Share of the commonest answer"]].flatMap(([name, title]) => kindLines(view, title, `drift/${name}/`)) },
    { id: "surface-drift", wide: true, custom: driftTable },
  ] },
  { id: "matrix", short: "Pairings", title: "Who solves whose problems", figures: [
    { id: "solve-matrix", wide: true, title: "Solve rate by teacher and student", small: 180, panels: matrixPanels,
      note: "Rows: teachers, columns: students, in parts of the run. A child counts in the slot of the member it replaced. Empty: they did not meet." },
    { id: "crossplay", wide: true, panels: crossplayPanel,
      note: "Rows: students as of a step. Columns: problems proposed up to a step. Down a column are later students on the same problems: where it fades, they forget. Measured by `redqueen crossplay`." },
  ] },
  { id: "lineage", short: "Lineage", title: "Lineage", figures: [
    { id: "selection", wide: true, title: "Fitness against skill", small: 300, panels: selectionPanels,
      note: "Each dot is a student when members were ranked. The exam: the same archived problems for all. What members are selected by should rise with both; a rank correlation near zero is a lottery, below zero it selects the weaker." },
    { id: "tree", wide: true, note: "A row is a slot of the population, a bar is a life, × a death; curves lead from parents to child. Hover over a life for details.",
      panels: (view) => [{ type: "tree", title: "Family tree", members: view.members, last: view.steps_done, color: (one) => memberColor(one.member) }] },
    { id: "operators", wide: true, custom: operatorTable },
  ] },
  { id: "similarity", short: "Similarity", title: "How similar members are", figures: [
    { id: "distance", note: "Distance in weight space: mean over pairs, and the closest pair. Near zero: two members have become one.",
      panels: (view) => metricLines(view, "Distances", DISTANCES, { zero: true, events: replacements(view) }) },
    { id: "nll", note: "Mean negative log-likelihood of the sampled tokens. Near zero: members always write the same.",
      panels: (view) => metricLines(view, "Mean NLL per token", [["propose/nll", "teachers", TEACHER], ["solve/nll", "students", STUDENT]], { zero: true, smooth: true }) },
  ] },
  { id: "members", short: "Strengths", title: "Strengths of members", figures: [
    { id: "student-kinds", note: "Solve rates in the last quarter of the run. Students met different teachers, so compare with care; the tiers below are the same items for all.",
      panels: (view) => kindPanel(view.students_by_kind, "Students, by kind", STUDENT) },
    { id: "teacher-kinds", note: "Solve rate of each teacher's problems in the last quarter.", panels: (view) => kindPanel(view.teachers_by_kind, "Problems of teachers, by kind", STUDENT) },
    { id: "specialists", wide: true, title: "Students in the exams", small: 380, panels: specialistPanels,
      note: "The same archived problems for all students of a step, by task kind; hard: all students together solve less than half; seed: given at the start, invented by nobody here. Rows that differ are specialists: a router (RUN/router) asks each kind of its best student." },
    { id: "tiers", wide: true, title: "By kind and tier", small: 300, note: "Held-out items, the same for all: share of correct answers, n of each.", panels: (view) => view.suites.flatMap(tierPanels) },
    { id: "agreement", wide: true, note: "Both correct or both wrong. If all agree on everything, the population is one student.", panels: (view) => view.suites.flatMap(agreementPanel) },
  ] },
  { id: "rejections", short: "Rejections", title: "Why proposals were rejected", figures: [{ id: "reasons", wide: true, title: "Rejections", small: 420, panels: rejectionPanels }] },
  { id: "scores", short: "Scores", title: "Held-out and benchmark scores",
    empty: "Nothing has been measured yet. A run measures at its end (evaluate.suite), `redqueen eval RUN --suite NAME` at any time.", figures: [
    { id: "suites", wide: true, title: "Scores and gains", small: 420, panels: (view) => view.suites.flatMap(scorePanels),
      note: "With 95 % intervals over items. They say nothing about other seeds; the best student selected on the same items is no result." },
  ] },
  { id: "timings", short: "Time", title: "Time and training", figures: [
    { id: "stages", note: "Seconds per step, by what they were spent on.", panels: timingPanel },
    { id: "tokens", note: "How much was written: tokens sampled in a step.", panels: (view) => metricLines(view, "Tokens per step", [["propose/tokens", "by teachers", TEACHER], ["solve/tokens", "by students", STUDENT]], { zero: true }) },
    { id: "cut-off", note: "Share of texts that ended at their token limit. Many: raise propose.max_tokens or solve.max_tokens.",
      panels: (view) => metricLines(view, "Cut-off texts", [["propose/cut_off_frac", "proposals", TEACHER], ["solve/cut_off_frac", "attempts", STUDENT]], { ...SHARE, smooth: true }) },
    { id: "sampling", note: "Seconds of sampling in a step: prompts, tokens, and handing over what is finished.",
      panels: (view) => metricLines(view, "Sampling", [["time/sample/prefill_s", "prefill", SERIES[0]], ["time/sample/decode_s", "decode", SERIES[1]], ["time/sample/deliver_s", "hand over", SERIES[2]]], { zero: true, unit: "seconds" }) },
    { id: "gap-by-length", wide: true, title: "Sampling against training, by place in the text", small: 420, note: "The log-probability gap of tokens by their place in the completion, and the mean ratio of the probabilities, which should stay near 1.",
      panels: (view) => [...metricLines(view, "Gap by place", [0, 64, 256, 1024].map((place, at) => [`update/logprob_gap/from_${place}`, `from token ${place}`, SERIES[at]]), { zero: true }), ...metricLines(view, "Ratio", [["update/ratio", "ratio", SERIES[4]]], {})] },
    { id: "workers", wide: true, title: "Workers", small: 300, panels: workerPanels,
      note: "Of every worker and step. Workers that are busy for very different times wait for each other: more, smaller blocks even that out. A restart costs the time to load the base." },
    { id: "placements", wide: true, custom: placementTable },
    { id: "gradients", wide: true, title: "Training", small: 420, note: "Means over the members that were trained. The gap is between log-probabilities at sampling and in training: it should stay near zero.",
      panels: (view) => [["grad_norm", "Gradient norm", SERIES[3]], ["logprob_gap", "Log-probability gap", SERIES[4]]].map(([name, title, color]) =>
        ({ type: "lines", title, x: view.steps, height: 150, zero: true, series: [{ name: title, color, y: view.updates[name] }] })) },
  ] },
];
