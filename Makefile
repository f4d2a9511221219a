# `make run` and `make test` need nothing but Python 3.11 and make.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile
# The tests start many processes: let Python keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE
WITH_MIDDLEWARE := tests/server tests/client tests/gateway tests/test_every_revision.py

.PHONY: help setup run check test test-ci test-all test-middleware test-pythons coverage format frameworks bench bench-face interop attack chaos fuzz conformance soak tables peers programs lock configuration docs release clean

help:            ## what there is to do
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(STAMP)  ## make .venv with everything pinned
$(STAMP): requirements/dev.txt pyproject.toml
	scripts/setup.sh $(VENV) $(PYTHON)
	@touch $(STAMP)

run: setup       ## serve examples/quickstart.py on http://127.0.0.1:8000/mcp
	@scripts/run.sh

check: setup     ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

test: check      ## lint, types and the tests that need nothing but Python
	$(PYTEST)

test-ci: setup peers programs ## the tests that need other programs; not the slow ones
	$(PYTEST) -m "(peer or browser or redis or prometheus or nginx) and not slow"

test-all: test setup peers frameworks programs ## all tests and the conformance suite
	$(PYTEST) -m "slow or peer or framework or browser or redis or prometheus or nginx"
	$(MAKE) test-middleware conformance

test-middleware: setup ## the tests of servers again, with every middleware switched on at generous limits
	EVERY_MIDDLEWARE=1 $(PYTEST) $(WITH_MIDDLEWARE)

test-pythons:    ## `make test` without lint on each Python from 3.11 to 3.14 that is installed
	scripts/pythons.sh

coverage: setup  ## how much of each module `make test` reaches, also in the processes it starts
	rm -rf results/coverage && mkdir -p results/coverage
	$(BIN)/python -m coverage run -m pytest -n $(JOBS) --dist loadfile --ignore tests/budget
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

peers: setup     ## install the other implementations the tests talk to, each in an environment of its own
	@scripts/peers.sh sdk fastmcp minimcp node pyodide modal
	@scripts/compat_envs.sh

frameworks: setup ## install the agent frameworks of docs/frameworks.md, each in an environment of its own
	@scripts/framework_envs.sh

programs:        ## install the programs the tests talk to, with apt-get
	@scripts/packages.sh redis-server chromium prometheus nginx

conformance: setup ## the official suite against our server and our client
	scripts/conformance.sh --write results/conformance.json

tables: setup    ## put the last results of conformance and bench into docs/ and the README
	$(BIN)/python scripts/tables.py

configuration: setup ## write docs/configuration.md, the reference of all options
	$(BIN)/python scripts/configuration.py

docs: setup      ## the documentation site, every link followed; in results/site/html
	$(BIN)/python scripts/configuration.py
	$(BIN)/python scripts/site.py

interop: setup peers ## the matrix of peers, both ways
	$(BIN)/python -m bench.interop

bench: setup     ## side by side with the peers and the limit, in one run
	@scripts/peers.sh sdk fastmcp minimcp node dovetail
	$(BIN)/python -m bench

bench-face: setup ## the inspector and dovetail dev in a browser: first view, pictures a second, swaps
	@scripts/packages.sh chromium
	$(BIN)/python -m bench.face

soak: setup      ## two minutes of warm-up and ten of mixed traffic, with three slope alarms
	$(BIN)/python -m bench.soak

attack: setup    ## attacks on live servers and clients, on both hosts: what was tried and what held
	$(BIN)/python -m attacks

chaos: setup     ## erlmcp's eleven scenarios: real faults in live servers over HTTP and stdio
	$(BIN)/python -m chaos

fuzz: setup      ## spoilt conversations against live servers and clients, ten minutes for each transport
	$(BIN)/python -m attacks.fuzz

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

release: setup   ## build sdist and wheel, try them in empty environments, print what to upload
	$(BIN)/python scripts/release.py

lock: setup      ## pin again what requirements/*.in ask for
	scripts/lock.sh

clean:
	rm -rf $(VENV) .peers build dist results
