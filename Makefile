# Two commands: `make demo` shows the system at work on real images, `make test` proves it. Both make their own virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out
SOURCES := setup.py pyproject.toml csrc/sources.txt $(shell find csrc/src csrc/include csrc/bindings -type f 2>/dev/null)

# An empty value: Python may keep the bytecode of what it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-python test-cpp lint bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train, export, index, search and evaluate on real images; ends with a picture to look at"
	@echo "make test    all tests, Python and C++"
	@echo "make lint    ruff, mypy, stubtest, clang-format"
	@echo "make bench   the engine beside faiss, encoding beside ONNX Runtime alone"

demo: $(VENV)/demo.stamp
	$(BIN)/python demo/demo.py --out $(OUT)/demo

test: test-cpp test-python

test-python: $(VENV)/dev.stamp
	$(BIN)/python -m pytest

test-cpp: $(VENV)/dev.stamp
	$(BIN)/cmake -S csrc -B build/csrc -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_BUILD_TYPE=Release
	$(BIN)/cmake --build build/csrc
	$(BIN)/ctest --test-dir build/csrc --output-on-failure

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml idcwh_search._core
	find csrc -name '*.cpp' -o -name '*.hpp' | xargs $(BIN)/clang-format --dry-run --Werror

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/encode.py

clean:
	rm -rf build $(OUT) *.egg-info

# --no-compile: byte-compiling all of torch takes longer than the demo's training; Python compiles what it imports.
$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: $(VENV)/bin/pip $(SOURCES)
	$(BIN)/pip install --no-compile -e '.[demo]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/pip $(SOURCES)
	$(BIN)/pip install --no-compile -e '.[dev]'
	touch $@ $(VENV)/demo.stamp
