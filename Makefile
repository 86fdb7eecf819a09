# Needs Python 3.11 and make. Everything else is installed into .venv by the first target you call.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PARAMS ?= params/tiny.yaml
OUT ?= outputs/demo
VENV := .venv/bin
STUDY_FILE = $(if $(filter file,$(origin PARAMS)),params/sweeps/tiny.yaml,$(PARAMS))
STUDY_OUT = $(if $(filter file,$(origin OUT)),outputs/tiny-study,$(OUT))

.PHONY: help install demo study study-publish study-readme test test-unsloth test-vllm chaos peer-tests lab lab-check cold-start dataset dataset-check dataset-export lint clean soak bench-harness bench-train gpu-check gpu-check-table

help:  ## these lines
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

install:  ## .venv with the versions of environment.yml (CPU set)
	@$(PYTHON) tools/install.py --profile cpu

demo: install  ## base evaluation, RL, evaluation, report; resumes; FRESH=1 starts over
	@$(VENV)/python -m rlmlib.demo --params $(PARAMS) --out $(OUT) $(if $(FRESH),--fresh)

test: install  ## the whole test suite
	@$(VENV)/python -m pytest tests

test-unsloth:  ## the tests of the Unsloth trainer, in a venv of their own (.venv-unsloth)
	@$(PYTHON) tools/install.py --profile unsloth
	@.venv-unsloth/bin/python -m pytest tests/with_unsloth

test-vllm:  ## the tests of the vLLM sampler with vLLM's CPU build, in a venv of their own (.venv-vllm)
	@$(PYTHON) tools/install.py --profile vllm
	@.venv-vllm/bin/python -m pytest tests/with_vllm

chaos: install  ## 166 hostile blocks, and 1,000 rollouts with faults in one of ten of everything
	@CHAOS_ROLLOUTS=1000 $(VENV)/python -m pytest tests/test_chaos.py

peer-tests: install  ## the tests of rlms that any such REPL should pass, against this one (fetches its source)
	@$(VENV)/python tests/peer/run.py

lab-check: install  ## every notebook opened and run in a real JupyterLab in a headless Chromium; pictures in outputs/lab-check
	@$(VENV)/python tests/lab_check.py

lab: install  ## JupyterLab on the notebooks (LAB="--allow-root --no-browser" passes options on)
	$(VENV)/jupyter lab --ServerApp.root_dir="$(CURDIR)" --ServerApp.preferred_dir="$(CURDIR)/notebooks" $(LAB)

soak: install  ## 100 tiny steps killed -9 at 50 random moments must equal an undisturbed run (half an hour)
	@$(VENV)/python tests/soak.py

study: install  ## the whole tiny study: 24 runs, two at a time, then its report; resumes (PARAMS=params/sweeps/FILE OUT=folder: another one)
	@$(VENV)/python -m rlmlib.sweep $(STUDY_FILE) --out $(STUDY_OUT) || test $$? -eq 1  # 1: some runs were stopped, which the report tells
	@$(VENV)/python -m rlmlib.study.report $(STUDY_OUT)

study-publish: install  ## the finished study, small, to outputs/published, and its results into README.md
	@$(VENV)/python -m rlmlib.study.publish $(STUDY_OUT)
	@$(VENV)/python -m rlmlib.study.readme --study outputs/published/$(notdir $(STUDY_OUT))

study-readme: install  ## the results in README.md from the published study
	@$(VENV)/python -m rlmlib.study.readme

cold-start: install  ## rebuild the tiny policy's weights from nothing (OUT=folder to keep the shipped ones)
	@$(VENV)/python -m rlmlib.tiny.cold_start $(if $(filter file,$(origin OUT)),,--out $(OUT))

# PARAMS and OUT as given on the command line; their defaults above are those of the demo
GIVEN_PARAMS = $(if $(filter file,$(origin PARAMS)),,--params "$(PARAMS)")
GIVEN_OUT = $(if $(filter file,$(origin OUT)),,"$(OUT)")

dataset: install  ## recipes of the study-sized data set from public files in DATA=folder (PARAMS=file OUT=folder); resumes; FRESH=1 starts over
	@$(VENV)/python -m rlmlib.tasks.study.build $(GIVEN_PARAMS) $(if $(DATA),--data "$(DATA)") $(if $(GIVEN_OUT),--out $(GIVEN_OUT)) $(if $(FRESH),--fresh)

dataset-check: install  ## the data set in OUT=folder against independent readings of its contexts
	@$(VENV)/python tests/check_dataset.py $(if $(DATA),--data "$(DATA)") $(if $(GIVEN_OUT),--out $(GIVEN_OUT))

dataset-export: install  ## the data set in OUT=folder with its contexts, as parquet files in OUT/parquet
	@$(VENV)/python -m rlmlib.tasks.study.export $(if $(GIVEN_OUT),--dataset $(GIVEN_OUT))

lint: install  ## ruff over code, tests and notebooks
	@$(VENV)/ruff check . && $(VENV)/ruff format --check .

bench-harness: install  ## our REPL beside its peers'; SAVE=1 writes benchmarks/results
	@$(VENV)/python benchmarks/harness.py $(if $(SAVE),--save)

bench-train: install  ## training on the CPU beside TRL, transformers and itself in turns; SAVE=1 writes benchmarks/results
	@$(VENV)/python benchmarks/training.py $(if $(SAVE),--save)

# Not `install`: that is the CPU set.
gpu-check:  ## what needs a GPU, on this machine's; first: python3.11 tools/install.py --profile gpu; REHEARSE=1: tiny, on the CPU
	@test -x $(VENV)/python || { echo "error: no .venv; make it with $(PYTHON) tools/install.py --profile gpu" >&2; exit 2; }
	@$(VENV)/python benchmarks/gpu_check.py $(if $(REHEARSE),--rehearse)

gpu-check-table:  ## the hardware table in README.md from the results of make gpu-check
	@$(VENV)/python benchmarks/gpu_check.py --table

clean:  ## remove the virtual environments and caches; outputs/ stays
	rm -rf .venv .venv-unsloth .venv-vllm unsloth_compiled_cache benchmarks/.venv .pytest_cache .ruff_cache
