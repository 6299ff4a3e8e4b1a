# narrated: what there is to do here. `make help` lists it.
PYTHON ?= python3
VENV ?= .venv
VIDEO ?=
SERVE ?=
# Tests run side by side, in two processes for each core (many wait for servers) and six at most; one after another
# with WORKERS=0.
WORKERS ?= $(shell echo $$(( $$(nproc) * 2 )))
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Those left out start servers and processes, and wait for them.
QUICK := tests/models tests/pipeline --ignore=tests/pipeline/publisher \
  $(addprefix --ignore=tests/pipeline/sources/test_,rtsp.py decode.py clock.py video.py)
SIDE_BY_SIDE := -n $(WORKERS) --maxprocesses 6 --dist worksteal

# Set by some containers; then every process of the tests would compile what it imports: seven seconds each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick test-overloaded test-deb check deb bench bench-quality soak mutants messages clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "narrated needs Python 3.11 or newer; say which one: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The kernels are compiled while it is installed; without a compiler numba does so when they are first called.
$(VENV)/.demo: pyproject.toml constraints.txt $(wildcard pipeline/kernels/*.py) | $(BIN)/python
	$(PIP) --editable '.[embedded,serve]'
	@$(BIN)/python -c 'from pipeline.kernels import are_compiled_ahead as ahead; raise SystemExit(not ahead())' || \
	  $(PIP) numba
	@touch $@

# torch goes first and pinned: a bare `torch` that another package asks for may bring gigabytes of CUDA.
$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo  ## narrate a real surveillance clip and show it (VIDEO=path: another one; SERVE=0: no page)
	$(BIN)/narrated demo $(if $(VIDEO),'$(VIDEO)') --out demo $(if $(filter 0,$(SERVE)),--no-serve)

test: $(VENV)/.dev  ## the whole test suite (WORKERS=0: one test after another)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

test-quick: $(VENV)/.dev  ## models and pipeline without training, servers and sockets: under a minute
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" $(QUICK) $(ARGS)

test-overloaded: $(VENV)/.dev  ## the suite beside three busy processes for each core (ARGS=tests/daemon)
	busy=; for each in $$(seq $$(( $$(nproc) * 3 ))); do sh -c 'while :; do :; done' & busy="$$busy $$!"; done; \
	  trap "kill $$busy" EXIT INT TERM; $(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

test-deb: $(VENV)/.dev  ## the Debian package and the container's steps, in a fresh Debian (needs root and debootstrap)
	packaging/test $(ARGS)

deb:  ## a Debian package with everything in it, in build/ (needs python3-venv)
	packaging/deb

check: $(VENV)/.dev  ## style, types and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev  ## speed and memory, side by side with the peers
	@for each in benchmarks/bench_*.py; do echo "## $$each"; $(BIN)/python $$each || failed="$$failed $$each"; done; \
	  if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

bench-quality: $(VENV)/.dev  ## how right the default model is, by the narration benchmark (ARGS='--only tracks')
	$(BIN)/python benchmarks/quality.py $(ARGS)

soak: $(VENV)/.dev  ## a quarter of an hour of mishaps: is anything lost, does anything grow (ARGS='--minutes 2')
	$(BIN)/python benchmarks/soak.py $(ARGS)

mutants: $(VENV)/.dev  ## which one-line bugs do the tests notice (ARGS='--only pairs --each 10')
	$(BIN)/python benchmarks/mutants.py $(ARGS)

messages: $(VENV)/.demo  ## what a translator translates (make -s messages > de.po; see docs/configuration.md)
	@$(BIN)/python packaging/messages.py

clean:  ## the virtual environment, caches and the demo's output
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
