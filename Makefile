# make run    the page on http://127.0.0.1:7860       (HOST=, PORT=)
# make test   all tests, with a real browser          (ARGS="-k name", JOBS=processes, 0 for one without others)
# make check  lint, format, types, import rules
# make bench  measurements beside transformers' own   (ARGS=)   more: python -m bench.{profile,growth,memory,page,scale,cuda}
# make eval   installs lm-eval with the model mars     then: .venv/bin/lm_eval --model mars --tasks demo_arithmetic
# make clean  removes .venv and the caches
#
# PYTHON=python3.12        another interpreter (3.11 or later) for .venv
# TORCH_INDEX=URL          another place to look for torch, e.g. https://download.pytorch.org/whl/cpu (no CUDA, smaller)
# pip's own variables (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, ...) are respected.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 7860
TORCH_INDEX ?=
ARGS ?=
JOBS ?= logical

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
RUN_READY := $(VENV)/.requirements
EVAL_READY := $(VENV)/.requirements-eval
DEV_READY := $(VENV)/.requirements-dev

.PHONY: help run test check bench eval clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

run: $(RUN_READY)
	HOST=$(HOST) PORT=$(PORT) $(BIN)/python app.py

test: $(DEV_READY)
	browser=$$(PATH="$(CURDIR)/$(BIN):$$PATH" tests/browser/find_browser.sh); \
	MARS_BROWSER="$$browser" OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n $(JOBS) $(ARGS)

check: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

bench: $(RUN_READY)
	$(BIN)/python -m bench $(ARGS)

eval: $(EVAL_READY)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	.ci/venv "$(PYTHON)" "$(VENV)"

$(RUN_READY): requirements.txt | $(BIN)/pip
	@echo "Installing requirements.txt into $(VENV); the first time this takes some minutes."
	$(INSTALL) -r requirements.txt
	@touch $@

$(EVAL_READY): requirements-eval.txt evaluation/harness/script.py $(RUN_READY)
	@echo "Installing requirements-eval.txt into $(VENV)."
	$(INSTALL) -r requirements-eval.txt
	$(BIN)/python -m evaluation.harness.script
	@touch $@

$(DEV_READY): requirements-dev.txt $(EVAL_READY)
	@echo "Installing requirements-dev.txt into $(VENV)."
	$(INSTALL) -r requirements-dev.txt
	@touch $@
