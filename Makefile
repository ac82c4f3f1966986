# Everything a checkout needs is made here; PYTHON may name any Python from 3.11 on.
PYTHON ?= python3
# Processes that share the tests: one a core, or as many as WORKERS says, 0 for none.
WORKERS ?= auto
# Tests of a file share what takes long, so a file is one process's; tests/conftest.py says in which
# order files come. One run collects once and leaves no core idle between its parts.
# Which tests `make test` runs, by their marks; empty for every test there is.
PART ?= not (faults or thorough)
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

VENV := .venv
BIN := $(VENV)/bin
# What is never imported need not be compiled to bytecode: of PyTorch and its like that is most.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -q --no-compile -c constraints.txt
# What is imported is compiled once, whatever the machine says: tests start hundreds of processes,
# and without bytecode each spends seconds on reading sources.
unexport PYTHONDONTWRITEBYTECODE
SITE := $(BIN)/python -m sphinx -W --keep-going -n -q -b html -c docs/site -d build/site-trees docs build/site
# Stamps: set-up is done again only when the requirements have changed.
CORE := $(VENV)/.installed
TEST := $(VENV)/.installed-test

.DEFAULT_GOAL := help
.PHONY: help demo test pytest quick faults thorough coverage check format tree docs release bench bridges clean

help:  ## list what can be made
	@grep -E '^[a-z]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:[^#]*## +/\t/' | expand -t 10

demo: $(CORE)  ## set up, run an experiment on generated data, and end with the path of its report
	$(BIN)/fmpair demo

# `make -j2 test` runs the checks, which take one core, beside the tests.
test: check pytest  ## set up, then run every check and every test but faults and thorough ones

pytest: $(TEST)
	$(PYTEST) -m "$(PART)"

quick: check  ## what to run before a commit: every check, and the quick tests
	$(PYTEST) -m "not (slow or realdata or faults or thorough)"

faults: $(TEST)  ## kill runs, break files: nothing finished may be lost
	$(PYTEST) -m faults $$(grep -rl --include="*.py" "mark\.faults" tests)

thorough: $(TEST)  ## measure quality on public data and over many seeds, which takes minutes
	$(PYTEST) -m thorough $$(grep -rl --include="*.py" "mark\.thorough" tests)

# Into an empty cache: what writes the kernels runs only when they are compiled.
coverage: $(TEST)  ## measure which lines the tests run; build/coverage.txt lists those they do not
	rm -rf build/coverage && mkdir -p build/coverage
	FMPAIR_CACHE=$(CURDIR)/build/coverage $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --cov --cov-report=
	$(BIN)/coverage report --show-missing --skip-covered > build/coverage.txt
	@tail -n 1 build/coverage.txt

check: $(TEST)  ## format, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(TEST)  ## rewrite the sources in the common format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

tree:  ## every module, with the first line of its docstring
	@grep -m1 -H '^"""' $$(git ls-files 'src/*.py') | sed -E 's/^src\/([^:]*):"""(.*)/\1\t\2/; s/"""$$//' | expand -t 44

docs: $(TEST)  ## the site of docs/ into build/site: no network, and no warning
	$(SITE)
	@echo build/site/index.html

# Built apart from the checkout's environment, installed into one with nothing else, and listed.
release: .venv-release/.installed  ## build and check dist/: source archive, wheel, the core's parts
	rm -rf dist build/release
	.venv-release/bin/python -m build -q
	.venv-release/bin/python release/check.py dist
	.venv-release/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt dist/*.whl
	build/release/bin/fmpair --version
	$(PYTHON) release/sbom.py build/release/bin/python > dist/fmpair.cdx.json
	@ls dist

.venv-release/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt build twine
	@touch $@

bench: $(CORE)  ## time training and ranking on this machine
	$(BIN)/python benchmarks/run.py

bridges: .venv-bridges/.installed  ## set up the bridged libraries apart, and hold their models to the tests
	.venv-bridges/bin/python -m pytest tests/bridges tests/models/test_contract.py tests/integration/test_agreement.py
	.venv-bridges/bin/python -m pytest tests/integration/test_docs.py -k "coming_from or bridges"

.venv-bridges/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-bridges
	.venv-bridges/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt \
	  -e '.[test,implicit,lightfm,cornac,myfm]'
	@touch $@

clean:  ## back to a fresh checkout: the environment and all caches go
	rm -rf $(VENV) .venv-bridges .venv-release build dist .pytest_cache .coverage .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip comes last into a new environment, so its presence says that the environment is whole.
# That of an older Python takes a minute to compare the requirements, a new one twenty seconds.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("fmpair needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -U pip

$(CORE): pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) -e '.[report]'
	@touch $@

$(TEST): pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) -e '.[test]'
	@touch $(CORE) $@
