// The sections of a report and the figures in them. A figure's `panels` gives, for one side (one world of one run), the panels to draw.

const WARM = ["#c8324a", "#e0812f", "#a04a9c", "#b99a2e", "#e3698f", "#8a5a3c", "#d9573f", "#7a3b66"];
const COOL = ["#2a78b8", "#1f9e95", "#6a63d4", "#4f9b4a", "#4bb3dd", "#3c5f8a", "#7fa83a", "#8793e0"];
const SERIES = ["#2a78b8", "#e0812f", "#1f9e95", "#a04a9c", "#b99a2e", "#c8324a", "#7d8590", "#6a63d4", "#4f9b4a"];
const DIFFICULTY = { unsolved: "#7b2d3b", hard: "#c8324a", middling: "#d9a13b", easy: "#5aa9a0", trivial: "#9fb3c4" };
const TEACHER = WARM[0], STUDENT = COOL[0];

// One colour for one name, on all sides: of task kinds, reasons, stages.
const given = {};
function colorOf(sort, name) {
  const names = (given[sort] ||= []);
  if (!names.includes(name)) names.push(name);
  return SERIES[names.indexOf(name) % SERIES.length];
}

const memberColor = (member) => (member.startsWith("T") ? WARM : COOL)[(parseInt(member.slice(1), 10) || 0) % WARM.length];
const evolved = (side) => [...new Set(side.members.filter((one) => one.born > 0).map((one) => one.born))];
const metric = (side, name) => side.metrics[name];

// Lines of metrics: [[metric, name, colour], ...]; those the run does not have are left out.
function metricLines(side, title, wanted, more) {
  const series = wanted.filter(([name]) => metric(side, name)).map(([name, shown, color]) => ({ name: shown, color, y: metric(side, name) }));
  return series.length ? [{ type: "lines", title, x: side.steps, series, ...more }] : [];
}

const SHARE = { unit: "share", domain: [0, 1] };

function ratingPanel(side, role) {
  const series = side.ratings.filter((one) => one.role === role).map((one) => ({
    name: one.member, color: memberColor(one.member), x: one.steps, y: one.mu,
    low: one.mu.map((mu, at) => mu - one.sigma[at]), high: one.mu.map((mu, at) => mu + one.sigma[at]),
  }));
  return series.length ? [{ type: "lines", title: `Ratings of ${role === "both" ? "members" : role + "s"}`, x: side.steps, xRange: [0, side.steps_done], series, scale: "ratings", legend: "places", height: 260 }] : [];
}

function matrixPanels(side) {
  const found = side.matrix;
  return found.windows.map(([first, last], window) => {
    const cells = found.teachers.map(() => found.students.map(() => null));
    for (const [at, teacher, student, correct, attempts] of found.cells) {
      if (at === window && attempts) cells[teacher][student] = { value: correct / attempts, note: `${correct} of ${attempts}` };
    }
    return { type: "heat", title: first === last ? `step ${first}` : `steps ${first}–${last}`, rows: found.teachers, columns: found.students, cells, color: STUDENT, unit: "share", most: 56 };
  });
}

function crossplayPanel(side) {
  const { students, problems, cells } = side.crossplay;
  if (!cells.length) return [];
  const found = students.map(() => problems.map(() => null));
  for (const [student, problem, count, right] of cells) found[students.indexOf(student)][problems.indexOf(problem)] = { value: right / count, note: `${right} of ${count}` };
  return [{ type: "heat", title: "Students of one time on problems of another", rows: students.map((step) => `students ${step}`), columns: problems.map((step) => `to ${step}`), cells: found, color: COOL[1], unit: "share" }];
}

function kindPanel(side, found, title, color) {
  if (!found.cells.length) return [];
  const cells = found.places.map(() => found.kinds.map(() => null));
  for (const [place, kind, count, solved] of found.cells) cells[place][kind] = { value: solved / count, note: `${count} problems` };
  return [{ type: "heat", title, rows: found.places, columns: found.kinds, cells, color, unit: "share" }];
}

function tierPanels(suite) {
  return [...new Set(suite.tiers.map((row) => row[1]))].map((kind) => {
    const mine = suite.tiers.filter((row) => row[1] === kind);
    const rows = [...new Set(mine.map((row) => row[0]))], columns = [...new Set(mine.map((row) => row[2]))].sort((a, b) => a - b);
    const cells = rows.map((subject) => columns.map((tier) => {
      const found = mine.find((row) => row[0] === subject && row[2] === tier);
      return found ? { value: found[4] / found[3], note: `${found[4]} of ${found[3]}` } : null;
    }));
    return { type: "heat", title: `${suite.suite}: ${kind}, by tier`, rows, columns: columns.map(String), cells, color: COOL[1], unit: "share", most: 62 };
  });
}

function agreementPanel(suite) {
  const names = suite.agreement.subjects;
  if (names.length < 2) return [];
  const cells = names.map(() => names.map(() => null));
  for (const [one, other, same, kappa] of suite.agreement.pairs) {
    const cell = { value: same, note: kappa === null ? "" : `kappa ${kappa}` };
    cells[names.indexOf(one)][names.indexOf(other)] = cells[names.indexOf(other)][names.indexOf(one)] = cell;
  }
  return [{ type: "heat", title: `${suite.suite}: items on which two students agree`, rows: names, columns: names, cells, color: COOL[2], unit: "share", domain: [0.5, 1] }];
}

function scorePanels(suite) {
  const color = (subject) => (subject === "base" ? "#8f8577" : subject === "students" ? "var(--soft)" : memberColor(subject));
  const row = (one, key) => ({ name: one.subject === "students" ? "mean student" : one.subject, value: one[key][0], low: one[key][1], high: one[key][2], color: color(one.subject) });
  const all = [...(suite.students ? [suite.students] : []), ...suite.subjects];
  const panels = [];
  const scores = [...(suite.base ? [{ name: "base", value: suite.base[0], low: suite.base[1], high: suite.base[2], color: color("base") }] : []), ...all.map((one) => row(one, "score"))];
  if (scores.length) panels.push({ type: "bars", title: `${suite.suite}: right, of ${suite.items} items`, rows: scores, unit: "share", zero: true });
  const gains = all.filter((one) => one.gain).map((one) => row(one, "gain"));
  if (gains.length) panels.push({ type: "bars", title: `${suite.suite}: points gained over the base, item by item`, rows: gains, unit: "points", zero: true });
  if (suite.lines.steps.length > 1) {
    const lines = suite.lines;
    panels.push({ type: "lines", title: `${suite.suite}: over steps`, x: lines.steps, unit: "share", across: suite.base ? [{ name: "base", y: suite.base[0] }] : [],
      series: [{ name: "mean student", color: "var(--soft)", y: lines.mean, low: lines.low, high: lines.high }, { name: "weakest student", color: COOL[0], y: lines.weakest, dash: true }] });
  }
  return panels;
}

function rejectionPanels(side) {
  const found = side.rejections;
  const reasons = Object.keys(found.lines);
  if (!reasons.length) return [];
  const color = (reason) => colorOf("reasons", reason);
  const places = Object.keys(found.places);
  const share = (place, reason) => (found.places[place][reason] || 0) / Object.values(found.places[place]).reduce((sum, n) => sum + n, 0);
  return [
    { type: "stack", title: "Share of proposals rejected, by reason", x: side.steps, unit: "share", series: reasons.map((reason) => ({ name: reason, color: color(reason), y: found.lines[reason] })) },
    { type: "heat", title: "By teacher, over the whole run", rows: places, columns: [...reasons, "accepted"].slice(0, 9), unit: "share", color: TEACHER,
      cells: places.map((place) => [...reasons, "accepted"].slice(0, 9).map((reason) => ({ value: share(place, reason), note: `${found.places[place][reason] || 0} proposals` }))) },
  ];
}

const SECTIONS = [
  { id: "race", short: "Race", title: "The arms race", figures: [
    { id: "solve-rate", note: "Every attempt of every student. In an arms race this does not settle: teachers find harder problems, students catch up.",
      panels: (side) => metricLines(side, "Solve rate of students", [["solve/pass_rate", "solved", STUDENT]], { ...SHARE, events: evolved(side), smooth: true }) },
    { id: "difficulty", note: "Depth, branches, lines and variables of invented programs, beside those of the first tenth of the run (1 = as then).",
      panels: (side) => (side.complexity_index.length ? [{ type: "lines", title: "Complexity that teachers reach", x: side.steps, smooth: true, events: evolved(side), series: [{ name: "complexity", color: TEACHER, y: side.complexity_index }] }] : []) },
    { id: "ratings", wide: true, title: "Ratings of both roles", note: "TrueSkill: the line is the believed skill, the band one deviation. A line that begins later is a child in the place of a member that died.",
      panels: (side) => ["teacher", "student", "both"].flatMap((role) => ratingPanel(side, role)) },
    { id: "rewards", note: "What was earned on average. Teachers earn most for problems that are solved rarely, but not never.",
      panels: (side) => metricLines(side, "Rewards", [["reward/teacher", "teachers", TEACHER], ["reward/student", "students", STUDENT]], { events: evolved(side), smooth: true }) },
    { id: "validity", note: "Proposals that are problems at all, and attempts that cannot be read.",
      panels: (side) => metricLines(side, "Form", [["verify/valid_frac", "valid proposals", TEACHER], ["solve/malformed_frac", "unreadable attempts", STUDENT]], { ...SHARE, smooth: true }) },
  ] },
  { id: "complexity", short: "Complexity", title: "Problems: how complex, how hard", figures: [
    { id: "complexity-measures", wide: true, title: "Measures of complexity", small: 200, note: "Means over invented problems. Induction takes its programs from the archive and is left out.",
      panels: (side) => [["ast_depth", "depth of the syntax tree"], ["cyclomatic", "branches (cyclomatic)"], ["loc", "lines"], ["variables", "variables"], ["steps_executed", "lines executed"]]
        .flatMap(([name, title], at) => metricLines(side, title, [[`complexity/${name}`, title, SERIES[at]]], { height: 150, smooth: true })) },
    { id: "solved-shares", wide: true, note: "Problems by the share of attempts that solve them: none, up to a third, up to two thirds, more, all. The middle teaches most.",
      panels: (side) => [{ type: "stack", title: "Difficulty of problems", x: side.steps, ...SHARE, series: Object.keys(DIFFICULTY).map((name) => ({ name, color: DIFFICULTY[name], y: side.difficulty[name] })) }] },
    { id: "kinds", note: "Solve rate by task kind: o deduction, i abduction, f induction.",
      panels: (side) => metricLines(side, "Solve rate by kind", Object.keys(side.metrics).filter((name) => name.startsWith("solve/pass_rate/")).map((name) => [name, name.slice(16), colorOf("kinds", name)]), { ...SHARE, smooth: true }) },
    { id: "thoughts", note: "Answers that begin with a written thought, by task kind. Kinds without any are left out.",
      panels: (side) => {
        const names = Object.keys(side.metrics).filter((name) => name.startsWith("solve/reasoning_frac/") && side.metrics[name].some((value) => value > 0));
        const of = names.length === 1 ? `: ${names[0].slice(21)}` : "";
        return metricLines(side, `Thinking before answering${of}`, names.map((name) => [name, name.slice(21), colorOf("kinds", name.replace("reasoning_frac", "pass_rate"))]), { ...SHARE, smooth: true });
      } },
  ] },
  { id: "coverage", short: "Coverage", title: "Coverage: is it new?", figures: [
    { id: "coverage-lines", note: "Structures (cells of a grid over complexity) and behaviours (what programs do to probe inputs) seen so far. Structures alone can grow by elaboration.",
      panels: (side) => metricLines(side, "Different structures and behaviours so far", [["coverage/cells", "structures", TEACHER], ["coverage/behaviours", "behaviours", COOL[1]]], { zero: true }) },
    { id: "repeats", note: "Invented problems that resemble an earlier one of this world.",
      panels: (side) => [{ type: "lines", title: "Seen before", x: side.steps, ...SHARE, smooth: true, series: [
        { name: "same program, other input", color: SERIES[1], y: side.novelty.lines.structure }, { name: "same behaviour", color: SERIES[2], y: side.novelty.lines.behaviour }, { name: "same cell", color: SERIES[6], y: side.novelty.lines.cell }] }] },
    { id: "templates", note: "The chance that two programs of a window are equal but for names, numbers and texts. Rising lines: teachers drift to a few templates.",
      panels: (side) => [{ type: "lines", title: "Templates in common", x: side.templates.ends, unit: "share", zero: true, series: [
        { name: "two programs of one teacher", color: TEACHER, y: side.templates.within }, { name: "of two teachers", color: SERIES[6], y: side.templates.between, dash: true }] }] },
    { id: "commonest", custom: (side) => templateList(side) },
  ] },
  { id: "matrix", short: "Who solves whose", title: "Who solves whose problems", figures: [
    { id: "solve-matrix", wide: true, title: "Solve rates, teacher by student", note: "Rows: teachers, columns: students. Solve rates in parts of the run; a child counts in the place of the member it replaced. Empty: they did not meet.", small: 180, panels: matrixPanels },
    { id: "crossplay", wide: true, note: "Rows: students as they were at a step. Columns: problems posed up to a step. Down a column stand later students at the same problems: where it fades, they forget. Made by `redqueen crossplay`.", panels: crossplayPanel },
  ] },
  { id: "family", short: "Family", title: "Family", figures: [
    { id: "tree", wide: true, note: "A lane is a place in the population, a bar a life, × a death; curves lead from parents to child. Point at a life for its story.",
      panels: (side) => [{ type: "tree", title: "Family tree", members: side.members, last: side.steps_done, color: (one) => memberColor(one.member) }] },
    { id: "operators", wide: true, custom: (side) => operatorTable(side) },
  ] },
  { id: "similarity", short: "Similarity", title: "How alike members are", figures: [
    { id: "distance", note: "Distance of two members in weight space: the mean over pairs, and the closest pair. Near zero: two have become one.",
      panels: (side) => metricLines(side, "Distances", [["population/distance/teacher", "teachers", TEACHER], ["population/least_distance/teacher", "closest teachers", WARM[1]], ["population/distance/student", "students", STUDENT], ["population/least_distance/student", "closest students", COOL[1]]], { zero: true, events: evolved(side) }) },
    { id: "entropy", note: "Mean surprise per token written (minus log-probability). Near zero: members always write the same.",
      panels: (side) => metricLines(side, "Surprise per token", [["propose/nll", "teachers", TEACHER], ["solve/nll", "students", STUDENT]], { zero: true, smooth: true }) },
  ] },
  { id: "members", short: "Strengths", title: "Who is good at what", figures: [
    { id: "student-kinds", note: "Solve rates in the last quarter of the run. Students met different teachers, so compare with care; the tiers below are the same items for all.",
      panels: (side) => kindPanel(side, side.students_by_kind, "Students, by kind", STUDENT) },
    { id: "teacher-kinds", note: "How often the problems of each teacher were solved in the last quarter.", panels: (side) => kindPanel(side, side.teachers_by_kind, "Teachers' problems, by kind", TEACHER) },
    { id: "tiers", wide: true, title: "By kind and tier", small: 300, note: "Held-out items, the same for all: share of right answers.", panels: (side) => side.suites.flatMap(tierPanels) },
    { id: "agreement", wide: true, note: "Both right or both wrong. If all agree on everything, the population is one student.", panels: (side) => side.suites.flatMap(agreementPanel) },
  ] },
  { id: "rejections", short: "Rejections", title: "Why proposals were rejected", figures: [{ id: "reasons", wide: true, title: "Rejections", small: 420, panels: rejectionPanels }] },
  { id: "scores", short: "Scores", title: "Held-out and benchmark scores", figures: [
    { id: "suites", wide: true, title: "Scores and gains", small: 420, note: "With 95 % intervals over items. Intervals say nothing about other seeds; a best student picked on the same items is no result.", panels: (side) => side.suites.flatMap(scorePanels) },
  ] },
  { id: "timings", short: "Time", title: "Time and training", figures: [
    { id: "stages", note: "Mean seconds of a step.", panels: (side) => {
      const stages = Object.keys(side.timings.lines);
      return stages.length ? [{ type: "stack", title: "Where the seconds go", x: side.steps, unit: "seconds", series: stages.map((name) => ({ name, color: colorOf("stages", name), y: side.timings.lines[name] })) }] : [];
    } },
    { id: "tokens", note: "Tokens written in a step.", panels: (side) => metricLines(side, "Tokens", [["propose/tokens", "by teachers", TEACHER], ["solve/tokens", "by students", STUDENT]], { zero: true }) },
    { id: "gradients", wide: true, title: "Training", small: 420, note: "Means over members that learned. The gap is between log-probabilities as sampled and as trained: it should stay near zero.",
      panels: (side) => [["grad_norm", "Gradient norm", SERIES[3]], ["logprob_gap", "Log-probability gap", SERIES[4]]].map(([name, title, color]) => ({ type: "lines", title, x: side.steps, height: 150, zero: true, series: [{ name: title, color, y: side.updates[name] }] })) },
  ] },
];

function operatorTable(side) {
  if (!side.operators.length) return null;
  const head = ["operator", "children", "alive", "steps lived", "rating gained", "became parent"];
  const rows = side.operators.map((one) => [one.operator, one.children, one.alive, one.steps_lived, one.rating_gain, one.times_parent]);
  return { title: "Operator credit", note: "Which operators made members that lasted. Steps lived: the mean, those alive counted so far. Rating gained: from birth to death or today. Few children say little.", node: plainTable([head, ...rows]) };
}

function templateList(side) {
  const found = side.templates;
  if (!found.commonest.length) return null;
  const note = `${found.different.toLocaleString("en")} different among ${found.looked_at.toLocaleString("en")} programs looked at. One program for each of the commonest:`;
  return { title: "Commonest templates", note, node: html("div", { class: "templates" }, found.commonest.map((one) => html("div", {}, html("b", { text: FORMATS.share(one.share) }), html("pre", { text: visible(one.program) })))) };
}
