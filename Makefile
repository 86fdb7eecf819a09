# Needs Python 3.11 and make. Everything else is installed into .venv by the first target you call.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PARAMS ?= params/tiny.yaml
OUT ?= outputs/demo
VENV := .venv/bin

.PHONY: help install demo test chaos peer-tests lab cold-start dataset dataset-check lint clean bench-harness

help:  ## these lines
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

install:  ## .venv with the versions of environment.yml (CPU set)
	@$(PYTHON) tools/install.py --profile cpu

demo: install  ## base evaluation, RL, evaluation, report; resumes; FRESH=1 starts over
	@$(VENV)/python -m rlmlib.demo --params $(PARAMS) --out $(OUT) $(if $(FRESH),--fresh)

test: install  ## the whole test suite
	@$(VENV)/python -m pytest tests

chaos: install  ## 166 hostile blocks, and 1,000 rollouts with faults in one of ten of everything
	@CHAOS_ROLLOUTS=1000 $(VENV)/python -m pytest tests/test_chaos.py

peer-tests: install  ## the tests of rlms that any such REPL should pass, against this one (fetches its source)
	@$(VENV)/python tests/peer/run.py

lab: install  ## JupyterLab on the notebooks (LAB="--allow-root --no-browser" passes options on)
	$(VENV)/jupyter lab --ServerApp.root_dir="$(CURDIR)" --ServerApp.preferred_dir="$(CURDIR)/notebooks" $(LAB)

cold-start: install  ## rebuild the tiny policy's weights from nothing (OUT=folder to keep the shipped ones)
	@$(VENV)/python -m rlmlib.tiny.cold_start $(if $(filter file,$(origin OUT)),,--out $(OUT))

dataset: install  ## recipes of the study-sized data set from the public files in DATA=folder; resumes; FRESH=1 starts over
	@$(VENV)/python -m rlmlib.tasks.study.build $(if $(DATA),--data $(DATA)) $(if $(FRESH),--fresh)

dataset-check: install  ## a built data set against independent readings of its contexts (DATA=folder)
	@$(VENV)/python tests/check_dataset.py $(if $(DATA),--data $(DATA))

lint: install  ## ruff over code, tests and notebooks
	@$(VENV)/ruff check . && $(VENV)/ruff format --check .

bench-harness: install  ## our REPL beside its peers'; SAVE=1 writes benchmarks/results
	@$(VENV)/python benchmarks/harness.py $(if $(SAVE),--save)

clean:  ## remove .venv and caches; outputs/ stays
	rm -rf .venv benchmarks/.venv .pytest_cache .ruff_cache
