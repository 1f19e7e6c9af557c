# SPDX-License-Identifier: Apache-2.0
# A thin front of Meson and the scripts in tools/. Every target can be run on its own.

PREFIX  ?= /usr/local
DESTDIR ?=
PYTHON  := /usr/bin/python3
CCACHE   = $(if $(shell command -v ccache),ccache )
GCC      = $(CCACHE)gcc
CLANG    = $(CCACHE)clang

# ./build: what is shipped. Assertions stay on (b_ndebug=false in meson.build).
build/build.ninja: | setup
	CC="$(GCC)" meson setup build --prefix "$(PREFIX)"

build-asan/build.ninja: | setup-test
	CC="$(CLANG)" meson setup build-asan -Db_sanitize=address,undefined

build-tsan/build.ninja: | setup-test
	CC="$(CLANG)" meson setup build-tsan -Db_sanitize=thread

build-fuzz/build.ninja: | setup-test
	CC="$(CLANG)" meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined

.DEFAULT_GOAL := all
.PHONY: all setup setup-test setup-bench setup-fresh run run-node test fresh bench soak asan tsan fuzz mutants \
        format check-format tidy install interop clean help

all: build/build.ninja ## build build/spanwire and build/spanwire-cni
	ninja -C build spanwire spanwire-cni

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup:
	@tools/setup build
setup-test:
	@tools/setup build test
setup-bench:
	@tools/setup build bench
setup-fresh:
	@tools/setup fresh

run: all ## everything on this machine, with a small web app exposed through it and a second site
	build/spanwire up --demo

run-node: all ## the node's tour: two workloads, one request allowed, one denied
	tools/demo build/spanwire

test: setup-test build/build.ninja ## build, then every check, unit, fuzz-corpus and end-to-end test
	$(PYTHON) tools/run-tests --build build

fresh: setup-fresh ## 'make run' and 'make test' on a bare Debian 12, as root and as a user
	$(PYTHON) tools/fresh $(FRESH)

asan: build-asan/build.ninja ## the same suite under AddressSanitizer and UBSan (clang)
	$(PYTHON) tools/run-tests --build build-asan --no-checks

tsan: build-tsan/build.ninja ## unit tests and the tests marked 'tsan' under ThreadSanitizer
	$(PYTHON) tools/run-tests --build build-tsan --no-checks --marker tsan

fuzz: build-fuzz/build.ninja ## every fuzz target for FUZZ_TIME seconds (default 60)
	ninja -C build-fuzz
	$(PYTHON) tools/run-fuzz --build build-fuzz

mutants: setup-test ## faults put into the source on purpose: each must fail its unit test (doc/internals/mutants.md)
	$(PYTHON) tools/mutants

bench: setup-bench build/build.ninja ## measure against the peers of bench/README.md
	meson configure build -Dbench=true
	ninja -C build
	bench/run

soak: setup-test all ## mixed load on every role for SOAK_TIME seconds (default 3600): no error, memory flat
	$(PYTHON) tools/soak --build build

# 'make interop kubernetes helm' runs these peers alone: the words behind it are no targets then.
PEERS := $(if $(filter interop,$(firstword $(MAKECMDGOALS))),$(wordlist 2,99,$(MAKECMDGOALS)))
ifneq ($(PEERS),)
.PHONY: $(PEERS)
$(PEERS):
	@:
endif

interop: setup-test build/build.ninja ## run against foreign implementations (all, or: make interop PEER...), fetched by tests/interop/*/prepare
	$(PYTHON) tools/run-tests --build build --only build
	$(PYTHON) tools/interop --build build $(PEERS)

format: ## rewrite C sources in the house style
	tools/check-format --fix

check-format: ## fail when a C source is not in the house style
	tools/check-format

tidy: build-asan/build.ninja ## clang-tidy over src/
	tools/tidy build-asan

install: all ## install under DESTDIR/PREFIX
	meson configure build -Dprefix="$(PREFIX)"
	ninja -C build spanwire spanwire-cni man
	DESTDIR="$(DESTDIR)" meson install -C build --no-rebuild

clean: ## remove the build directories of this Makefile
	rm -rf build build-asan build-tsan build-fuzz build-mutants
