# `make` alone lists what can be done here. Whatever takes more than a line lies in scripts/ or in xtask/.

.DEFAULT_GOAL := help
.PHONY: help build run test check bench torture soak release clean page

# Failpoints and the benchmarks are compiled with the tests and the lints, so that they cannot rot.
FEATURES := harvest/failpoints,xtask/bench

# More arguments for what a target starts: make run ARGS=--once, make test ARGS='-- journal', make bench ARGS=--quick
ARGS ?=

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

# The page is part of the program.
page:
	@scripts/env scripts/page

build: page ## Build the release: one file, target/release/harvest
	@scripts/need cargo cc
	scripts/env cargo build --release -p harvest

run: page ## Install what is missing, build the release and start the demo
	@scripts/need cargo cc git bwrap
	scripts/env cargo build --release -p harvest
	scripts/env scripts/demo $(ARGS)

test: page ## Install what the tests need, run them all and count
	@scripts/need cargo cc git bwrap python3 setpriv $(if $(HARVEST_TEST_SKIP_POSTGRES),,postgres) \
		$(if $(HARVEST_TEST_SKIP_PODMAN),,podman runc) $(if $(HARVEST_TEST_SKIP_BROWSER),,chromium)
	@scripts/need strace libfaketime || echo "Without them no clock jumps, and what the kernel is asked is not looked at."
	@scripts/env scripts/test --features $(FEATURES) $(ARGS)

check: page ## Formatting, lints, licences, dependency directions, types of the page
	@scripts/need cargo cc
	scripts/env cargo fmt --all --check
	scripts/env cargo clippy --workspace --all-targets --features $(FEATURES) -- --deny warnings
	scripts/env cargo run --quiet -p xtask -- check
	scripts/env scripts/deny check --hide-inclusion-graph licenses bans sources
	@scripts/env scripts/check-page

bench: ## Measure against the bare thing, and fail when a bound is broken
	@scripts/need cargo cc git bwrap postgres setpriv
	@scripts/need podman runc || echo "Without them containers are not measured."
	@scripts/need node npm || echo "Without them the queue is not measured against graphile-worker."
	scripts/env cargo run --release -p xtask --features bench -- bench $(ARGS)

# How often a worker is killed.
KILLS ?= 500

torture: ## Kill a worker with live sessions hundreds of times and compare the outcome with what was asked
	@scripts/need cargo cc git bwrap $(if $(HARVEST_TEST_SKIP_POSTGRES),,postgres)
	@scripts/need libfaketime || echo "Without it no clock jumps."
	HARVEST_TORTURE_KILLS=$(KILLS) scripts/env cargo test --release -p harvest --features harvest/failpoints --test it -- torture --nocapture

# How many tasks a worker is left alone with.
TASKS ?= 10000

soak: ## Leave a worker alone with thousands of tasks and faults, and watch its memory and file handles
	@scripts/need cargo cc git bwrap
	HARVEST_SOAK_TASKS=$(TASKS) HARVEST_SOAK_PLOT=$(CURDIR)/target/soak.svg \
		scripts/env cargo test --release -p harvest --features harvest/failpoints --test it -- soak --nocapture

release: page ## Build what is released: for glibc 2.31 and newer, and for every other Linux
	@scripts/need cargo cc python3
	@scripts/env scripts/release

clean: ## Remove what was built
	scripts/env cargo clean
	cd web && rm -rf node_modules && git clean -fdqX dist
