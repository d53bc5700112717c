-- The ledger of a run, schema 5. What one stage hands to the next is a table; a step is stored whole or not at all.
-- `world` is the number of a world (0 in a plain run). `step` counts from 1; step 0 is the state before training.
-- Rows are only added, never changed. A resume deletes the steps after its checkpoint and plays them again.
-- Lists and objects are JSON text. Members are named by id, such as T2 or S3.17: slot letter and number, then the step of birth.

CREATE TABLE run (                -- facts about the whole run
  name TEXT PRIMARY KEY,          -- schema, config (TOML), version, machine, base, created, ...
  value TEXT NOT NULL             -- what it is
) STRICT;

CREATE TABLE worlds (
  world INTEGER PRIMARY KEY,      -- its number; 0 in a plain run
  arm TEXT NOT NULL,              -- its name in a study, 'run' in a plain run
  seed INTEGER NOT NULL,          -- of all its random streams
  config TEXT NOT NULL            -- resolved settings, JSON
) STRICT;

CREATE TABLE births (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL,           -- id: slot letter and number, then the step of birth, such as S3.17
  role TEXT NOT NULL,             -- teacher, student, or both (self-play)
  slot INTEGER NOT NULL,          -- adapter slot of the engine
  parents TEXT NOT NULL,          -- JSON list of ids; empty for the initial population
  operator TEXT NOT NULL,         -- 'new' for the initial population
  settings TEXT NOT NULL,         -- JSON object: settings of the operator
  mu REAL NOT NULL, sigma REAL NOT NULL, -- rating: mean and standard deviation
  PRIMARY KEY (world, member)
) STRICT;

CREATE TABLE deaths (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL,
  reason TEXT NOT NULL,           -- why it was replaced
  mu REAL NOT NULL, sigma REAL NOT NULL,
  PRIMARY KEY (world, member)
) STRICT;

CREATE TABLE pairings (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  pairing INTEGER NOT NULL,       -- number within the step
  teacher TEXT NOT NULL, student TEXT NOT NULL, -- ids of the members
  expected REAL NOT NULL,         -- win probability of the student, by the ratings before the step
  score REAL,                     -- the student's score; NULL where the pairing is not rated
  winner TEXT,                    -- teacher or student, by what the student solved
  proposals INTEGER NOT NULL, valid INTEGER NOT NULL, -- how many, and how many became problems
  attempts INTEGER NOT NULL, correct INTEGER NOT NULL, -- how many, and how many were correct
  PRIMARY KEY (world, step, pairing)
) STRICT;

CREATE TABLE problems (           -- one row per problem, at the step that first accepted it
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  problem TEXT NOT NULL,          -- content key
  kind TEXT NOT NULL,             -- task kind: it defines the payload, the gold answers and the features
  author TEXT,                    -- member that proposed it; NULL where none did
  payload TEXT NOT NULL,          -- JSON object; of code: program, inputs, message, canonical
  gold TEXT NOT NULL,             -- JSON list of gold answers
  features TEXT NOT NULL,         -- JSON object of numbers; of code: ast_depth, cyclomatic, loc, variables, steps_executed
  structure TEXT NOT NULL,        -- hash, equal for problems that differ in values only; of code: of the canonical program
  behaviour TEXT NOT NULL,        -- hash, equal for problems that behave the same; of code: of the outputs for the probe inputs
  cell TEXT NOT NULL,             -- cell of the coverage map
  derived INTEGER NOT NULL,       -- 1 where the kind derives its problems from archived ones, so that features say nothing about the teacher
  PRIMARY KEY (world, problem)
) STRICT;

CREATE TABLE proposals (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  proposal INTEGER NOT NULL,      -- number within the step
  pairing INTEGER NOT NULL,       -- number of the pairing within the step
  teacher TEXT NOT NULL,
  version INTEGER NOT NULL,       -- number of updates that the member had had
  kind TEXT NOT NULL,
  prompt INTEGER NOT NULL,        -- proposals with the same number were sampled from the same prompt
  shown TEXT NOT NULL,            -- JSON list: keys of the reference problems in the prompt
  text TEXT NOT NULL,             -- as the teacher wrote it
  tokens INTEGER NOT NULL,        -- of the text
  logprob REAL NOT NULL,          -- mean over its tokens, as sampled
  finish_reason TEXT NOT NULL,    -- stop or length
  problem TEXT,                   -- key, where it is valid
  rejection TEXT, detail TEXT NOT NULL, -- why it is no problem, in a word and in full
  solve_rate REAL,                -- of the matched student
  reward REAL NOT NULL, advantage REAL NOT NULL, -- what it earned, and what it is trained with
  PRIMARY KEY (world, step, proposal)
) STRICT;

CREATE TABLE attempts (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  proposal INTEGER NOT NULL,      -- whose problem is attempted; below 0: a problem from the archive
  attempt INTEGER NOT NULL,       -- number within the proposal
  problem TEXT NOT NULL,
  student TEXT NOT NULL, version INTEGER NOT NULL,
  text TEXT NOT NULL,             -- as the student wrote it
  tokens INTEGER NOT NULL,        -- of the text
  logprob REAL NOT NULL,
  finish_reason TEXT NOT NULL,
  verdict TEXT NOT NULL,          -- correct, wrong, malformed, or voided: the problem turned out to be none
  detail TEXT NOT NULL,           -- what the verdict rests on
  reward REAL NOT NULL, advantage REAL NOT NULL, -- what it earned, and what it is trained with
  PRIMARY KEY (world, step, proposal, attempt)
) STRICT;

CREATE TABLE turns (              -- what members wrote in games that went on after the attempts at a problem
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  proposal INTEGER NOT NULL,      -- whose problem the game is about
  turn INTEGER NOT NULL,          -- number within the game
  game TEXT NOT NULL,             -- as the settings name it: critique, repair, debate, ...
  problem TEXT NOT NULL,
  round INTEGER NOT NULL,         -- 1 for the first one after the attempts
  role TEXT NOT NULL,             -- critic, adviser, repairer, debater, judge, ...
  member TEXT NOT NULL, version INTEGER NOT NULL,
  prompt INTEGER NOT NULL,        -- turns of a game with the same number were sampled from the same prompt
  shown TEXT NOT NULL,            -- JSON list: what the member was shown, attempts such as a3 and turns such as t0
  text TEXT NOT NULL,             -- as the member wrote it
  tokens INTEGER NOT NULL,        -- of the text
  logprob REAL NOT NULL,
  finish_reason TEXT NOT NULL,
  said TEXT NOT NULL,             -- what it claims, in one word: correct, wrong, first, second; empty where it claims nothing
  truth TEXT NOT NULL,            -- what execution says, in the same words
  verdict TEXT NOT NULL,          -- correct, wrong, malformed, or voided with its problem
  detail TEXT NOT NULL,           -- what the verdict rests on
  reward REAL NOT NULL, advantage REAL NOT NULL, -- what it earned, and what it is trained with
  PRIMARY KEY (world, step, proposal, turn)
) STRICT;

CREATE TABLE ratings (            -- of every living member, after the step
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL, role TEXT NOT NULL,
  version INTEGER NOT NULL,       -- number of updates so far
  mu REAL NOT NULL, sigma REAL NOT NULL,
  PRIMARY KEY (world, step, member)
) STRICT;

CREATE TABLE role_ratings (       -- of every living member in every role of a game that it has played, after the step
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL,
  role TEXT NOT NULL,             -- critic, adviser, repairer, debater, judge, ...
  mu REAL NOT NULL, sigma REAL NOT NULL,
  PRIMARY KEY (world, step, member, role)
) STRICT;

CREATE TABLE exams (              -- what all students of a world answered to the same archived problems; nobody is trained on it
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL,
  problem TEXT NOT NULL,
  attempts INTEGER NOT NULL, correct INTEGER NOT NULL, -- how many, and how many were correct
  PRIMARY KEY (world, step, member, problem)
) STRICT;

CREATE TABLE fitness (            -- of every member when members were ranked, before some of them were replaced
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL, role TEXT NOT NULL,
  measure TEXT NOT NULL,          -- a row of the fitness tables: exam, reward, rating, ...
  fitness REAL NOT NULL,          -- by that measure: higher is better
  exam REAL,                      -- share of correct answers in the exam; NULL for teachers and without an exam
  chosen INTEGER NOT NULL,        -- 1 for the fittest student that stays
  PRIMARY KEY (world, step, member)
) STRICT;

CREATE TABLE updates (            -- of every member that was trained in the step
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL,
  samples INTEGER NOT NULL, tokens INTEGER NOT NULL, -- how many were trained on
  loss REAL NOT NULL,             -- mean over its tokens
  grad_norm REAL NOT NULL,        -- of the gradient, before it is clipped
  entropy REAL NOT NULL,          -- of the next token, mean over its tokens
  logprob_gap REAL NOT NULL, logprob_gap_max REAL NOT NULL, -- between a token's log-probability as sampled and as trained: mean, and largest
  kl REAL NOT NULL,               -- estimated divergence from the base; 0 unless it is part of the loss
  clipped_frac REAL NOT NULL,     -- share of tokens whose gradient the loss clipped
  PRIMARY KEY (world, step, member)
) STRICT;

CREATE TABLE metrics (            -- named stage/what
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  name TEXT NOT NULL,             -- such as solve/pass_rate
  value REAL NOT NULL,            -- its value in the step
  PRIMARY KEY (world, step, name)
) STRICT;

CREATE TABLE evals (              -- one row per answer to an item of a suite
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  suite TEXT NOT NULL,            -- 'eval/...': measured later by `redqueen eval`, not part of a run's digest
  subject TEXT NOT NULL,          -- a member's id, or base
  item TEXT NOT NULL,             -- its name in the suite
  kind TEXT NOT NULL,             -- of a benchmark's items: the version of their prompt
  tier INTEGER NOT NULL,          -- how hard the item is, where the suite says it
  sample INTEGER NOT NULL,        -- number of the answer: votes and pass@k take several
  correct INTEGER NOT NULL,       -- 1 where the answer is correct
  PRIMARY KEY (world, step, suite, subject, item, sample)
) STRICT;

CREATE TABLE people (             -- what people did on the live page or in `redqueen play`, in the step that took it up
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  number INTEGER NOT NULL,        -- within the step
  author TEXT NOT NULL,           -- the name the person gave; proposals and problems have it as 'person:NAME'
  action TEXT NOT NULL,           -- pose, veto, rate, or answer (which changes nothing, and is not part of a run's digest)
  content TEXT NOT NULL,          -- JSON object, by action
  problem TEXT,                   -- key of the problem it is about
  outcome TEXT NOT NULL,          -- accepted or rejected; vetoed; counted; ignored; of an answer, its verdict
  detail TEXT NOT NULL,           -- what the outcome rests on
  PRIMARY KEY (world, step, number)
) STRICT;

CREATE TABLE timings (            -- not part of a run's digest
  step INTEGER NOT NULL,
  stage TEXT NOT NULL,            -- such as propose, solve, update
  seconds REAL NOT NULL,          -- of wall time
  waited_s REAL NOT NULL,         -- of these, spent waiting for the sandbox
  PRIMARY KEY (step, stage)
) STRICT;

CREATE TABLE placements (         -- where a block was computed, from this step on; not part of a run's digest
  step INTEGER NOT NULL,          -- of a resumed run, also the first step that it played again
  block INTEGER NOT NULL,         -- its number
  first_slot INTEGER NOT NULL, slots INTEGER NOT NULL, -- its first adapter slot, and how many
  worker INTEGER NOT NULL,        -- its number; 0 where one process computes everything
  host TEXT NOT NULL,             -- name of its machine
  device TEXT NOT NULL,           -- type of its GPU or processor: different ones round differently
  PRIMARY KEY (step, block)
) STRICT;

CREATE TABLE marks (              -- complete steps
  step INTEGER PRIMARY KEY
) STRICT;
