# Each target makes the environment it needs, once. VENV=... uses another place for it.
VENV ?= .venv
PYTHON ?= python3
PY := $(VENV)/bin/python
LOWEST := $(VENV)-lowest
READY := $(VENV)/.ready
LOG := $(VENV)/install.log
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test soak test-lowest lint format bench leaderboards paper

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "sdgbench needs Python 3.11 or newer: make PYTHON=python3.11"; exit 2; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "Installing sdgbench and its packages into $(VENV) (once; some minutes, 6 GB with CUDA)"
	@# Only the large downloads are worth a line; the full log is kept for when it goes wrong.
	@set -o pipefail; $(PY) -m pip install --progress-bar off -e '.[dev]' 2>&1 | tee $(LOG) \
	  | awk '/Downloading .*\([0-9.]+ MB\)/ { name = $$2; sub(/.*\//, "", name); sub(/-[0-9].*/, "", name); \
	         size = $$NF; unit = $$(NF-1); gsub(/[()]/, "", size); gsub(/[()]/, "", unit); \
	         if (unit + 0 >= 20) printf "  fetching %s (%s %s)\n", name, unit, size } \
	         /^Installing collected packages/ { print "  unpacking" } { fflush() }' \
	  || { tail -n 20 $(LOG); echo "The installation failed; its log: $(LOG)"; exit 1; }
	@touch $(READY)
	@echo "Installed."

SHELL := /bin/bash

demo: $(READY) ## Train and compare on the embedded datasets (minutes on 2 cores)
	@$(VENV)/bin/sdgbench run --method erm,mada --dataset digits-mini --preset quick --seeds 0-1 --jobs auto $(ARGS)
	@$(VENV)/bin/sdgbench run --method erm --dataset streets-mini --preset quick $(ARGS)
	@$(VENV)/bin/sdgbench run --method erm --dataset styles-mini --preset quick $(ARGS)
	@$(VENV)/bin/sdgbench compare
	@$(VENV)/bin/sdgbench report

lint: $(READY) ## Check style and types
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy

test: lint ## Check style and types, run all tests
	@$(PY) -m pytest -n 2 --dist loadgroup $(ARGS)

MINUTES ?= 30
soak: $(READY) ## Damage files, lose power and kill runs for MINUTES (30), with printed counts
	@$(PY) tests/fuzz/soak.py $(MINUTES)

# First the package alone, each dependency at its lower bound; then what the tests need in addition.
test-lowest: ## Run all tests with the lowest supported versions (needs uv; 6 GB)
	@command -v uv >/dev/null || { echo "test-lowest needs uv: pip install uv"; exit 2; }
	@uv venv --seed --allow-existing -q --python $(PYTHON) $(LOWEST)
	@uv pip install -q --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[slurm,parquet]'
	@uv pip freeze -q --python $(LOWEST)/bin/python --exclude-editable > $(LOWEST)/lowest.txt
	@uv pip install -q --python $(LOWEST)/bin/python -c $(LOWEST)/lowest.txt -e '.[dev]'
	@$(LOWEST)/bin/python -m pytest -n 2 --dist loadgroup $(ARGS)

leaderboards: $(READY) ## Make the committed tables and page from the committed records
	@$(VENV)/bin/sdgbench compare --runs leaderboards/records --dataset digits-mini --output leaderboards/digits-mini.md
	@$(VENV)/bin/sdgbench compare --runs leaderboards/records --dataset digits-mini --view efficiency --output leaderboards/efficiency.md
	@$(VENV)/bin/sdgbench compare --runs leaderboards/records --dataset digits --paper --output leaderboards/digits.md
	@$(VENV)/bin/sdgbench compare --runs leaderboards/records --dataset digits --view few-shot --output leaderboards/few-shot.md
	@$(VENV)/bin/sdgbench report --runs leaderboards/records --no-samples --output leaderboards/index.html
	@$(PY) docs/pictures.py compare
	@$(PY) docs/generated_tables.py

paper: $(READY) ## Make the paper's tables and figures on the embedded datasets (tens of minutes on 2 cores)
	@$(VENV)/bin/sdgbench paper --jobs 2 $(ARGS)

bench: $(READY) ## Measure the harness against bare code
	@$(PY) -m pytest tests/benchmarks -o addopts="--import-mode=importlib" -q -s --benchmark-only --benchmark-columns=median $(ARGS)

format: $(READY) ## Format the code
	@$(VENV)/bin/ruff check --fix-only -q .
	@$(VENV)/bin/ruff format .
