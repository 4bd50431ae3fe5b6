PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check contract docs notebooks bench test-pandas2 test-spark clean

help:  ## say what each target does
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## the main job on real data: serve, pull, keep, look
	@$(RUN)/casekit demo

test: $(VENV)/.dev  ## all tests, docstrings, README and notebooks
	$(RUN)/coverage erase
	$(RUN)/coverage run -m pytest -q --hypothesis-profile=ci  # the same examples each time; pytest alone draws new ones
	$(RUN)/coverage combine -q
	$(RUN)/coverage report
	CASEKIT_STATE=$$(mktemp -d) $(RUN)/python -m pytest -q --nbval --nbval-current-env --nbval-sanitize-with notebooks/sanitize.cfg -p no:cacheprovider --override-ini=addopts= notebooks

check: $(VENV)/.dev  ## style, types, layers
	$(RUN)/ruff check
	$(RUN)/ruff format --check
	$(RUN)/mypy
	$(RUN)/lint-imports

contract: $(VENV)/.dev  ## client and server against openapi.yaml, with schemathesis and Prism (needs npm)
	$(RUN)/python -m pytest -q tests/contract
	$(RUN)/python tests/contract/prism.py

docs: $(VENV)-docs/.dev  ## build the documentation into build/docs
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict

notebooks: $(VENV)/.dev  ## run the notebooks and keep their outputs
	$(RUN)/jupyter execute --inplace --NotebookClient.record_timing=False notebooks/*.ipynb
	$(RUN)/python notebooks/tidy.py notebooks/*.ipynb

bench: $(VENV)-bench/.dev  ## measure a pull against its floor and its peers (minutes)
	$(VENV)-bench/bin/python benchmarks/bench.py

test-pandas2: $(VENV)-pandas2/.dev  ## the tests with pandas 2
	$(VENV)-pandas2/bin/python -m pytest -q

test-spark: $(VENV)-spark/.dev  ## the statistics on Spark
	@command -v java >/dev/null || { apt-get update -q && apt-get install -y -q openjdk-17-jre-headless; }
	$(VENV)-spark/bin/python -m pytest -q -m spark tests/stats
	$(VENV)-spark/bin/python -m pytest -q -m spark tests/test_docs.py  # a process of its own: Spark keeps the folder it started in

clean:  ## take away what the targets made
	rm -rf $(VENV) $(VENV)-bench $(VENV)-docs $(VENV)-pandas2 $(VENV)-spark build casekit-demo

# A stamp in each environment: the second call of a target starts at once.
$(VENV)/.demo: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "casekit needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing casekit into $(VENV) …"
	@$(RUN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[server]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	@echo "installing the development tools into $(VENV) …"
	@$(RUN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)-pandas2/.dev: pyproject.toml constraints.txt
	@test -x $(VENV)-pandas2/bin/python || $(PYTHON) -m venv $(VENV)-pandas2
	@grep -v '^pandas' constraints.txt > $(VENV)-pandas2/constraints.txt
	@$(VENV)-pandas2/bin/pip install -q --disable-pip-version-check -c $(VENV)-pandas2/constraints.txt 'pandas==2.3.*' -e '.[dev]'
	@touch $@

$(VENV)-bench/.dev: pyproject.toml constraints.txt benchmarks/peers.txt
	@test -x $(VENV)-bench/bin/python || $(PYTHON) -m venv $(VENV)-bench
	@$(VENV)-bench/bin/pip install -q --disable-pip-version-check -e '.[server,duckdb,polars]' -r benchmarks/peers.txt
	@touch $@

$(VENV)-docs/.dev: pyproject.toml constraints.txt
	@test -x $(VENV)-docs/bin/python || $(PYTHON) -m venv $(VENV)-docs
	@$(VENV)-docs/bin/pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(VENV)-spark/.dev: pyproject.toml constraints.txt
	@test -x $(VENV)-spark/bin/python || $(PYTHON) -m venv $(VENV)-spark
	@$(VENV)-spark/bin/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,spark]'
	@touch $@
