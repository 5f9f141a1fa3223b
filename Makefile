# `make demo` and `make test` are all a newcomer needs; both set everything up first.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# The +cpu build by name: a plain "torch" would bring several gigabytes of CUDA libraries.
TORCH ?= torch==2.13.0+cpu
PIP := $(PY) -m pip --disable-pip-version-check
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

CPP := $(shell find csrc -name '*.cpp' -o -name '*.h' | sort)
GENERATORS := $(wildcard csrc/codegen/*.py) torch_trainium/hardware/data/operator_classes.toml
say = printf '\n\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help setup browser demo test test-hf test-architectures stress conformance conformance-compile conformance-lowering accuracy calibrate lint format headers-2.14 clean

help:
	@echo 'make setup         create .venv with everything installed and the extension built'
	@echo 'make browser       install a headless Chromium for the tests of the HTML report, if there is none'
	@echo 'make demo          set up and train both examples on the neuron device'
	@echo 'make test          set up and run the tests'
	@echo 'make test-hf       the tests that load and fine-tune a pretrained model'
	@echo 'make test-architectures  the tests that train fourteen architectures in every mode'
	@echo 'make stress        the tests that repeat one thing hundreds of times'
	@echo 'make conformance   every case of the PyTorch case databases; writes docs/conformance.md'
	@echo 'make calibrate     fits the free constants of the cost model to the measurements'
	@echo 'make accuracy      predicted against published times; writes docs/accuracy.md; MEASURED=rows.csv'
	@echo 'make conformance-compile   operators and their gradients as graphs of torch.compile; writes docs/compile_conformance.md'
	@echo 'make conformance-lowering  operators and their gradients as compiled programs; writes docs/lowering_conformance.md'
	@echo 'make lint          ruff, mypy --strict, clang-format'
	@echo 'make format        let ruff and clang-format rewrite the sources'
	@echo 'make headers-2.14  compile and link csrc against PyTorch 2.14 (fetches its CUDA build)'
	@echo 'make clean         remove .venv and every build product'

setup: $(VENV)/.ready

$(VENV)/.torch:
	@$(call say,Creating $(VENV) with PyTorch)
	$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Python 3.11 or newer is needed, found {v.major}.{v.minor}; try make PYTHON=python3.11")'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install --progress-bar off --only-binary :all: -c requirements/constraints.txt '$(TORCH)' || {
	  echo
	  echo 'Found no package $(TORCH). It is the CPU build of PyTorch, which has an index of its own:'
	  echo 'pass the one that PyTorch names for "pip, CPU" as PIP_EXTRA_INDEX_URL and run make again.'
	  echo 'To accept another build, which may bring CUDA: make TORCH=torch==2.13.0'
	  exit 1
	}
	touch $@

$(VENV)/.packages: $(VENV)/.torch pyproject.toml requirements/constraints.txt
	@$(call say,Installing what the examples and the tests and the linters use)
	$(PY) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); print(*p["build-system"]["requires"], *sum(p["project"]["optional-dependencies"].values(), []), sep="\n")' > $(VENV)/packages.txt
	$(PIP) install --progress-bar off -c requirements/constraints.txt -r $(VENV)/packages.txt '$(TORCH)'
	touch $@

$(VENV)/.ready: $(VENV)/.packages setup.py $(CPP) $(GENERATORS)
	@$(call say,Building the extension)
	# The first command shows progress and keeps objects; the second finds them and installs.
	$(PY) setup.py --quiet build_ext --inplace 2>&1 | awk '
	  /^\[[0-9]+\/[0-9]+\] / { match($$0, /csrc\/[^ ]*\.cpp/); print "  " $$1, substr($$0, RSTART, RLENGTH); fflush(); next }
	  { print; fflush() }'
	$(PIP) install --quiet --no-build-isolation --no-deps --editable .
	touch $@

# From Debian's packages: Python's have no browser in them, only programs that download one.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null && exit
	$(call say,Installing Chromium)
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends chromium

demo: setup
	@$(call say,Training a CNN on handwritten digits)
	$(PY) examples/train_digits.py --device neuron --require-accuracy 0.97
	$(call say,Training a small GPT on the source of the standard library)
	$(PY) examples/train_gpt.py --device neuron --require-bits 2.7

test: setup
	@$(call say,Running the tests)
	$(PY) -m pytest $(PYTEST_ARGS)

test-hf: setup
	@$(call say,Fine-tuning a pretrained sentence encoder)
	$(PY) -m pytest tests/examples -m hf $(PYTEST_ARGS)

test-architectures: setup
	@$(call say,Training fourteen architectures)
	$(PY) -m pytest tests/benchmarks -m architectures $(PYTEST_ARGS)

stress: setup
	@$(call say,Repeating what goes wrong seldom)
	$(PY) -m pytest -m stress $(PYTEST_ARGS)

conformance: setup
	@$(call say,Running every conformance case)
	$(PY) -m tests.conformance.run --all

calibrate: setup
	@$(call say,Fitting the cost model)
	TORCH_TRAINIUM_ENABLE=0 $(PY) -m accuracy.calibrate

accuracy: setup
	@$(call say,Predicting every published measurement)
	TORCH_TRAINIUM_ENABLE=0 $(PY) -m accuracy.report $(if $(MEASURED),--measured $(MEASURED)) $(if $(OUTPUT),--output $(OUTPUT))

conformance-compile: setup
	@$(call say,Running every operator under torch.compile)
	$(PY) -m tests.compile.conformance --jobs 2 --write

conformance-lowering: setup
	@$(call say,Running every operator as a compiled program)
	$(PY) -m tests.lowering.conformance --jobs 2 --write
	$(PY) -m tests.lowering.touched --jobs 2 --write-table
	$(PY) -m tests.lowering.device_operators --write-table
	$(PY) -m torch_trainium.lowering --write

lint: $(VENV)/.packages
	@$(call say,Checking style and types)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/clang-format --dry-run -Werror $(CPP)

format: $(VENV)/.packages
	@$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(VENV)/bin/clang-format -i $(CPP)

headers-2.14: $(VENV)/.packages
	@$(call say,Compiling and linking against PyTorch 2.14)
	$(PY) .ci/link_against.py torch==2.14.1

clean:
	rm -rf .venv build *.egg-info torch_trainium/_C*.so
