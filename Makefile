# make demo      environment, then train on the built-in phrasebook, score, translate
# make test      environment, then every test
# make coverage  the same with the share of src/clearhead that the tests reach
# make check     environment, then lint, format and types
# make install   the environment alone, in .venv

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
WORKERS := --numprocesses=auto --maxprocesses=4 --dist=loadfile

# One thread a worker: several would only fight for the cores.
test coverage: export OMP_NUM_THREADS := 1

.PHONY: install demo test coverage check

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "clearhead needs Python 3.11 or newer; '$(PYTHON)' is" \
			"$$($(PYTHON) --version 2>/dev/null || echo 'not to be found')." >&2; \
		echo "What to do: name another one, e.g. make $(or $(MAKECMDGOALS),install) PYTHON=python3.12" >&2; \
		exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev,tensorboard]'
	@touch $@

demo: install
	$(BIN)/python examples/demo.py

test: install
	$(BIN)/python -m pytest $(WORKERS)

coverage: install
	$(BIN)/python -m pytest $(WORKERS) --cov --cov-report=term

check: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
