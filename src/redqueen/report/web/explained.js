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
};
