# Needs make, Python 3.11 or newer and pip's registry. `make` alone lists the targets.
PYTHON ?= python3

VENV := .venv/bin/python
PIP := $(VENV) -m pip install --quiet --disable-pip-version-check -c constraints.txt
INPUTS := pyproject.toml setup.py constraints.txt $(wildcard src/iclab/ops/core/*.[ch])
SCANNED := tests/ops $(wildcard tests/models/test_one_layer*.py) $(patsubst %,tests/models/test_%.py,backbones mamba in_context)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install quickstart test test-slow test-triton bench lint types docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

install: .venv/base.stamp ## create .venv and install the package into it

quickstart: .venv/base.stamp ## install, pretrain and measure a one-layer Mamba (2-3 minutes), and say where the report is
	@report=$$($(VENV) -m iclab run oh2025/error scale=quick) && printf 'report: %s\n' "$(CURDIR)/$$report"

test: .venv/dev.stamp ## install what tests need and run them on all cores, those of the C core once more without it
	@OMP_NUM_THREADS=1 $(VENV) -m pytest -n auto -m "not slow"
	@ICLAB_SCAN=torch OMP_NUM_THREADS=1 $(VENV) -m pytest -n auto -m "not slow" $(SCANNED)

test-slow: .venv/dev.stamp ## run all tests, those that take minutes too
	@OMP_NUM_THREADS=1 $(VENV) -m pytest -n auto

test-triton: .venv/triton.stamp ## install Triton and run the tests of its kernels under its interpreter, without a GPU
	@TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(VENV) -m pytest -n auto -m triton tests/ops/test_scan_triton.py

bench: .venv/dev.stamp ## time the fast paths beside the obvious ones and beside peers
	@$(VENV) -m benchmarks

lint: .venv/dev.stamp ## check style, format and which room imports which
	@$(VENV) -m ruff check .
	@$(VENV) -m ruff format --check .
	@$(VENV) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

types: .venv/dev.stamp ## check types
	@.venv/bin/pyrefly check

docs: .venv/docs.stamp ## build the documentation into docs/_build/html; warnings are errors
	@$(VENV) -m sphinx --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html
	@printf 'documentation: %s\n' "$(CURDIR)/docs/_build/html/index.html"

clean: ## remove what was built; .venv and runs stay
	@rm -rf build dist docs/_build .pytest_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info
	@find src tests benchmarks docs -type d -name __pycache__ -prune -exec rm -rf {} +

$(VENV):
	@command -v "$(PYTHON)" >/dev/null || { echo "error: no $(PYTHON); install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is $$("$(PYTHON)" -V 2>&1); expected Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 2; }
	@rm -f .venv/*.stamp
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; echo "error: no virtual environment was made; on Debian or Ubuntu install python3-venv" >&2; exit 2; }

# A stamp says what was installed from which pyproject.toml and constraints.txt; it is renewed when one of them changes.
.venv/base.stamp: $(INPUTS) | $(VENV)
	@echo "installing iclab into .venv (PyTorch takes a minute or more the first time)"
	@$(PIP) -e .
	@touch $@

.venv/dev.stamp: $(INPUTS) | $(VENV)
	@echo "installing iclab and what its tests need into .venv"
	@$(PIP) -e ".[dev,peers]"
	@touch .venv/base.stamp $@

.venv/triton.stamp: $(INPUTS) | $(VENV)
	@echo "installing iclab, what its tests need and Triton into .venv"
	@$(PIP) -e ".[dev,triton]"
	@touch .venv/base.stamp $@

.venv/docs.stamp: $(INPUTS) | $(VENV)
	@echo "installing iclab and what its documentation needs into .venv"
	@$(PIP) -e ".[docs]"
	@touch .venv/base.stamp $@
