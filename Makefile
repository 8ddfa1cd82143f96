# `make ask` and `make test` work on a bare machine with Python 3.11 or newer; the first run installs.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

VENV ?= .venv
BIN := $(VENV)/bin
# torch is named in the same command as everything else: resolved later it may bring several GB of CUDA.
TORCH := torch==2.13.0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

Q ?= Where was Goethe's unmarried partner born?
ARGS ?=
# Through the environment and unexpanded, so that quotes and dollar signs in a question stay what they are.
export TRIPLEWISE_QUESTION := $(value Q)

.PHONY: ask test lint types format studio docs wheel clean help

ask: $(VENV)/.run ## answer a question: make ask Q="Who wrote Dracula?" [ARGS="--preset oda"]
	@$(BIN)/triplewise ask "$$TRIPLEWISE_QUESTION" $(ARGS)

test: $(VENV)/.dev ## run the tests, in two processes; with ARGS a part of them, in one
	@$(BIN)/python -m pytest $(or $(ARGS),-n 2 --dist loadfile --max-worker-restart 0)

lint: $(VENV)/.dev ## ruff: rules and formatting; vulture: code that nothing uses
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/vulture

format: $(VENV)/.dev ## put the code into ruff's format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(VENV)/.dev ## mypy, strict, over all layers and the tests
	@$(BIN)/mypy

studio: $(VENV)/.dev ## serve every preset to LangGraph Studio on http://127.0.0.1:2024
	@LANGGRAPH_CLI_NO_ANALYTICS=1 LANGSMITH_TRACING=false $(BIN)/langgraph dev --no-browser $(ARGS)

docs: $(VENV)/.dev ## build the documentation into site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q $(ARGS)
	@echo "The site is in site/: open site/index.html"

wheel: $(VENV)/.dev ## build dist/*.whl
	@rm -rf build dist && $(BIN)/python -m build --wheel

clean: ## remove the environment and everything that was built
	@rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .langgraph_api
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

# install(what to install, in words, about how long)
define install
	@echo "Installing $(2) into $(VENV) ($(3)) ..."
	@$(BIN)/python -m pip install -q -c constraints.txt $(TORCH) -e "$(1)" > $(VENV)/install.log 2>&1 || { \
	  echo "The installation failed. The last lines of $(VENV)/install.log:" >&2; \
	  tail -n 15 $(VENV)/install.log >&2; \
	  echo "Fix what they name (often: no network, a full disk, or a Python too new for a package), then repeat." >&2; \
	  exit 1; }
	@touch $@
endef

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,.,triplewise and what it needs,about a minute)

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,.[dev],the development tools too,a minute or two)
	@touch $(VENV)/.run

# The first Python of 3.11 or newer among PYTHON (if set) and the usual names.
$(BIN)/python:
	@for name in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14; do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then found=$$name; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	  echo "triplewise needs Python 3.11 or newer; found: $$(python3 --version 2>&1 || true)." >&2; \
	  echo "Install one, or name it: make ask PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	echo "Creating $(VENV) with $$($$found --version)"; \
	if ! message=$$("$$found" -m venv $(VENV) 2>&1); then \
	  rm -rf $(VENV); echo "$$message" | tail -n 5 >&2; \
	  echo "The environment could not be created (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; \
	fi
