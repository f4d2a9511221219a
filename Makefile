# `make run` and `make test` need nothing but Python 3.11, make and (for the peers) npm.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Thousands of modules and processes: what is compiled once must be kept, whatever the caller usually wants.
unexport PYTHONDONTWRITEBYTECODE
LAYERED := $(addprefix tests/,server http client drivers transports workers auth gateway dialects errors stores \
	surface testing test_every_revision.py)
SUITE := -n 2 --dist loadgroup -m "not slow" -rs
# Counting calls, other implementations, and the benchmark: they reach nothing of ours that the rest does not.
UNTRACED := --ignore tests/budget --ignore tests/peers --ignore tests/proof

# What is said, how it is written and when it may be said: few processes, no clocks, nothing that can die on the way.
INNER := $(addprefix tests/,model wire core json_schema errors dialects drivers)

.PHONY: help setup run test test-layers test-slow test-pythons coverage coverage-inner check format bench bench-face interop attack chaos fuzz conformance soak tables peers lock docs clean

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

test: check peers ## checks and the whole test suite
	$(BIN)/python -m pytest $(SUITE)

coverage: setup  ## how much of each package the tests reach; fails below the floor
	rm -rf results/coverage && mkdir -p results/coverage
	@# The tracer slows everything down, so `make test` judges the tests; here only the floor counts.
	$(BIN)/python -m coverage run -m pytest $(SUITE) $(UNTRACED) || [ $$? -eq 1 ]
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python scripts/coverage_floor.py

coverage-inner: setup ## the same for the inner packages, by the tests of their own rooms; CI runs it
	rm -rf results/coverage && mkdir -p results/coverage
	$(BIN)/python -m coverage run -m pytest $(SUITE) $(INNER) || [ $$? -eq 1 ]
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python scripts/coverage_floor.py --inner

test-layers: setup ## what talks to a server, once more with every layer switched on at generous settings
	EVERY_LAYER=1 $(BIN)/python -m pytest $(SUITE) $(LAYERED)

test-slow: setup peers ## slow peers, soak and fuzz
	$(BIN)/python -m pytest -m slow

test-pythons: peers ## the whole test suite on every Python from 3.11 to 3.13 that is on this machine
	scripts/pythons.sh

peers: setup     ## the other implementations the tests talk to, each in an environment of its own
	@scripts/peers.sh sdk fastmcp minimcp node
	@scripts/packages.sh redis-server chromium prometheus

conformance: setup ## the official suite against our server and our client
	scripts/conformance.sh --write results/conformance.json

tables: setup    ## put the last results of conformance and bench into docs/ and the README
	$(BIN)/python scripts/tables.py

docs: setup      ## the documentation site, every link followed; in results/site/html
	$(BIN)/python scripts/site.py

interop: setup peers ## the matrix of peers, both ways
	$(BIN)/python -m bench.interop

bench: setup     ## side by side with the peers and the limit, in one run
	@scripts/peers.sh sdk fastmcp minimcp node
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

lock: setup      ## pin again what requirements/*.in ask for
	scripts/lock.sh

clean:
	rm -rf $(VENV) .peers build dist results
