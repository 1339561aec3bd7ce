# Needs python3 (3.11 or newer), make and git. Everything else goes into .venv.
# Another interpreter: make PYTHON=python3.13 test
.POSIX:
.SUFFIXES:

PYTHON = python3
BIN = .venv/bin
INPUTS = pyproject.toml requirements/all.txt compat/toolnexus/pyproject.toml compat/bindai_tool/pyproject.toml
PIP_INSTALL = $(BIN)/python -m pip install --quiet --quiet --no-input
LOCAL = -e '.[all]' -e ./compat/toolnexus -e ./compat/bindai_tool
COMPILE = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --no-header --no-annotate

# The caller's own virtual environment, paths and pip settings must not leak in; an empty HOME counts as none.
ISOLATE = unset PYTHONPATH PYTHONHOME PYTHONSAFEPATH VIRTUAL_ENV CONDA_PREFIX PIP_TARGET PIP_PREFIX; \
	[ -n "$${HOME:-}" ] || unset HOME; \
	PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONNOUSERSITE=1 PYRIGHT_PYTHON_IGNORE_WARNINGS=1; \
	export PIP_USER PIP_DISABLE_PIP_VERSION_CHECK PYTHONNOUSERSITE PYRIGHT_PYTHON_IGNORE_WARNINGS;

help:
	@echo 'make demo    install into .venv, run examples/license_audit, ask its agent, and kill one'
	@echo 'make test    install the development tools too, then check and run all tests'
	@echo 'make crash   kill processes at every point of a run, and at 200 random ones'
	@echo 'make check   ruff, pyright, import contracts, gates'
	@echo 'make format  format and fix what ruff can fix'
	@echo 'make bench   run the benchmarks'
	@echo 'make lock    refresh the pinned versions in requirements/'
	@echo 'make clean   remove .venv, builds and caches'

demo: .venv/.installed
	@$(ISOLATE) cd examples/license_audit && ../../$(BIN)/python -m license_audit && echo && \
		../../$(BIN)/python -m license_audit.durable

test: check
	@echo 'pytest'
	@$(ISOLATE) $(BIN)/python -m pytest -q -n auto

crash: .venv/.installed-dev
	@$(ISOLATE) CRASH=all $(BIN)/python -m pytest -q -n auto -rP tests/crash

check: .venv/.installed-dev
	@echo 'ruff check'
	@$(ISOLATE) $(BIN)/ruff check --quiet
	@echo 'ruff format'
	@$(ISOLATE) $(BIN)/ruff format --check --quiet || { echo 'Not formatted; run: make format' >&2; exit 1; }
	@$(ISOLATE) if command -v node >/dev/null 2>&1; then \
		echo 'pyright'; $(BIN)/pyright; \
	elif [ "$${FERRULE_REQUIRE:-}" = all ]; then \
		echo 'pyright needs Node.js, and FERRULE_REQUIRE=all forbids skipping it. Install the package nodejs.' >&2; exit 1; \
	else \
		echo 'pyright skipped: it needs Node.js (install the package nodejs, or see nodejs.org)'; \
	fi
	@echo 'import contracts'
	@$(ISOLATE) out=$$($(BIN)/lint-imports --no-cache 2>&1) || { printf '%s\n' "$$out" >&2; exit 1; }
	@echo 'gates'
	@$(ISOLATE) $(BIN)/python scripts/gates.py

format: .venv/.installed-dev
	@$(ISOLATE) $(BIN)/ruff check --fix --quiet; $(BIN)/ruff format

bench: .venv/.installed-dev
	@$(ISOLATE) if [ -f benchmarks/__main__.py ]; then $(BIN)/python -m benchmarks; else echo 'No benchmarks yet.'; fi

# dev.txt holds everything, so the smaller files can never disagree with it.
lock: .venv/.installed-dev
	@echo 'Resolving requirements/ ...'
	@$(ISOLATE) $(COMPILE) --upgrade --extra all --group dev -o requirements/dev.txt >/dev/null
	@$(ISOLATE) $(COMPILE) --upgrade --extra all -c requirements/dev.txt -o requirements/all.txt >/dev/null
	@$(ISOLATE) $(COMPILE) --upgrade -c requirements/dev.txt -o requirements/core.txt >/dev/null

clean:
	@rm -rf .venv build dist htmlcov .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.created:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo 'ferrule needs Python 3.11 or newer, and $(PYTHON) was not found. Name one: make PYTHON=python3.12' >&2; exit 1; }
	@$(ISOLATE) $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "ferrule needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Name one: make PYTHON=python3.12" >&2; \
		exit 1; }
	@echo 'Creating .venv ...'
	@$(ISOLATE) $(PYTHON) -m venv --clear .venv || { \
		echo 'Python could not create .venv; on Debian and Ubuntu install the package python3-venv.' >&2; exit 1; }
	@touch $@

.venv/.installed: .venv/.created $(INPUTS)
	@echo 'Installing ferrule and its pinned requirements ...'
	@$(ISOLATE) $(PIP_INSTALL) -r requirements/all.txt $(LOCAL)
	@touch $@

.venv/.installed-dev: .venv/.installed requirements/dev.txt
	@echo 'Installing the development tools ...'
	@$(ISOLATE) $(PIP_INSTALL) -r requirements/dev.txt
	@touch $@

.PHONY: help demo test crash check format bench lock clean
