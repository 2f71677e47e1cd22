# Two commands do all the set-up: `make demo` and `make test`.
# What is installed is written down in a stamp, so that a second run needs no network.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
INPUTS := pyproject.toml constraints.txt

.PHONY: demo test check format bench memory loop clean help browser

help: ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(VENV)/.demo ## install, run the main job on bundled data, say where the result is
	$(BIN)/nearfold demo

test: $(VENV)/.test browser ## install what the tests need, run them all
	$(BIN)/python -m pytest

check: $(VENV)/.check ## format, lint, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.check ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench ## measure against the peers; BENCH="--data mnist.npz" for the full table
	$(BIN)/python -m bench $(BENCH)

memory: $(VENV)/.test ## measure every estimator and command against the memory budget (hours)
	$(BIN)/python -m tests.memory.harness $(MEMORY)
	$(BIN)/python -m tests.memory.harness --commands

loop: check test ## what to run before a commit

browser: ## Debian's chromium, for the tests of the report; elsewhere any chromium on the PATH will do
	@command -v chromium >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
	  && apt-get update -qq && apt-get install -y -qq chromium fonts-noto-cjk >/dev/null; } \
	  || echo "No chromium: the tests of the report in a browser will be skipped (or fail, if CI is set)."

clean: ## remove what was made
	rm -rf $(VENV) .venv-peer demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

$(VENV)/.venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Nearfold needs Python 3.11 or later; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo: $(VENV)/.venv $(INPUTS)
	$(PIP) -e .
	touch $@

$(VENV)/.test: $(VENV)/.venv $(INPUTS)
	$(PIP) -e '.[test]'
	touch $(VENV)/.demo $@

$(VENV)/.check: $(VENV)/.venv $(INPUTS)
	$(PIP) -e '.[test,check]'
	touch $(VENV)/.demo $(VENV)/.test $@

$(VENV)/.bench: $(VENV)/.venv $(INPUTS)
	$(PIP) -e '.[bench]'
	touch $(VENV)/.demo $@
