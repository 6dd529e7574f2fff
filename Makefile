# Every command of the project; `make help` lists them.
# Arguments for the program behind a command go into ARGS:  make test ARGS="-k shapes"

PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
NOTEBOOKS := $(wildcard notebooks/*.ipynb)

# A virtual environment works only in the folder it was made in, with the Python it was made with.
VENV_OK := $(shell grep -qsF " $(CURDIR)/$(VENV)" $(VENV)/pyvenv.cfg \
	&& $(PY) -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo yes)

.DEFAULT_GOAL := help
.PHONY: help setup lab test slides slides-pdf site run check teaching data train experiment bench constraints clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/installed $(VENV)/trusted  ## make .venv, install the tested versions, trust the notebooks; does nothing the second time

lab: setup  ## set up if needed, then open the course in JupyterLab
	$(PY) -m jupyterlab notebooks/00_start_here.ipynb $(ARGS)

test: setup  ## set up if needed, then run every test (ARGS="-k shapes" chooses some)
	$(PY) -m pytest $(ARGS)

slides: setup  ## build the slide decks into build/slides, one HTML file a lecture (needs npm)
	$(PY) tools/slides $(ARGS)

slides-pdf: setup  ## build the slide decks and print them to PDF (needs npm and Chromium)
	$(PY) tools/slides --pdf $(ARGS)

site: setup  ## build the website into build/site: pages, decks, references, search (needs npm)
	$(PY) tools/site $(ARGS)

run: setup  ## execute the notebooks and save them in normal form
	$(PY) tools/notebook run $(ARGS)

check: setup  ## check the form of the saved notebooks without executing them
	$(PY) tools/notebook check $(ARGS)

teaching: setup  ## write docs/teaching.md again from its frame, the notebooks and the exercises
	$(PY) tools/teaching

data: setup  ## make the data files again from their sources
	$(PY) tools/data $(ARGS)

train: setup  ## train a model of data/models again (ARGS=--list names them, ARGS=NAME trains one)
	$(PY) tools/train $(ARGS)

experiment: setup  ## run an experiment of data/results again (ARGS=--list names them, ARGS=NAME runs one)
	$(PY) tools/experiment $(ARGS)

bench: setup  ## time our models beside torch's layers and straightforward forms (ARGS="--only greedy": one case)
	$(PY) -m benchmarks $(ARGS)

constraints:  ## resolve pyproject.toml into constraints.txt again (ARGS=--upgrade takes the newest versions)
	$(PYTHON) -m venv build/resolver
	build/resolver/bin/python -m pip install --quiet uv
	build/resolver/bin/python -m uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--no-header --annotation-style line --quiet --output-file constraints.txt $(ARGS)

clean:  ## remove built files and caches (.venv stays; delete that folder for a fresh set-up)
	rm -rf build .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +

# The two stamp files of the set-up. The first is made again when what to install changes, or when .venv can't be used.
ifneq ($(VENV_OK),yes)
.PHONY: $(VENV)/installed
endif

$(VENV)/installed: pyproject.toml $(CONSTRAINTS)
ifneq ($(VENV_OK),yes)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "This course needs Python 3.11 or newer; $(PYTHON) is: $$("$(PYTHON)" --version 2>/dev/null || echo missing)" >&2; \
		echo "Name a newer one like this:  make setup PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV) || { \
		echo "$(PYTHON) can't make a virtual environment. On Debian and Ubuntu:  sudo apt-get install python3-venv" >&2; exit 1; }
endif
	$(PY) -m pip install $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e '.[dev]'
	@touch $@

$(VENV)/trusted: $(NOTEBOOKS) | $(VENV)/installed
	@if test -z "$(NOTEBOOKS)" || $(PY) -m nbformat.sign $(NOTEBOOKS) </dev/null >$(VENV)/trust.log 2>&1; then touch $@; \
	else echo "Note: the notebooks could not be marked as trusted (see $(VENV)/trust.log)." >&2; \
		echo "They work all the same; saved explorers show as pictures until their cells are run." >&2; fi
