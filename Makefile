# Two commands for a newcomer: `make demo` and `make test`. PIP_ARGS passes your own pip options.
PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
JOBS ?= 2
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet -c constraints.txt $(PIP_ARGS)

.PHONY: demo test check bench torture docs clean

demo: $(VENV)/base
	$(BIN)/fallline run muonmax-momo-text --scale demo --jobs $(JOBS) || [ $$? -le 2 ]

test: $(VENV)/all
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: $(VENV)/all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/bench
	for script in benchmarks/bench_*.py; do OMP_NUM_THREADS=1 $(BIN)/python $$script || exit 1; done

torture: $(VENV)/all
	$(BIN)/python tests/study/torture.py --rounds 200

docs: $(VENV)/all
	$(BIN)/mkdocs serve

clean:
	rm -rf $(VENV) site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# pip knows dependency groups from 25.1 on.
$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) 'pip>=25.1'
	touch $@

$(VENV)/base: $(VENV)/pip pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

$(VENV)/all: $(VENV)/pip pyproject.toml constraints.txt
	$(PIP) -e '.[all]' --group dev
	touch $@ $(VENV)/base

$(VENV)/bench: $(VENV)/all
	$(PIP) --group bench
	touch $@
