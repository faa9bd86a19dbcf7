# Everything sets itself up in .venv on a machine that has only python3 (3.11 or later) and make.
# Another version, in a clone of its own or after `make clean`: make PYTHON=python3.13 test
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check bench gallery soak browser sdks package mutants docs format clean

demo: .venv/dev
	$(BIN)/python examples/models.py --out report
	@echo
	$(BIN)/python examples/news.py --out report

test: check
	$(BIN)/python -m pytest -n 2

check: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/bench .venv/browser
	$(BIN)/python -m benchmarks.run $(BENCH)

gallery: .venv/browser
	$(BIN)/python -m examples.gallery

soak: .venv/soak .venv/browser .venv/docs .venv/sdks .venv/gymnasium
	$(BIN)/python -m pytest -m soak -rs

browser: .venv/browser .venv/docs
	$(BIN)/python -m pytest tests/browser -m 'soak or not soak' -rs

sdks: .venv/sdks
	$(BIN)/python -m pytest tests/sdks -m 'soak or not soak' -rs

package: .venv/dev
	rm -rf dist
	$(BIN)/hatchling build
	$(BIN)/python -m pytest tests/package -m 'soak or not soak' -rs

mutants: .venv/mutants
	cd tests && ../$(BIN)/python -m mutation $(MODULES)

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: .venv/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv site report dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "oddsmith needs Python 3.11 or later; got $$($(PYTHON) --version). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/dev: .venv/python requirements/dev.txt pyproject.toml
	$(PIP) -r requirements/dev.txt
	$(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

.venv/bench: .venv/dev requirements/bench.txt requirements/models.txt requirements/obp.txt
	$(PIP) -r requirements/bench.txt -r requirements/models.txt
	$(PIP) --no-deps -r requirements/obp.txt
	@touch $@

.venv/soak: .venv/dev requirements/soak.txt
	$(PIP) -r requirements/soak.txt || echo "some engines could not be installed; their tests are skipped by name"
	@touch $@

.venv/browser: .venv/dev requirements/browser.txt
	$(PIP) -r requirements/browser.txt || echo "Playwright could not be installed; tests in a browser are skipped by name"
	@touch $@

.venv/gymnasium: .venv/dev requirements/gymnasium.txt
	$(PIP) -r requirements/gymnasium.txt || echo "Gymnasium could not be installed; its tests are skipped by name"
	@touch $@

.venv/sdks: .venv/dev requirements/sdks.txt
	$(PIP) -r requirements/sdks.txt || echo "the clients of others could not be installed; their tests are skipped by name"
	@touch $@

.venv/mutants: .venv/dev requirements/mutants.txt
	$(PIP) -r requirements/mutants.txt
	@touch $@

.venv/docs: .venv/dev requirements/docs.txt
	$(PIP) -r requirements/docs.txt
	@touch $@
