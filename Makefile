# Two commands for a fresh machine: `make demo` and `make test`. Both set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RECIPE ?= bible-modern-english
DEMO ?= demo/$(RECIPE)
DISTILLATION ?= runs/distillation

# Where the environment forbids __pycache__ folders, what Python compiles lies in .venv: else every process would compile
# PyTorch anew, and take twice as long to start.
ifdef PYTHONDONTWRITEBYTECODE
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/pycache
endif

.PHONY: demo test tests test-slow lint sanitize variants chaos wheel site lab-smoke multi30k quality quality-changes alignments glossaries chapters distillation bench bench-kernels bench-contention bench-serve bench-scale bench-positions bench-gpu test-gpu adaptation defaults lock audit clean

# The pin of torch comes first, so that nothing pulls another build of it. Python compiles what is imported by itself;
# compiling all that pip installs would take a minute.
$(VENV)/dev: pyproject.toml constraints.txt
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt torch
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	@touch $@

# What the demo needs of it; `make test` brings the rest.
$(VENV)/demo: pyproject.toml constraints.txt
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt torch
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[corpora,report]'
	@touch $@

demo: $(VENV)/demo
	rm -rf $(DEMO)
	$(BIN)/locant train $(RECIPE) --output $(DEMO)
	$(BIN)/locant evaluate $(DEMO)
	$(BIN)/locant report $(DEMO) --output $(DEMO).html
	@echo "Open $(DEMO).html in a browser. Next: $(BIN)/locant translate $(DEMO) \"Thou hast spoken well.\""
	@echo "or a language pair, which takes half an hour: make demo RECIPE=bible-german-english"

lint: $(VENV)/dev
	$(BIN)/ruff check src tests site examples tools/prose.py tools/api_page.py tools/settings_page.py
	$(BIN)/ruff format --check src tests site examples tools/prose.py tools/api_page.py tools/settings_page.py
	$(BIN)/python tools/prose.py
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/mypy

# All checks but the slow tests. Installs nothing but .venv. mypy, which has one thread, works while the tests begin.
test: $(VENV)/dev
	$(MAKE) --no-print-directory --jobs 2 lint tests

# Four processes that begin at once would each compile all that they import; one does so before, while lint has the other core.
$(VENV)/compiled: $(VENV)/dev
	-@$(BIN)/pytest --collect-only --quiet > /dev/null
	@touch $@

# Where there is no chromium the tests in a browser are skipped, and the last line says so. A process takes neighbouring
# tests as long as it can (worksteal), so that what a module's tests share is rarely made twice. There are two more than
# two cores need, because tests wait: for browsers, servers and processes that they start.
tests: $(VENV)/compiled
	$(BIN)/pytest -m "not slow" --numprocesses 4 --dist worksteal

# The tests that `make test` leaves out: small trainings to a score, what torch compiles, wheels, pages that train, sweeps over
# all classes, the rest of the cases of which it takes some, and properties with four times as many examples.
PROPERTIES := tests/extension/test_any_json.py tests/extension/test_source.py tests/server/test_translate_route.py \
  tests/translation/test_compiled_transformer.py tests/translation/test_terms.py
test-slow: $(VENV)/compiled
	$(BIN)/pytest -m slow --numprocesses 3 --dist worksteal
	LOCANT_EXAMPLES=4 $(BIN)/pytest -m "not slow" --numprocesses 2 --dist worksteal $(PROPERTIES)

# The kernels under GCC's sanitizers: random calls of their C interface, then their tests in Python. Takes some minutes.
KERNELS := src/locant/kernels
KERNEL_TESTS := tests/kernels/test_kernels_against_torch.py tests/kernels/test_border.py \
  tests/translation/test_compiled_transformer.py tests/translation/test_compiled_border.py \
  tests/translation/test_compiled_search.py tests/translation/test_continuous_search.py
# Without those that build kernels of their own, and of another engine.
OF_KERNELS := not random_calls and not ctranslate2
NATIVE := tests/kernels/native
SANITIZED := build/sanitize
SANITIZE := g++ -std=c++17 -O1 -g -march=native -fopenmp-simd -pthread -DLOCANT_LEAST_WORK=1 -DLOCANT_JUDGED=0 -I $(KERNELS)
FAULTS := -fsanitize=address,undefined -fno-sanitize-recover=all
EMULATED := -include $(NATIVE)/emulated_avx512.h -DLOCANT_EMULATED_TILES -I $(NATIVE) -Wno-psabi
sanitize: $(VENV)/dev
	rm -rf $(SANITIZED) && mkdir -p $(SANITIZED)
	$(SANITIZE) $(FAULTS) $(NATIVE)/fuzz.cpp $(KERNELS)/*.cpp -o $(SANITIZED)/address
	$(SANITIZED)/address 1 500
ifeq ($(shell uname -m),x86_64)
	$(SANITIZE) $(FAULTS) $(EMULATED) $(NATIVE)/fuzz.cpp $(KERNELS)/*.cpp -o $(SANITIZED)/tiles
	$(SANITIZED)/tiles 1 100
endif
	$(SANITIZE) -fsanitize=thread $(NATIVE)/fuzz.cpp $(KERNELS)/*.cpp -o $(SANITIZED)/thread
	$(SANITIZED)/thread 1 100
	CXX=$(abspath $(NATIVE))/sanitizing-c++ XDG_CACHE_HOME=$(abspath $(SANITIZED)) ASAN_OPTIONS=detect_leaks=0 \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so) $$(g++ -print-file-name=libstdc++.so.6)" \
	$(BIN)/pytest $(KERNEL_TESTS) -k '$(OF_KERNELS)'

# The tests of the kernels with every variant of a wheel that this processor runs, by the compiler of this machine, and those of
# the translation engine with AVX-512 and AMX that are emulated; some minutes each.
VARIANTS := build/variants
variants: $(VENV)/dev
	$(BIN)/pytest tests/kernels/test_vectorised.py
	rm -rf $(VARIANTS) && $(BIN)/pip install --quiet --no-deps --no-build-isolation --target $(VARIANTS) .
	export PYTHONPATH=$(abspath $(VARIANTS)); \
	for variant in $$($(BIN)/python -c "from locant.kernels.library import choose; print(*choose().runs)"); do \
	  echo "$$variant"; \
	  LOCANT_KERNELS_VARIANT=$$variant $(BIN)/pytest $(KERNEL_TESTS) -k '$(OF_KERNELS)' || exit 1; \
	done
ifeq ($(shell uname -m),x86_64)
	@echo "emulated AVX-512 and AMX"
	CXX=$(abspath $(NATIVE))/emulating-c++ XDG_CACHE_HOME=$(abspath $(VARIANTS)) \
	$(BIN)/pytest tests/translation/test_compiled_*.py tests/translation/test_continuous_search.py -k '$(OF_KERNELS)'
endif

# Slow: some minutes. Wheels with compiled kernels for Linux on x86-64 and aarch64, in dist, by Zig, which brings what it
# takes to build for both; then their tests. Those of aarch64 want qemu-user-static and libc6-arm64-cross, else they are skipped.
.venv-wheel/bin/auditwheel:
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet auditwheel ziglang

wheel: $(VENV)/dev .venv-wheel/bin/auditwheel
	rm -rf dist && mkdir dist
	for architecture in x86_64 aarch64; do \
	  CXX="$(CURDIR)/.venv-wheel/bin/python -I -m ziglang c++ -target $$architecture-linux-gnu.2.28" \
	  LOCANT_WHEEL_PLATFORM=manylinux_2_28_$$architecture .venv-wheel/bin/pip wheel --no-deps --wheel-dir dist . || exit 1; \
	done
	PATH="$(CURDIR)/.venv-wheel/bin:$$PATH" LOCANT_WHEELS=dist $(BIN)/pytest tests/packaging

# The translation engines for browsers, of this checkout; in the user's cache folder, where `locant export --to web` takes it.
.PHONY: web
web: $(VENV)/dev
	$(BIN)/python -c "from locant.kernels.web_engine import engine_modules; engine_modules()"

# Fifty kills at random moments of preparation, training, validation, averaging and exporting; takes some minutes.
KILLS ?= 50
chaos: $(VENV)/dev
	LOCANT_KILLS=$(KILLS) LOCANT_KILLS_SEED=$${LOCANT_KILLS_SEED:-$$(date +%s)} $(BIN)/pytest -s tests/training/test_kills.py

# README, docs, figures and docstrings as a site in build/site/html, its links checked. Fetches nothing but its packages.
site: $(VENV)/dev
	$(BIN)/python site/make_site.py build/site

# Slow: trains for 20 minutes. MULTI30K=folder with train.en.gz, train.de.gz, val.en.gz and val.de.gz
multi30k: $(VENV)/dev
	$(BIN)/locant train multi30k-en-de corpus.folder=$(MULTI30K) --output runs/multi30k-en-de
	$(BIN)/locant evaluate runs/multi30k-en-de
	$(BIN)/locant report runs/multi30k-en-de

# Slow: three trainings of nine minutes. A teacher, its student, and the student's model without a teacher; ends with a table.
distillation: $(VENV)/dev
	rm -rf $(DISTILLATION)
	$(BIN)/locant train bible-modern-english --output $(DISTILLATION)/teacher
	$(BIN)/locant generate $(DISTILLATION)/teacher --corpus $(DISTILLATION)/teacher --output $(DISTILLATION)/distilled
	$(BIN)/locant train bible-modern-english-student corpus.folder=$(DISTILLATION)/distilled --output $(DISTILLATION)/student
	$(BIN)/locant train bible-modern-english model.decoder_layers=1 --output $(DISTILLATION)/undistilled
	$(BIN)/python benchmarks/distillation.py $(DISTILLATION)

# Slow: 23 minutes, of which 9 are the demonstration's. Nothing else should run meanwhile.
adaptation: $(VENV)/dev
	$(BIN)/python benchmarks/adaptation.py runs/adaptation

# An environment of its own, with the peers. Nothing else should run meanwhile; takes about half an hour.
.venv-bench/bin/locant: pyproject.toml constraints.txt benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --constraint constraints.txt torch
	.venv-bench/bin/pip install --quiet --constraint constraints.txt --editable '.[corpora,ctranslate2]' --requirement benchmarks/requirements.txt
	@touch $@

bench-positions: .venv-bench/bin/locant
	.venv-bench/bin/python benchmarks/positions/precision.py
	.venv-bench/bin/python benchmarks/positions/cache_safety.py
	.venv-bench/bin/python benchmarks/positions/rotation.py
	.venv-bench/bin/python benchmarks/positions/score_bias.py
	.venv-bench/bin/python benchmarks/positions/layer_kinds.py

# On a machine with a CUDA GPU, by a Python that has a CUDA build of PyTorch and Locant: PYTHON=python3
test-gpu:
	$(PYTHON) -m pytest -n 6 tests/gpu

bench-gpu:
	$(PYTHON) benchmarks/positions/rotation.py --device cuda
	$(PYTHON) benchmarks/positions/score_bias.py --device cuda
	$(PYTHON) benchmarks/speed/batch_sizes.py --device cuda

# Every task of the lab with two schemes, in minutes.
lab-smoke: $(VENV)/dev
	rm -rf lab-smoke && mkdir lab-smoke && cat README.md docs/*.md > lab-smoke/text.txt
	$(BIN)/locant compare --task length-generalisation --schemes none,rotary --seeds 1 --steps 100 --test-lengths 5,10,15,20 -o lab-smoke/lengths
	$(BIN)/locant compare --task language-modelling --schemes none,rotary --seeds 1 --steps 100 --text lab-smoke/text.txt test_characters=2048 -o lab-smoke/text
	$(BIN)/locant compare --task context-extension --schemes none,yarn --seeds 1 --steps 100 --text lab-smoke/text.txt test_characters=2048 fine_tune_steps=20 -o lab-smoke/extension
	$(BIN)/locant compare --task translation --schemes sinusoidal,rnn --seeds 1 --steps 20 --train-length 32 'changes=[corpus.test_chapters=5]' -o lab-smoke/translation

# The table of defaults that readers of config.json use where transformers is missing, made from the installed transformers.
defaults: $(VENV)/dev
	$(BIN)/python tools/rotary_defaults.py

# What helps a small translator in the same time; takes hours. MULTI30K=folder as above
quality: $(VENV)/dev
	$(BIN)/python benchmarks/quality/run.py benchmarks/quality/multi30k.yaml --set corpus.folder=$(MULTI30K) --output quality-multi30k.jsonl
	$(BIN)/python benchmarks/quality/run.py benchmarks/quality/bible.yaml --output quality-bible.jsonl

# Single changes of the demonstration, each in five minutes of processor time on one thread, and one after the other in two
# and a half hours; other work beside it lengthens that and nothing else. CHANGES="none r-drop" takes some of them.
quality-changes: $(VENV)/dev
	$(BIN)/python benchmarks/quality/run.py benchmarks/quality/changes.yaml --threads 1 $(if $(CHANGES),--only $(CHANGES)) --output quality-changes.jsonl

# Word alignments of a run with a test text against those of eflomal, which pip compiles. RUN=folder
.venv-align/bin/locant: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-align
	.venv-align/bin/pip install --quiet --constraint constraints.txt torch
	.venv-align/bin/pip install --quiet --constraint constraints.txt --editable '.[alignment,corpora]'
	@touch $@

RUN ?= demo/bible-german-english
alignments: .venv-align/bin/locant
	.venv-align/bin/python benchmarks/quality/alignments.py $(RUN)

# The test chapters of a run on the Bible as documents, next to their sentences translated by hand. RUN=folder
chapters: $(VENV)/dev
	$(BIN)/python benchmarks/quality/chapters.py $(RUN)

# How many terms of glossaries are in translations and what they cost in BLEU, of a run with a test text. RUN=folder
glossaries: $(VENV)/dev
	$(BIN)/python benchmarks/quality/glossaries.py $(RUN)

# Training, also on real text, and translating, side by side with the peers; takes hours. One round each (--rounds 1) is 45 minutes.
bench: .venv-bench/bin/locant
	.venv-bench/bin/python benchmarks/speed/run.py training
	.venv-bench/bin/python benchmarks/speed/run.py text
	.venv-bench/bin/python benchmarks/speed/run.py translation

# What each C++ kernel saves of a training step; takes about half an hour.
bench-kernels: $(VENV)/dev
	$(BIN)/python benchmarks/speed/run.py kernels --rounds 5 --seconds 15 --output kernels.json

# The same beside a process that keeps a core busy, and under a quota; takes about half an hour.
bench-contention: .venv-bench/bin/locant
	.venv-bench/bin/python benchmarks/speed/run.py contention --rounds 1 --seconds 5 --output contention.json

# Preparation of 1, 4 and 16 million pairs; ends in at most MINUTES and takes 10 GB of disk. Without MULTI30K=folder the text
# is from Bibles.
MINUTES ?= 12
bench-scale: $(VENV)/dev
	$(BIN)/python benchmarks/scale/run.py $(if $(MULTI30K),--folder $(MULTI30K)) --minutes $(MINUTES) --output docs/results/scale.json

# Exported pages in Node, Chromium and Firefox against the native engine, on one thread, in at most six minutes; nothing else
# should run meanwhile. MODELS="runs/one runs/two", the demonstration by default; TEXT=file where a model's run has no test
.PHONY: bench-web
bench-web: $(VENV)/dev
	$(BIN)/python benchmarks/web/run.py $(MODELS) $(if $(TEXT),--text $(TEXT))

# Exact versions of all that Locant is developed with, what others bring along included, as .venv holds them.
lock: $(VENV)/dev
	echo "# Written by \`make lock\`; \`make audit\` looks these up." > locked.txt
	$(BIN)/pip freeze --all --exclude-editable | sed -e 's/+.*//' -e '/^pip==/d' >> locked.txt

# Known faults of these, by pip-audit in an environment of its own; asks PyPI over the network, and fails where it does not
# answer for each of them.
.venv-audit/bin/pip-audit:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/pip install --quiet 'pip-audit>=2.10'

audit: .venv-audit/bin/pip-audit
	.venv-audit/bin/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement locked.txt

# Load on locant serve at 1 to 256 clients, on the loopback address, beside LibreTranslate with the same weights in an
# environment of its own, and two minutes of overload. Ends by itself, in about 20 minutes a model. MODELS="runs/one runs/two";
# SERVE="--seconds 8 --overload 30" takes a third of that. Where LibreTranslate cannot be installed, the rest is measured. The
# clients are those of wrk, a package of the system.
MODELS ?= $(DEMO)
.venv-serve/bin/locant: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-serve
	.venv-serve/bin/pip install --quiet --constraint constraints.txt torch
	.venv-serve/bin/pip install --quiet --constraint constraints.txt --editable '.[serve,argos,corpora]' psutil
	@touch $@

.venv-libretranslate/bin/libretranslate: constraints.txt
	$(PYTHON) -m venv .venv-libretranslate
	.venv-libretranslate/bin/pip install --quiet --constraint constraints.txt torch libretranslate spacy
	@touch $@

bench-serve: .venv-serve/bin/locant
	-$(MAKE) .venv-libretranslate/bin/libretranslate
	.venv-serve/bin/python benchmarks/serve/run.py $(MODELS) --libretranslate .venv-libretranslate/bin/libretranslate $(SERVE)

clean:
	rm -rf demo lab-smoke build/site build/scale dist $(VENV) .venv-align .venv-bench .venv-wheel .venv-serve .venv-libretranslate .venv-audit
