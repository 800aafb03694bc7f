"""The instruction sets, which all give the same bytes. Each runs in a process of its own, forced by IDCWH_ISA."""

import os
import subprocess
import sys

import pytest

import idcwh_search as ih
from idcwh_search import _core
from support.errors import raises

pytestmark = pytest.mark.slow

# Prints a digest of many results: widths, batches, masks, shuffled ids, ties.
SCRIPT = """
import hashlib, numpy as np
from idcwh_search import _core
rng = np.random.default_rng(3)
digest = hashlib.sha256()
for bits in (1, 7, 12, 16, 24, 32, 40, 48, 56, 64, 72, 96, 100, 128, 160, 192, 256, 300, 512, 1024, 2048):
    codes = np.packbits(rng.integers(0, 2, (1500, bits), dtype=np.uint8), axis=1, bitorder="little")
    codes[1000:] = codes[:500]
    ids, mask = rng.permutation(1500), rng.random(1500) < 0.4
    for nq in (1, 9, 40):
        for options in ({}, {"ids": ids}, {"rows": mask}, {"ids": ids, "rows": mask}):
            queries = np.ascontiguousarray(codes[:nq] ^ (codes[-nq:] & codes[200:200 + nq]))
            results = [*_core.topk(codes, bits, queries, 9, **options), *_core.rank(codes, bits, queries, **options),
                       *_core.radius(codes, bits, queries, bits // 3, **options)]
            for array in results:
                digest.update(array.tobytes())
print([entry["name"] for entry in _core.isa() if entry["active"]][0], digest.hexdigest())
"""


def run(isa: str | None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "IDCWH_ISA"}
    if isa is not None:
        env["IDCWH_ISA"] = isa
    return subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def portable() -> str:
    done = run("portable")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1]


@pytest.mark.parametrize("name", ["popcnt", "avx2", "avx512", "avx512vpopcnt"])
def test_each_instruction_set_equals_portable(name, portable):
    supported = {entry["name"]: entry["supported"] for entry in ih.isa()}
    if name not in supported:
        pytest.skip(f"{name} is not compiled in for this architecture")
    done = run(name)
    if not supported[name]:
        assert done.returncode != 0
        assert "NotSupportedError" in done.stderr and f"'{name}' is not supported" in done.stderr
        pytest.skip(f"this processor has no {name}; its kernels are tested through SIMDe by CTest (csrc/tests)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [name, portable]


def test_unknown_isa_in_environment_raises():
    done = run("abacus")
    assert done.returncode != 0
    assert all(word in done.stderr for word in ("NotSupportedError: IDCWH_ISA: ", "'abacus'", "portable"))


@pytest.mark.parametrize("isa", ["auto", "", None])
def test_best_isa_is_the_default(isa):
    done = run(isa)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == [entry["name"] for entry in ih.isa() if entry["supported"]][-1]


def test_isa_lists_and_set_isa_switches():
    best = [entry["name"] for entry in _core.isa() if entry["supported"]][-1]
    try:
        for entry in _core.isa():
            if entry["supported"]:
                _core.set_isa(entry["name"])
                assert [other["name"] for other in ih.isa() if other["active"]] == [entry["name"]]
            else:
                with raises(ih.NotSupportedError, path="isa_force"):
                    _core.set_isa(entry["name"])
        with pytest.raises(ValueError, match=r"^isa_force: .*sse9"):
            _core.set_isa("sse9")
    finally:
        _core.set_isa("auto")
    assert [entry["name"] for entry in ih.isa() if entry["active"]] == [best]


def test_isa_is_chosen_by_first_search():
    code = "import idcwh_search._core"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "IDCWH_ISA": "abacus"}, check=False)
    assert done.returncode == 0
