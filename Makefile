# Two commands for a fresh machine: `make demo` and `make test`. Both set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RECIPE ?= bible-modern-english
DEMO ?= demo/$(RECIPE)

.PHONY: demo test lint multi30k bench-positions clean

# The pin of torch comes first, so that nothing pulls another build of it.
$(BIN)/locant: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(BIN)/locant
	rm -rf $(DEMO)
	$(BIN)/locant train $(RECIPE) --output $(DEMO)
	$(BIN)/locant evaluate $(DEMO)
	$(BIN)/locant report $(DEMO) --output $(DEMO).html
	@echo "Open $(DEMO).html in a browser. Next: $(BIN)/locant translate $(DEMO) \"Thou hast spoken well.\""
	@echo "or a language pair, which takes hours: make demo RECIPE=bible-spanish-english"

lint: $(BIN)/locant
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

test: lint
	$(BIN)/pytest --numprocesses 2

# Slow: trains for 58 minutes. MULTI30K=folder with train.en.gz, train.de.gz, val.en.gz and val.de.gz
multi30k: $(BIN)/locant
	$(BIN)/locant train multi30k-en-de corpus.folder=$(MULTI30K) --output runs/multi30k-en-de
	$(BIN)/locant evaluate runs/multi30k-en-de
	$(BIN)/locant report runs/multi30k-en-de

# An environment of its own, with the peers. Nothing else should run meanwhile; takes about half an hour.
.venv-bench/bin/locant: pyproject.toml constraints.txt benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --constraint constraints.txt torch
	.venv-bench/bin/pip install --quiet --constraint constraints.txt --editable . --requirement benchmarks/requirements.txt
	@touch $@

bench-positions: .venv-bench/bin/locant
	.venv-bench/bin/python benchmarks/positions/precision.py
	.venv-bench/bin/python benchmarks/positions/cache_safety.py
	.venv-bench/bin/python benchmarks/positions/rotation.py
	.venv-bench/bin/python benchmarks/positions/score_bias.py

clean:
	rm -rf demo $(VENV) .venv-bench
