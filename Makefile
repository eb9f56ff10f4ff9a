# make demo      environment, then train on the built-in phrasebook, score, translate
# make test      environment, then every test
# make coverage  the same with the share of src/clearhead that the tests reach
# make reference environment, then the reference systems in full, one after the other;
#                with SYSTEM=a that one alone
# make test-keras an environment with Keras in .venv-keras, then what is compared with it
# make bench     environment, then the speed beside other toolkits, on the data in CLEARHEAD_DATA
# make check     environment, then lint, format and types
# make settings  environment, then docs/settings.md from the declarations of the settings
# make docs      environment, then the documentation site in site/; a broken link fails
# make phrasebook environment, then the data files of the built-in phrasebook from its grammar
# make install   the environment alone, in .venv

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
WORKERS := --numprocesses=auto --maxprocesses=4 --dist=loadfile

# One thread a worker: several would only fight for the cores.
test coverage: export OMP_NUM_THREADS := 1

.PHONY: install demo test reference settings no-such-system coverage test-keras bench check docs phrasebook

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "clearhead needs Python 3.11 or newer; '$(PYTHON)' is" \
			"$$($(PYTHON) --version 2>/dev/null || echo 'not to be found')." >&2; \
		echo "What to do: name another one, e.g. make $(or $(MAKECMDGOALS),install) PYTHON=python3.12" >&2; \
		exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev,docs,tensorboard,ctranslate2]'
	@touch $@

demo: install
	$(BIN)/python examples/demo.py

test: install
	$(BIN)/python -m pytest $(WORKERS)

# Named on the command line alone: an environment may have a SYSTEM of another meaning.
SYSTEM :=
SYSTEMS = $(sort $(wildcard examples/reference/$(SYSTEM)*.py))

reference: $(if $(SYSTEMS),install,no-such-system)
	@for system in $(SYSTEMS); do \
		echo "== $$system"; \
		$(BIN)/python "$$system" || exit 1; \
	done

no-such-system:
	@echo "There is no reference system '$(SYSTEM)'." >&2
	@echo "What to do: name one of a, b, c, d and e, or none to run them all." >&2
	@exit 1

coverage: install
	$(BIN)/python -m pytest $(WORKERS) --cov --cov-report=term

# Keras writes its settings into the home folder unless it is given another.
test-keras: export KERAS_BACKEND := torch
test-keras: export KERAS_HOME := .venv-keras/settings
test-keras: .venv-keras/installed
	.venv-keras/bin/python -m pytest -rs tests/test_keras_parity.py

.venv-keras/installed: pyproject.toml constraints.txt constraints-keras.txt
	$(PYTHON) -m venv .venv-keras
	.venv-keras/bin/python -m pip install --constraint constraints.txt \
		--constraint constraints-keras.txt --editable '.[dev]' keras
	@touch $@

bench: install
	$(BIN)/python benchmarks/speed.py

check: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

settings: install
	$(BIN)/python -m clearhead.settings.reference > docs/settings.md

# Python-Markdown imports docs/extension.py by its name.
docs: install
	PYTHONPATH=docs $(BIN)/zensical build --strict --clean

phrasebook: install
	$(BIN)/python -m phrasebook.make
