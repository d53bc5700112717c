# `make demo` shows it, `make check` is the inner loop, `make test` runs everything. All set up first; a second call finds nothing to do.
# Settings: PYTHON=python3.12 (which interpreter), TORCH=torch==2.11.0 (which torch).

PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin

.PHONY: demo check test lint setup format fuzz wheel cookbook clean

demo: setup
	$(BIN)/redqueen doctor
	$(BIN)/redqueen run pawn-deduction

# Under a minute on two cores: no test that is slow, needs a GPU, or needs benchmark files.
check: lint
	$(BIN)/pytest -n auto --dist worksteal -m "not slow and not gpu and not data"

# Tests that need a GPU or benchmark files are skipped where there are none.
test: lint
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto --dist worksteal

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

setup:
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" sh scripts/setup.sh

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Ten minutes of random texts against the parsers and the wire format, ten against the graders; then 10,000 puzzles and
# 10,000 queries, a few minutes each.
fuzz: setup
	REDQUEEN_FUZZ_S=600 $(BIN)/pytest tests/unit/test_fuzz.py tests/contract/test_grader_fuzz.py \
		tests/contract/test_domain_fuzz.py --timeout=3600

# Wheel and sdist, and whether the wheel works in an empty environment outside this clone: about five minutes.
wheel:
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" sh scripts/check_wheel.sh

# Recipes of tinker-cookbook against our server. It pins an older transformers, so it gets an environment of its own.
cookbook: setup
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" sh scripts/cookbook.sh
	$(BIN)/pytest -m cookbook tests/e2e/test_serve_cookbook.py

clean:
	rm -rf .venv .venv-cookbook .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
