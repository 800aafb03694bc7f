# `make demo` runs the main job on real images, `make test` runs all tests, `make check` runs the fast ones. Each creates
# .venv if it is missing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out
SOURCES := setup.py pyproject.toml $(shell find csrc/CMakeLists.txt csrc/cmake csrc/src csrc/include csrc/bindings csrc/third_party -type f 2>/dev/null)

# Empty: Python may cache bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo build-check build-test check test test-slow test-sanitize test-arm test-aarch64-linux-gnu test-arm-linux-gnueabihf test-wheel fuzz lint style tidy bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train, export, index, search and evaluate on real images; ends with an image to look at"
	@echo "make check   the fast tests, Python and C++, in about three minutes after a build"
	@echo "make test    all tests: those of make check, then those of make test-slow; prints both times"
	@echo "make test-sanitize, test-arm, fuzz, test-wheel"
	@echo "             the C++ tests under sanitizers, for ARM, with fuzzed calls; the wheel for C and C++"
	@echo "make lint    ruff, mypy, stubtest, clang-format, tools/prose.py, clang-tidy"
	@echo "make bench   the engine beside faiss, encoding beside ONNX Runtime alone"

demo: $(VENV)/demo.stamp
	$(BIN)/python demo/demo.py --out $(OUT)/demo

# $(call tests,LABELS,MARKER): runs part of the tests; prints what was skipped and why, and how long all of it took.
define tests
	start=$$(date +%s) && $(CTEST) --test-dir build/csrc $(1) && (grep ^skipped: build/csrc/Testing/Temporary/LastTest.log; \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "$(2)") && echo "make $@: $$(($$(date +%s) - start)) s"
endef
CTEST := $(BIN)/ctest --output-on-failure -j 2

# The fast tests. They compile no programs, emulate nothing and train nothing in another process.
check: build-check
	$(call tests,-LE slow,not slow)

test: check test-slow

test-slow: build-test
	$(call tests,-L slow,slow)

# $(call cmake,FOLDER,OPTIONS,TARGET): configures csrc into build/FOLDER and builds it, or one target of it.
define cmake
	$(BIN)/cmake -S csrc -B build/$(1) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON $(2)
	$(BIN)/cmake --build build/$(1) $(if $(3),--target $(3))
endef

# ONNX Runtime, for the tests of idcwh::Encoder.
ENCODER = -DIDCWH_ONNXRUNTIME=$$(ls $(abspath $(VENV))/lib/python*/site-packages/onnxruntime/capi/libonnxruntime.so.* | head -n 1)

# `pip install -e` built the library there, so only the tests are compiled.
configure = $(call cmake,csrc,-DIDCWH_PYTHON=OFF -DIDCWH_TESTS=ON $(ENCODER),$(1))
build-check: $(VENV)/dev.stamp
	$(call configure,check_tests)
build-test: $(VENV)/dev.stamp
	$(call configure)

# Address and undefined behaviour sanitizers, then threads, with readers and a writer for longer. The tests of the index
# build and search the structures; the structures' own tests would take minutes here.
test-sanitize: $(VENV)/dev.stamp
	$(call cmake,address,-DIDCWH_SANITIZE=address $(ENCODER))
	$(CTEST) --test-dir build/address
	$(call cmake,thread,-DIDCWH_SANITIZE=thread,thread_tests)
	IDCWH_TEST_SECONDS=30 $(CTEST) --test-dir build/thread -L threads

# 64 and 32 bits. Needs g++-aarch64-linux-gnu, g++-arm-linux-gnueabihf and qemu-user.
test-arm: test-aarch64-linux-gnu test-arm-linux-gnueabihf
test-aarch64-linux-gnu test-arm-linux-gnueabihf: test-%: $(VENV)/dev.stamp
	$(call cmake,$*,--toolchain $(CURDIR)/csrc/cmake/$*.cmake,portability_tests)
	$(CTEST) --test-dir build/$* -L portability

# Needs clang, whose warnings are errors here. Findings are stored in build/fuzz. The fuzzer of databases generates its
# files itself. No allocation may be much larger than a file.
FUZZ_SECONDS ?= 60
FUZZ := -max_total_time=$(FUZZ_SECONDS) -timeout=20 -print_final_stats=1
fuzz: $(VENV)/dev.stamp
	$(call cmake,fuzz,-DIDCWH_FUZZ=ON -DIDCWH_SANITIZE=address -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++,fuzz_c_api fuzz_database)
	mkdir -p build/fuzz/corpus build/fuzz/corpus_database
	cd build/fuzz && tests/fuzz/fuzz_c_api $(FUZZ) corpus $(CURDIR)/csrc/tests/fuzz/seeds
	cd build/fuzz && tests/fuzz/fuzz_database $(FUZZ) -max_len=200000 -malloc_limit_mb=16 -rss_limit_mb=1000 corpus_database

# The source distribution, and the wheel that is built from it.
test-wheel: $(VENV)/dev.stamp
	rm -rf build/wheel
	$(BIN)/python -m build --outdir build/wheel .
	IDCWH_WHEEL=$$(echo $(CURDIR)/build/wheel/*.whl) $(BIN)/python -m pytest tests/search/test_linking.py

lint: style tidy

style: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/prose.py
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml --allowlist csrc/bindings/stubtest_allowlist.txt idcwh_search._core
	find csrc -name '*.[ch]pp' -o -name '*.[ch]' | xargs $(BIN)/clang-format --dry-run --Werror

# Takes minutes.
tidy: $(VENV)/dev.stamp
	find csrc/CMakeLists.txt csrc/cmake csrc/src -name '*.cpp' -not -path '*/kernels/*' | xargs -P2 -I{} $(BIN)/clang-tidy --quiet {} -- -std=c++20 -Icsrc/include -Icsrc/src -isystem csrc/third_party/onnxruntime -Wno-deprecated-declarations

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/evaluate.py
	$(BIN)/python benchmarks/database.py
	$(BIN)/python benchmarks/encode.py
	$(BIN)/python benchmarks/preprocess.py
	$(call cmake,bench,-DIDCWH_BENCH=ON -DIDCWH_TESTS=OFF)
	for name in bandwidth scan groups multi_index; do build/bench/bench/bench_$$name || exit; done

clean:
	rm -rf build $(OUT) *.egg-info

# --no-compile: byte-compiling all of torch takes longer than the training of the demo.
$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: $(VENV)/bin/pip $(SOURCES)
	$(BIN)/pip install --no-compile -e '.[demo]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/pip $(SOURCES)
	$(BIN)/pip install --no-compile -e '.[dev]'
	touch $@ $(VENV)/demo.stamp
