# What a person or a CI calls. CMake and its presets do the work; `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
OUTPUT ?= out
SECONDS ?= 600
SEEDS ?= 1000000
FILTER ?=
export DESTDIR

gantry := build/release/bin/gantry
demo_prefix := build/prefix
demo_video := build/data/vtest.avi
# Extra words for `gantry run`: the video when tools/setup had to fetch it.
demo_input = $(if $(wildcard $(demo_video)),--set input=$(CURDIR)/$(demo_video))
# ThreadSanitizer of GCC 12 needs a memory layout that kernels with much randomisation do not give.
fixed_layout = $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help setup build demo test sanitize campaign soak orders fuzz exhaustive arm64 bench bench-peers check check-all install packages dist reference clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install every Debian package that this project can use and that is missing
	@tools/setup

build: ## Build the library and the program: build/release/bin/gantry
	@tools/setup build
	@tools/build release

demo: ## Run examples/vision: people in a video, and frames of 4K over channels and pipes; in out/
	@tools/setup build demo
	@tools/build release gantry_run gantry_device gantry_image gantry_cli gantry-run
	@DESTDIR= cmake --install build/release --prefix $(demo_prefix) >build/install.log
	@cmake --log-level=NOTICE -G Ninja -S examples/vision -B build/vision \
	  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=$(CURDIR)/$(demo_prefix)
	@cmake --build build/vision -j $(JOBS)
	@$(gantry) run examples/vision/pipeline.toml --set output=$(OUTPUT) $(demo_input)
	@examples/vision/check $(OUTPUT)
	@echo; echo "The same video as frames of 4K, of which little is computed: over channels, then over pipes"
	@$(gantry) run examples/vision/uhd.toml --set output=$(OUTPUT) $(demo_input) --compare pipe
	@examples/vision/check --uhd $(OUTPUT)

test: ## Build with warnings as errors and pass all tests, optimised and with asserts
	@tools/setup build test
	@tools/test-preset test

sanitize: ## Pass the tests of the library under AddressSanitizer, UBSan and ThreadSanitizer
	@tools/setup build test
	@$(fixed_layout) tools/test-preset dev tsan

campaign: ## Kills, attacks, random scenarios, models, benchmarks, installed examples: FILTER chooses
	@tools/setup build test
	@tools/campaign '$(FILTER)'

soak: ## Random scenarios in which every byte is compared: SECONDS of them, from seed SEEDS on
	@tools/setup build test
	@tools/build test channel_oracle
	@build/test/tests/channel_oracle --seconds $(SECONDS) --from $(SEEDS) --jobs $(JOBS)

orders: ## The same scenarios in orders that a seed decides: SECONDS of them, from seed SEEDS on
	@tools/setup build test
	@tools/build tsan any_order
	@build/tsan/tests/any_order --seconds $(SECONDS) --from $(SEEDS) --jobs $(JOBS)

fuzz: ## Made-up input for whatever reads other processes' words: SECONDS for each of its targets
	@tools/setup build test fuzz
	@[ -e build/fuzz/build.ninja ] || tools/configure fuzz -DGANTRY_TESTS=ON
	@tools/fuzz $(SECONDS)

exhaustive: ## All 2^32 floats to every element type, with every kind of vectors: some minutes
	@tools/setup build test
	@tools/build test shape_exhaustive
	@build/test/tests/shape_exhaustive $(JOBS)

arm64: ## Cross-build for arm64 and pass its tests under qemu-user: docs/platforms.md
	@tools/setup build test arm64
	@tools/arm64

bench: build ## Measure channels against the other ways between two processes
	@$(gantry) bench ipc

bench-peers: ## The same with Open MPI, UCX, iceoryx, ZeroMQ, nng and Boost; installs all that --peers knows
	@tools/setup build peers
	@tools/build release
	@$(gantry) bench ipc --peers

check: ## Format, layers; lint of what differs from the last commit that was linted as a whole
	@tools/setup build test check
	@failed=0; for what in format layers "tidy --changed"; do tools/check-$$what || failed=1; done; exit $$failed

check-all: ## Lint of the whole tree; what passes is noted in tools/checked
	@tools/setup build test check
	@tools/check-tidy
	@[ -z "$$(git status --porcelain)" ] || { echo "gantry: check-all: files differ from HEAD: tools/checked stays" >&2; exit 1; }
	@git rev-parse HEAD >tools/checked

install: build ## Install to PREFIX (/usr/local), below DESTDIR when set
	@cmake --install build/release --prefix $(PREFIX)

packages: build ## Make Debian packages in build/release/packages: library, headers, tools, bench, Python
	@cd build/release && cpack

dist: ## Make a tarball of the sources of HEAD in build/
	@tools/dist

reference: ## Make the reference of the public API: build/reference/html/index.html
	@tools/setup docs
	@tools/reference

clean: ## Remove build/
	@rm -rf build
