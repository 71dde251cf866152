# A thin cover over cmake and ctest: what to type. CMakeLists.txt says how it is built.
BUILD ?= build
JOBS ?= $(shell nproc)
TEST_JOBS ?= 2
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local

PACKAGES := gcc libc6-dev cmake make pkg-config libyaml-dev libjansson-dev libxxhash-dev zlib1g-dev \
	libcmocka-dev libsimde-dev libopenmpi-dev openmpi-bin bible-kjv
CLANG_PACKAGES := clang clang-format clang-tidy libomp-dev libclang-rt-dev

.PHONY: build deps deps-clang demo test test-long bench lint format sanitize fuzz install clean

build: deps
	cmake -S . -B $(BUILD)
	cmake --build $(BUILD) -j $(JOBS)

deps:
	@cmake/packages.sh $(PACKAGES)

deps-clang: deps
	@cmake/packages.sh $(CLANG_PACKAGES)

demo: build
	tools/demo.sh

test: build
	cd $(BUILD) && ctest -LE long -j $(TEST_JOBS) --output-on-failure
	@echo "make test: every test passed (those that last hours: make test-long)"

test-long: build
	cd $(BUILD) && ctest -L long --output-on-failure
	@echo "make test-long: every test passed"

# Kernels against the processor's roofs, then whole steps against PyTorch's (installed once, in the user's cache).
bench: build
	@failed=0; for program in $(BUILD)/bench/* bench/pytorch.sh; do \
		echo "== $$program"; ROUX_BUILD=$(abspath $(BUILD)) $$program || failed=1; done; exit $$failed

lint: deps-clang
	cmake -S . -B $(BUILD)
	cmake/lint.sh $(BUILD)

# Lays out every file as `lint` wants it.
format: deps-clang
	cmake/lint.sh --format

sanitize: deps
	cmake -S . -B build-sanitize -DROUX_SANITIZE=ON
	cmake --build build-sanitize -j $(JOBS)
	cd build-sanitize && ctest -L fast -j $(TEST_JOBS) --output-on-failure
	@echo "make sanitize: the fast tests passed under the address and undefined-behaviour sanitizers"

fuzz: deps-clang
	CC=clang cmake -S . -B build-fuzz -DROUX_FUZZ=ON
	cmake --build build-fuzz -j $(JOBS)
	cmake/fuzz.sh build-fuzz $(FUZZ_SECONDS)

# Installs what is built; DESTDIR is for packages.
install: build
	DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build build-*/
