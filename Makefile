# The two commands that matter: `make demo` and `make test`. Both set up first; a second call finds nothing to do.
# Settings: PYTHON=python3.12 (which interpreter), TORCH=torch==2.11.0 (which torch).

PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin

.PHONY: demo test setup format fuzz clean

demo: setup
	$(BIN)/redqueen doctor
	$(BIN)/redqueen run

test: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto

setup:
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" sh scripts/setup.sh

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Ten minutes of random texts against the parsers and the wire format.
fuzz: setup
	REDQUEEN_FUZZ_S=600 $(BIN)/pytest tests/unit/test_fuzz.py --timeout=3600

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
