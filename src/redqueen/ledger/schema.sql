-- The ledger of a run. Every arrow between two stages is a table; a step is in it whole or not at all.
-- `world` is the number of a world (0 in a plain run), `step` counts from 1; what is there before the first step has step 0.
-- Rows are only added, never changed. A resume takes away the steps after its checkpoint and plays them again.
-- Lists and settings are JSON text. Members are named by id (such as T2 or S3.17: the slot's letter and number, and the step of birth).

CREATE TABLE run (                -- what the whole run was made with
  name TEXT PRIMARY KEY,          -- schema, config (TOML), version, machine, base, created, ...
  value TEXT NOT NULL
) STRICT;

CREATE TABLE worlds (
  world INTEGER PRIMARY KEY,
  arm TEXT NOT NULL,              -- the rules it plays by: its name in a study, 'run' in a plain run
  seed INTEGER NOT NULL,
  config TEXT NOT NULL            -- resolved settings, JSON
) STRICT;

CREATE TABLE births (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL,
  role TEXT NOT NULL,             -- teacher, student, or both (self-play)
  slot INTEGER NOT NULL,
  parents TEXT NOT NULL,          -- ids; empty for the first members
  operator TEXT NOT NULL,         -- 'new' for the first members
  settings TEXT NOT NULL,         -- of the operator
  mu REAL NOT NULL, sigma REAL NOT NULL,
  PRIMARY KEY (world, member)
) STRICT;

CREATE TABLE deaths (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL,
  reason TEXT NOT NULL,
  mu REAL NOT NULL, sigma REAL NOT NULL,
  PRIMARY KEY (world, member)
) STRICT;

CREATE TABLE pairings (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  pairing INTEGER NOT NULL,       -- number within the step
  teacher TEXT NOT NULL, student TEXT NOT NULL,
  expected REAL NOT NULL,         -- chance that the student wins, by the ratings before
  score REAL,                     -- the student's score; NULL where the pairing is not rated
  winner TEXT,                    -- teacher or student
  proposals INTEGER NOT NULL, valid INTEGER NOT NULL,
  attempts INTEGER NOT NULL, correct INTEGER NOT NULL,
  PRIMARY KEY (world, step, pairing)
) STRICT;

CREATE TABLE problems (           -- each once, when it is first accepted
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  problem TEXT NOT NULL,          -- content key
  kind TEXT NOT NULL,
  program TEXT NOT NULL,
  inputs TEXT NOT NULL, outputs TEXT NOT NULL,
  message TEXT NOT NULL,
  canonical TEXT NOT NULL,        -- hash of the canonical program
  behaviour TEXT NOT NULL,        -- hash of what the program does to the probe inputs
  cell TEXT NOT NULL,             -- structural cell
  ast_depth INTEGER NOT NULL, cyclomatic INTEGER NOT NULL, loc INTEGER NOT NULL, variables INTEGER NOT NULL,
  steps_executed INTEGER NOT NULL,
  PRIMARY KEY (world, problem)
) STRICT;

CREATE TABLE proposals (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  proposal INTEGER NOT NULL,      -- number within the step
  pairing INTEGER NOT NULL,
  teacher TEXT NOT NULL, version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  prompt INTEGER NOT NULL,        -- proposals with the same number were drawn from one prompt
  shown TEXT NOT NULL,            -- keys of the problems it was shown
  text TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  logprob REAL NOT NULL,          -- mean of its tokens, as sampled
  finish_reason TEXT NOT NULL,            -- stop or length
  problem TEXT,                   -- key, where it is a problem
  rejection TEXT, detail TEXT NOT NULL,
  solve_rate REAL,                -- of the matched student
  reward REAL NOT NULL, advantage REAL NOT NULL,
  PRIMARY KEY (world, step, proposal)
) STRICT;

CREATE TABLE attempts (
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  proposal INTEGER NOT NULL,      -- whose problem is attempted
  attempt INTEGER NOT NULL,
  problem TEXT NOT NULL,
  student TEXT NOT NULL, version INTEGER NOT NULL,
  text TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  logprob REAL NOT NULL,
  finish_reason TEXT NOT NULL,
  verdict TEXT NOT NULL,          -- right, wrong or malformed
  detail TEXT NOT NULL,
  reward REAL NOT NULL, advantage REAL NOT NULL,
  PRIMARY KEY (world, step, proposal, attempt)
) STRICT;

CREATE TABLE ratings (            -- of every living member, after the step
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL, role TEXT NOT NULL,
  version INTEGER NOT NULL,
  mu REAL NOT NULL, sigma REAL NOT NULL,
  PRIMARY KEY (world, step, member)
) STRICT;

CREATE TABLE updates (            -- what training did to a member
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  member TEXT NOT NULL,
  rows INTEGER NOT NULL, tokens INTEGER NOT NULL,
  loss REAL NOT NULL, grad_norm REAL NOT NULL, entropy REAL NOT NULL,
  logprob_gap REAL NOT NULL, logprob_gap_max REAL NOT NULL,
  kl REAL NOT NULL, clipped_frac REAL NOT NULL,
  PRIMARY KEY (world, step, member)
) STRICT;

CREATE TABLE metrics (            -- figures of a step, named stage/what
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  name TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (world, step, name)
) STRICT;

CREATE TABLE evals (              -- one row an answer to a suite
  world INTEGER NOT NULL, step INTEGER NOT NULL,
  suite TEXT NOT NULL,            -- 'eval/...': measured later by `redqueen eval`, not part of a run's digest
  subject TEXT NOT NULL,          -- a member's id, or base
  item TEXT NOT NULL,
  kind TEXT NOT NULL,             -- of a benchmark's items: the version of their prompt
  tier INTEGER NOT NULL,
  sample INTEGER NOT NULL,
  correct INTEGER NOT NULL,
  PRIMARY KEY (world, step, suite, subject, item, sample)
) STRICT;

CREATE TABLE timings (            -- not part of a run's digest
  step INTEGER NOT NULL,
  stage TEXT NOT NULL,
  seconds REAL NOT NULL,
  waited_s REAL NOT NULL,         -- of these: waiting for the sandbox
  PRIMARY KEY (step, stage)
) STRICT;

CREATE TABLE marks (              -- steps that are whole
  step INTEGER PRIMARY KEY
) STRICT;
