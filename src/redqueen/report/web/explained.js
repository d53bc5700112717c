// For each figure: what it is, what is good, what is bad. Plain words, for readers who have not read the paper.

const EXPLAINED = {
  "solve-rate": [
    "Teachers invent problems, students try to solve them. This is the share of attempts that were correct.",
    "It moves up and down between about 20 and 80 %, while the problems get harder: both sides learn.",
    "It sticks near 0 % (problems nobody can solve) or near 100 % (trivial ones): then neither side earns anything to learn from."],
  "difficulty": [
    "How large and branched the invented programs are, against those of the first tenth of the run. 1 means no change.",
    "It rises while the solve rate stays in the middle: students keep up with harder problems.",
    "It rises while the solve rate falls to zero (teachers run away), or falls (teachers go for easy rewards). Size alone is not difficulty: look at some problems."],
  "ratings": [
    "TrueSkill, as for chess players: whoever beats what was expected of it gains. Ratings are relative to the others of the run.",
    "Members differ by more than their bands, and the order is stable: selection has something to go by.",
    "All bands overlap: who is replaced is chance."],
  "rewards": [
    "What members earned in a step, on average, and what they are trained to increase.",
    "Both stay above their lowest value and move against each other.",
    "The teachers' falls to its floor: their problems are invalid, all-pass or zero-pass."],
  "validity": [
    "Proposals that can be run, give the same answer every time and are new; and attempts that cannot be read.",
    "Many valid proposals, few malformed attempts.",
    "A falling share of valid ones: teachers forget the format, often from too high a learning rate."],
  "solved-shares": [
    "All problems of a step, from those that no attempt solved to those that every attempt solved.",
    "A wide middle. Only there do right and wrong attempts differ, so that there is something to learn.",
    "A wide top and bottom with nothing between."],
  "coverage-lines": [
    "How many different sorts of problems there have been so far.",
    "Both lines keep rising.",
    "They flatten: teachers repeat themselves."],
  "selection": [
    "Whether the members that were kept are the better ones, measured on problems that all of them answered.",
    "Dots rise from left to right.",
    "A cloud: replacing members by this fitness is a lottery."],
  "tree": [
    "Who descends from whom. The weakest die, and a changed or crossed copy of better ones takes their place.",
    "Several lines live on for long.",
    "All living members descend from one recent ancestor: the population has become one."],
  "agreement": [
    "How often two students are both right or both wrong on the same items.",
    "Less than all of the time: a vote of them can beat each one.",
    "Nearly 100 %: several adapters do the work of one."],
  "suites": [
    "The students on problems that no teacher or student ever saw, against the base model they started from.",
    "An interval that lies above zero.",
    "An interval that includes zero: the gain may be chance. A best student that was chosen on these items is no result."],
  "distance": [
    "How far the weights of members are from each other.",
    "The lines rise at first and then stay.",
    "The closest pair falls to zero: two members have become one."],
  "complexity-measures": [
    "What the index above is made of, and how many steps the programs execute.",
    "Several of them rise together.",
    "One rises alone: long but simple programs, or deep but short ones."],
  "kinds": [
    "The solve rate, for each sort of question apart.",
    "All lines stay in the middle.",
    "One kind at 0 or 100 %: nobody learns from it, and the mean hides that."],
  "reasoning": [
    "How many answers begin with written reasoning. Nobody asks for it: students write it where it pays.",
    "It rises along with the solve rate.",
    "It falls: students answer from habit. See whether the solve rate of that kind falls too."],
  "repeats": [
    "How many of the new problems are much like an earlier one.",
    "Structure and behaviour stay low. The same cell is a coarse likeness and fills up in any run.",
    "The same behaviour comes again and again: teachers vary the looks only."],
  "templates": [
    "Take two programs at random and remove names, numbers and strings: how often are they then the same?",
    "Near 0 %.",
    "It rises: teachers have found a few forms that pay."],
  "answers-drift": [
    "Whether an answer can be guessed without solving the problem.",
    "Low and flat.",
    "It rises: students may be learning to guess, so a higher solve rate says little."],
  "solve-matrix": [
    "For each teacher and student that met: the share of attempts that were correct.",
    "Rows and columns differ: some teachers are harder, some students better.",
    "All cells alike: who plays whom makes no difference. Very dark or very pale: nothing to learn there."],
  "crossplay": [
    "Students of different times on the same problems.",
    "Columns get darker downwards: later students are better on old problems too.",
    "They fade downwards: students forget what they could do."],
  "nll": [
    "How surprising members find their own words. Low means that they nearly always write the same.",
    "It falls slowly and stays clear of zero.",
    "It drops to zero: there is nothing left to choose from, so nothing to reinforce."],
  "student-kinds": [
    "What each student solves of what it was asked lately.",
    "Rows differ: specialists.",
    "All rows alike, or a column near 0 or 100 %."],
  "teacher-kinds": [
    "How much of each teacher's problems was solved lately.",
    "Between 20 and 80 %.",
    "0 %: too hard, or flawed. 100 %: trivial."],
  "specialists": [
    "All students on the same problems, so that they can be compared.",
    "Each is best at something: together they know more than one.",
    "Equal rows: several adapters do the work of one."],
  "tiers": [
    "The share of correct answers, by how difficult the held-out problem is: tier 1 is the easiest.",
    "Students are above the base, in the hard tiers too.",
    "They gain in easy tiers and lose in hard ones. With few problems in a cell, most differences are chance."],
  "reasons": [
    "Why proposals did not become problems. malformed: cannot be read. error: the program fails. duplicate: known already. nondeterministic: another answer each time.",
    "Few of them, and fewer with time.",
    "One reason grows: teachers unlearn the form, or try something that the verifier refuses."],
  "stages": [
    "Where the time goes: teachers write (propose), students write (solve), both learn (update).",
    "Most of it in propose, solve and update.",
    "Much of it in verify: more sandbox workers help (sandbox.workers)."],
  "tokens": [
    "How much teachers and students wrote.",
    "Steady, or slowly growing.",
    "It explodes: texts get longer without getting better."],
  "cut-off": [
    "Texts that were not finished when their limit was reached.",
    "Near 0 %.",
    "More than a few percent: they cannot be read and earn nothing."],
  "sampling": [
    "Sampling reads prompts (prefill), writes token by token (decode), and hands finished texts over.",
    "Decode takes most of it.",
    "Prefill or handing over takes most: longer texts or larger batches use the device better."],
  "gap-by-length": [
    "A token's probability when it was sampled and when it is trained on should be the same number.",
    "A gap near zero at every place, a ratio near 1.",
    "The gap grows with the place: rounding adds up, and training learns from noise."],
  "gradients": [
    "How strongly each update pulls, and how far sampling and training disagree.",
    "Both stay level.",
    "Jumps by a factor of ten or more: lower update.learning_rate."],
  "workers": [
    "What every worker process does.",
    "Equal lines: the work is shared evenly.",
    "One far above the others: all wait for it."],
  "placements": [
    "Slots are computed in blocks. For each block: the worker, machine and device that computes it, since when, and how often that has changed.",
    "Blocks are spread over all devices and stay where they are.",
    "Many moves: workers die or leave, and their blocks go to others. Devices of different sorts round differently, so that a run cannot be repeated exactly."],
  "verdicts": [
    "How often critics and judges are right about an answer. Execution decides, and they are trained on it.",
    "Above the line of chance and above the grey bar: they look at the answer.",
    "No better than the grey bar: always saying the same word would earn as much."],
  "gains": [
    "Students answer again after they have read a critique. How many more answers are correct then?",
    "Above zero: the critiques help.",
    "At zero they are ignored. Below zero, correct answers are given up for bad advice."],
  "game-rewards": [
    "What one reply in a game earns on average, for each role. Members are trained to increase it.",
    "Lines rise, or stay level while the other roles get better.",
    "A role stays at its lowest value: its replies cannot be read, or nothing it does is paid."],
  "role-ratings": [
    "TrueSkill for each role: a member gains where it earns more than others do in that role. It says nothing about other roles.",
    "Members differ by more than their bands: some play this role better.",
    "All bands overlap: nobody plays it better than the others."],
  "transcripts": [
    "One whole game of each sort: the problem, the attempts, and what was said about them.",
    "What is said is about this answer: it names a line, a value or a case that you can check.",
    "The same phrases whatever the answer is: the curves above then come from habit."],
  "operators": [
    "A mutation changes one parent, a crossover mixes two. What became of the children of each?",
    "Children live long, gain rating and become parents themselves.",
    "Most die at the next replacement: the operator destroys what it changes. With few children, all differences are chance."],
  "most-common": [
    "The forms that teachers write most often, once names, numbers and strings are left out, with an example of each.",
    "Small shares, and examples that differ in idea.",
    "One form is a tenth of all programs or more: teachers repeat what pays."],
  "surface-drift": [
    "What problems look like, at the start and at the end: lengths, names, constants, sorts of answers.",
    "Shares stay where they were, and lengths grow slowly.",
    "More trivial, shown or repeated answers: they can be guessed, so a higher solve rate says little."],
  "people-rows": [
    "What people did: problems they posed, vetoed, rated or answered, and what came of it.",
    "What they posed is accepted, and solved by some attempts and not by others: students learn from it.",
    "Most are rejected. The outcome says why."],
  "preferred-teachers": [
    "Which of two problems people would rather learn from, without seeing who wrote them, added up by teacher.",
    "Teachers that people prefer earn well, too: what is paid is worth reading.",
    "Those that earn most are not preferred: they are paid for problems nobody likes. Of a few comparisons, the order is chance."],
};

// What stands on every page, for who sees it for the first time.
const INTRODUCTION = "Teachers (T) invent problems, students (S) try to solve them, a sandbox decides who is right. Both are small adapters on one frozen model, both are trained on what they earn, and the weakest are replaced. Each figure has a line that explains it.";
const WORDS = [
  ["T2, S3.20", "a teacher and a student. S3.20 was born at step 20, in the place of an S3."],
  ["step", "one round: propose, verify, solve, reward, train."],
  ["kind", "what a problem asks for. code_o: the output of a program; code_i: an input that gives an output; code_f: the program behind examples."],
  ["valid, malformed", "a proposal that runs and gives the same answer every time; a text that cannot be read."],
  ["zero-pass, all-pass", "problems that no attempt, or every attempt, solved. Nobody learns from either."],
  ["rating", "TrueSkill, as for chess players: relative to the other members of this run, not a measure of skill by itself."],
  ["exam, fitness", "all students answer the same old problems; fitness is what decides who is replaced."],
  ["held-out", "problems that nobody is trained on. Only there, and on benchmarks, is a gain a result."],
  ["base", "the frozen model that all members started from."],
  ["chosen, soup", "the student that the run's own exam puts first; all students merged into one."],
  ["[low, high]", "a 95 % interval. One that includes zero shows nothing."],
];
