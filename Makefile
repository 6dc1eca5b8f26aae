# Needs Python >= 3.11 and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 2
ifneq ($(wildcard ../shared/data),)
export GPCLASS_DATA ?= $(abspath ../shared/data)
endif
ifneq ($(wildcard ../shared/reference),)
export GPCLASS_REFERENCE ?= $(abspath ../shared/reference)
endif

.PHONY: help demo test fast lint format bench bench-dry bench-page quality reproduction docs clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gpclass needs Python >= 3.11, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

# one stamp a set of extras, renewed when pyproject.toml changes
$(VENV)/.stamp-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

demo: $(VENV)/.stamp-cli  ## the main job on real data: ten-fold comparison on the breast-cancer table
	$(BIN)/gpclass evaluate breast_cancer --picture demo-output/breast_cancer.png

test: $(VENV)/.stamp-test  ## every test, doctests included
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

fast: $(VENV)/.stamp-test  ## the inner loop: the tests that are not marked slow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

lint: $(VENV)/.stamp-lint $(VENV)/.stamp-test  ## ruff (lint and format) and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.stamp-lint  ## rewrite the files as ruff wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# ONLY="methods/ep-probit schedules" runs these tables or rows alone
bench: $(VENV)/.stamp-bench  ## ratios to the LAPACK floor and to scikit-learn, paired in one run
	$(BIN)/python -m benchmarks.run $(addprefix --only ,$(ONLY))

bench-dry: $(VENV)/.stamp-bench  ## the same code on tiny sizes: does it still run?
	$(BIN)/python -m benchmarks.run --dry $(addprefix --only ,$(ONLY))

bench-page: $(VENV)/.stamp-bench  ## the tables of RESULT="benchmarks/results/NAME.json" into docs/benchmarks.md
	$(BIN)/python -m benchmarks.page $(RESULT)

reproduction: $(VENV)/.stamp-cli  ## every figure and table of the papers, into docs/reproduction (hours)
	OMP_NUM_THREADS=1 $(BIN)/gpclass reproduce --all --jobs 2 --out docs/reproduction

quality: $(VENV)/.stamp-bench $(VENV)/.stamp-cli  ## the default beside other classifiers on public tables, into docs/quality.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.quality.run $(if $(QUICK),--quick)
	$(if $(QUICK),,$(BIN)/python -m benchmarks.quality.page)

docs: $(VENV)/.stamp-docs  ## the HTML documentation, in docs/_build
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build

clean:  ## remove what make made
	rm -rf $(VENV) docs/_build demo-output
