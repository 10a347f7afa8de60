# make run    the page on http://127.0.0.1:7860       (HOST=, PORT=)   and the commands .venv/bin/{mars,mars-playground}
# make test   all tests, with a real browser          (ARGS="-k name", JOBS=processes, 0 for one without others)
# make check  lint, format, types, import rules
# make bench  measurements beside transformers' own   (ARGS=)   more: python -m bench.{exact,noise,page,scale,telemetry}
# make cuda   tests and measurements of a GPU          (OUT=folder, ARGS=, TINY=1: measurements on the CPU) with PYTHON as it is: torch, transformers
# make mcp    installs what MCP tools need             make postgres: what PostgreSQL needs   make ray: what studies on Ray need
# make eval   installs lm-eval with the model mars     then: .venv/bin/lm_eval --model mars --model_args pair=bundled --tasks demo_arithmetic
# make wheel  builds dist/*.whl and tries it          with the oldest and the newest libraries that it allows, in empty environments
# make vllm   the plugin in vLLM for CPUs, in .venv-vllm (VLLM_PYTHON=another environment's interpreter, ARGS="-k name")
# make llama  checks a llama.cpp server with and without speculative decoding, in .venv-llama   (ARGS="-k name")
# make green  when cuda, vllm and llama, which CI leaves out, last passed, and on which commit
# make clean  removes .venv and the caches
# make deploy SPACE=owner/name   puts the page on a Hugging Face Space   (FLAVOUR=zerogpu|cpu|docker, DRY=1 lists only)
#
# PYTHON=python3.12        another interpreter (3.11 or later) for .venv
# TORCH_INDEX=URL          another place to look for torch, e.g. https://download.pytorch.org/whl/cpu (no CUDA, smaller)
# LOCKED=1                 installs only files whose hashes are in locks/ (TORCH=cpu or cuda), into a .venv that has no others;
#                          without it: the same versions of any index
# make lock                writes locks/ and requirements.txt anew after pyproject.toml was changed (UPGRADE=1: newest versions that it allows)
# make sbom                writes docs/sbom/run-$(TORCH).cdx.json, and docs/reference/packages.md from .venv
# pip's own variables (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, ...) are respected.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 7860
TORCH_INDEX ?=
LOCKED ?=
TORCH ?= cpu
UPGRADE ?=
ARGS ?=
OUT ?=
TINY ?=
SPACE ?=
FLAVOUR ?= zerogpu
DRY ?=
EXTRAS := mcp postgres eval ray dev
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)  # many tests wait for other processes

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
VERIFIED := $(VENV)/.locked
# $(call install,extras): the versions of locks/, from any index; with LOCKED=1 only files that have their hashes, and what locks before add.
pins = sed -n 's/^\([[:alnum:]].*\) \\$$/\1/p'
install = $(if $(LOCKED),,rm -f $(VERIFIED); )$(PIP) $(if $(LOCKED),--require-hashes $(patsubst %,-r locks/%.txt,torch-$(TORCH) run $(1)),\
	-r <($(pins) locks/torch-cpu.txt $(patsubst %,locks/%.txt,run $(1))) -c <($(pins) locks/*.txt))
# $(call script,name,module): a command in .venv/bin that runs main of the module of this checkout, from any folder.
script = printf '%s\n' '\#!$(abspath $(BIN))/python' 'import sys' '' 'sys.path.insert(0, "$(CURDIR)")' 'from $(2) import main' '' \
	'if __name__ == "__main__":' '    sys.exit(main())' > $(BIN)/$(1) && chmod +x $(BIN)/$(1)
RUN_READY := $(VENV)/.requirements
EVAL_READY := $(VENV)/.requirements-eval
DEV_READY := $(VENV)/.requirements-dev
TOOLS := .venv-tools

.PHONY: help run test check green bench cuda mcp postgres ray eval clean deploy lock sbom verified vllm wheel llama

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

run: $(BIN)/mars
	HOST=$(HOST) PORT=$(PORT) $(BIN)/python app.py

test: export PYTHONDONTWRITEBYTECODE :=  # else each of the many processes compiles the program and the tests again
test: $(DEV_READY)
	browser=$$(PATH="$(CURDIR)/$(BIN):$$PATH" tests/browser/find_browser.sh); \
	MARS_BROWSER="$$browser" OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n $(JOBS) $(ARGS)

check: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

green:
	@.ci/green

bench: $(RUN_READY)
	$(BIN)/python -m bench $(ARGS)

cuda:
	$(if $(TINY)$(ARGS),,HF_HUB_OFFLINE=1 .ci/green cuda "$(PYTHON)" -m pytest -v -m cuda -p no:cacheprovider -o filterwarnings=default \
		$$(grep -l pytest.mark.cuda tests/unit/mars_core/test_*.py))
	OUT="$(OUT)" "$(PYTHON)" -m bench.cuda $(if $(TINY),--tiny) $(ARGS)

mcp: $(RUN_READY)
	$(call install,mcp)

postgres: $(RUN_READY)
	$(call install,mcp postgres)

ray: $(EVAL_READY)
	$(call install,mcp postgres eval ray)

eval: $(EVAL_READY)

deploy: $(RUN_READY)
	@$(if $(SPACE),,echo "Say where: make deploy SPACE=owner/name" >&2; exit 2;) \
	$(BIN)/python -m hosting.deploy "$(SPACE)" --flavour $(FLAVOUR) $(if $(DRY),--dry-run)

wheel:
	PYTHON="$(PYTHON)" TORCH=$(TORCH) .ci/wheel try

vllm: $(DEV_READY)
	PYTHON="$(PYTHON)" $(if $(ARGS),,.ci/green vllm) integrations/vllm/try $(ARGS)

llama: $(DEV_READY)
	PYTHON="$(PYTHON)" $(if $(ARGS),,.ci/green llama) integrations/llama/try $(ARGS)

clean:
	rm -rf dist $(VENV) .venv-llama .venv-vllm $(TOOLS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	.ci/venv "$(PYTHON)" "$(VENV)"
	$(if $(LOCKED),touch $(VERIFIED))

# pip leaves what is installed as it is, hashes or not: what was installed without them must go first.
verified: | $(BIN)/pip
	@[ -z "$(LOCKED)" ] || [ -e $(VERIFIED) ] || { echo "$(VENV) was made without LOCKED=1, so its files were never checked: run make clean first." >&2; exit 2; }

$(RUN_READY): locks/run.txt | verified
	@echo "Installing the page into $(VENV); the first time this takes some minutes."
	$(call install,)
	@touch $@

$(BIN)/mars: $(RUN_READY) Makefile
	@$(call script,mars,mars_playground.__main__)
	@$(call script,mars-playground,app)

# pip's own lm_eval does not discover models.
$(EVAL_READY): locks/eval.txt $(BIN)/mars
	@echo "Installing lm-eval into $(VENV)."
	$(call install,mcp postgres eval)
	@$(call script,lm_eval,evaluation.harness.command)
	@$(call script,lm-eval,evaluation.harness.command)
	@touch $@

$(DEV_READY): locks/dev.txt locks/mcp.txt locks/postgres.txt locks/ray.txt $(EVAL_READY)
	@echo "Installing tests and checks into $(VENV)."
	$(call install,mcp postgres eval ray dev)
	$(PIP) --require-hashes --no-deps -r <(sed -n '/^triton==/,/[^\\]$$/p' locks/torch-cuda.txt)
	@touch $@

# Each package is in one file: what CUDA alone needs in torch-cuda.txt, the others in that of the first extra which needs them.
compile = $(TOOLS)/bin/uv pip compile --quiet --no-config --native-tls --universal --python-version 3.11 --fork-strategy fewest --no-annotate \
	--custom-compile-command "make lock"
lock: $(TOOLS)/.ready
	$(pins) locks/*.txt > $(TOOLS)/versions
	$(compile) pyproject.toml --all-extras $(if $(UPGRADE),--upgrade) -o $(TOOLS)/versions
	$(compile) pyproject.toml --no-deps --no-strip-extras --no-header --constraints $(TOOLS)/versions > requirements.txt
	rm -f $(patsubst %,locks/%.txt,run $(EXTRAS))
	grep -E '^(torch|triton|nvidia-.*|cuda-.*)==' $(TOOLS)/versions | $(compile) - --no-deps --generate-hashes > locks/torch-cuda.txt
	for extra in "" $(EXTRAS); do \
		elsewhere=$$(sed -n 's/^\([[:alnum:]-]*\)==.*/--no-emit-package \1/p' locks/*.txt); \
		$(compile) pyproject.toml $${extra:+--extra $$extra} --constraints $(TOOLS)/versions --generate-hashes $$elsewhere -o locks/$${extra:-run}.txt; \
	done

# What a deployment installs is read from an environment of its own; TORCH=cpu needs TORCH_INDEX.
sbom: $(TOOLS)/.ready $(DEV_READY)
	$(MAKE) VENV=$(TOOLS)/$(TORCH) $(TOOLS)/$(TORCH)/.requirements
	$(TOOLS)/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml -o docs/sbom/run-$(TORCH).cdx.json $(TOOLS)/$(TORCH)
	{ sed '/^|/,$$d' docs/reference/packages.md; \
	$(TOOLS)/bin/pip-licenses --python=$(BIN)/python --from=mixed --with-urls --with-system --ignore-packages pip --order=license --format=markdown | tr -s ' ' | grep -v '^| |'; } > $(TOOLS)/packages.md
	mv $(TOOLS)/packages.md docs/reference/packages.md

$(TOOLS)/.ready:
	.ci/venv "$(PYTHON)" "$(TOOLS)"
	$(TOOLS)/bin/python -m pip install --disable-pip-version-check --quiet cyclonedx-bom==7.5.0 pip-licenses==5.5.5 uv==0.13.9
	@touch $@
