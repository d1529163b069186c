# `make` alone lists the commands. Each one sets up .venv first when it is missing, broken or out of date.

PYTHON ?= python3
ARGS ?=
CONSTRAINTS := constraints.txt
VENV := .venv

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all test-lowest browser coverage lint format bench docs clean FORCE

help:  ## list these commands
	@echo 'Usage: make COMMAND [ARGS="…"] [PYTHON=python3.12]'
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1@/p' $(MAKEFILE_LIST) | awk -F@ '{ printf "  make %-12s %s\n", $$1, $$2 }'

demo: $(STAMP)  ## run the demonstration; pictures and tables go to decond-demo/
	$(BIN)/decond demo --output decond-demo --force $(ARGS)

# The matrices of the suite are small: one BLAS thread is enough, and leaves the cores to the workers of the suite.
TESTS := test test-slow test-lowest coverage
$(TESTS): export OMP_NUM_THREADS = 1
$(TESTS): export OPENBLAS_NUM_THREADS = 1
$(TESTS): export MKL_NUM_THREADS = 1
$(TESTS): export MPLBACKEND = Agg
# The suite starts many processes: they find compiled files, also where the shell tells Python to write none.
$(TESTS): export PYTHONDONTWRITEBYTECODE =
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

test: $(STAMP)  ## run the tests and doctests, except slow ones, e.g. make test ARGS="-k kernels"
	$(PYTEST) -m 'not slow' $(ARGS)

test-slow: $(STAMP)  ## run the slow tests: pages of the documentation, a browser, clusters, killed processes
	$(PYTEST) -m slow $(ARGS)

test-all:  ## run all tests
	$(MAKE) test
	$(MAKE) test-slow

test-lowest:  ## run `make test` with the lowest versions that pyproject.toml allows (PYTHON=python3.11)
	$(MAKE) test VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt

browser:  ## find the Chromium that opens reports in the slow tests; on Debian install it if it is missing
	@tools/browser

coverage: $(STAMP)  ## run all tests and show which lines they miss (half as slow again)
	$(PYTEST) --cov --cov-report=term:skip-covered $(ARGS)

lint: $(STAMP)  ## check format, style, types, the direction of imports and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell --dictionary=- --dictionary=tools/words.txt

format: $(STAMP)  ## repair format and style where a tool can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## run the benchmarks, e.g. make bench ARGS="--help"
	$(BIN)/python -m benchmarks $(ARGS)

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(STAMP)  ## build the documentation into site/ (without network; a warning is an error)
	$(BIN)/mkdocs build --quiet --strict $(ARGS)
	@echo 'Open site/index.html. To search in it too: $(BIN)/python -m http.server --directory site'

clean:  ## remove .venv, caches, builds, site/ and decond-demo/
	rm -rf .venv .venv-lowest .coverage .coverage.* htmlcov build dist site decond-demo
	rm -rf __pycache__ .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .grimp_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp is written last and holds the folder it was made in, and it is read by the environment's own
# interpreter: so a set-up that was interrupted, a folder that was moved or copied, and a Python that is gone
# all count as broken, and the environment is built anew. One that is only out of date is brought up to date.
INTACT := $(filter 1,$(shell $(BIN)/python -c 'import os; print(int(open("$(STAMP)").read() == os.getcwd()))' 2>/dev/null))

ifndef INTACT
$(STAMP): FORCE
endif

# Both names bind the build backend to the constraints too: which one pip heeds depends on its age.
$(STAMP): export PIP_CONSTRAINT = $(CONSTRAINTS)
$(STAMP): export PIP_BUILD_CONSTRAINT = $(CONSTRAINTS)
$(STAMP): pyproject.toml src/decond/__init__.py $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		found=$$($(PYTHON) --version 2>/dev/null || echo 'not there'); \
		echo "decond needs Python 3.11 or newer, but $(PYTHON) is $$found." >&2; \
		echo 'Name another one: make PYTHON=python3.12 …' >&2; exit 1; }
	@echo 'Setting up $(VENV) (a minute or two)…'
	@$(if $(INTACT),:,$(PYTHON) -m venv --clear $(VENV))
	@rm -f $@
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev]'
	@$(BIN)/python -c 'import os; open("$@", "w").write(os.getcwd())'
