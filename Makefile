# Needs python3 (3.11 or newer) and a C++ compiler; all else goes into .venv. `make` lists what there is.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done || echo python3)
PROMPT ?= Write a short story about a fox who learns to share.
SETUP := -m recycle_cpp.setup
BIN := .venv/bin

export PROMPT

.PHONY: help demo setup check format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up if needed, then let the built-in model write something (PROMPT='...' for your own)"
	@echo "make setup   only set up: .venv, llama.cpp built for this machine, recycle-cpp, the default model"
	@echo "make check   all checks: formatting, linting, types, tests"
	@echo "make format  format the code and apply the linter's safe fixes"
	@echo "make clean   remove .venv and the tools' caches (built wheels stay in the user's cache)"

setup:
	@$(PYTHON) $(SETUP)

demo: setup
	@echo "> $$PROMPT"
	@$(BIN)/recycle-cpp generate -p "$$PROMPT" --max-tokens 120

check:
	@$(PYTHON) $(SETUP) --dev
	@echo "== formatting" && $(BIN)/ruff format --check --quiet .
	@echo "== linting" && $(BIN)/ruff check --quiet .
	@echo "== types" && $(BIN)/mypy
	@echo "== tests" && $(BIN)/pytest -q

format:
	@$(PYTHON) $(SETUP) --dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
