"""Programs in C++ and C that use the files of the Python package with a compiler alone.

IDCWH_WHEEL=FILE first installs that wheel into an environment of its own and tests its contents. Otherwise the
installed package is tested.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

COMPILER = shutil.which(os.environ.get("CXX", "c++"))
pytestmark = [pytest.mark.slow, pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")]

CPP = """
#include <idcwh/search.hpp>
int main() {
    const std::uint8_t codes[] = {7, 0, 1}, query = 0;
    std::int32_t distance;
    std::int64_t id;
    return idcwh::topk({codes, 3, 8}, &query, 1, 1, &distance, &id) == 1 && id == 1 && distance == 0 ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[str, str]:
    """The folders of headers and of the library, as the package reports them."""
    python = sys.executable
    if wheel := os.environ.get("IDCWH_WHEEL"):
        home = tmp_path_factory.mktemp("venv")
        venv.create(home, with_pip=True)
        python = str(home / "bin" / "python")
        # Without dependencies: linking the library needs neither numpy nor Pillow.
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    code = "import idcwh_search as ih; print(ih.get_include()); print(ih.get_library_dir())"
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parent)
    include, library = done.stdout.split("\n")[:2]
    if os.environ.get("IDCWH_WHEEL"):
        assert include.startswith(str(home)) and library.startswith(str(home))
    return include, library


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_linking_with_cpp_compiler_runs(folders, tmp_path, kind):
    include, library = folders
    if kind == "shared" and sys.platform != "linux":
        pytest.skip("the shared library is part of Linux packages only")
    (tmp_path / "main.cpp").write_text(CPP)
    link = [f"{library}/libidcwh.a", "-pthread"]
    if kind == "shared":
        link = [f"-L{library}", "-lidcwh", f"-Wl,-rpath,{library}"]
    command = [COMPILER, "-std=c++20", f"-I{include}", tmp_path / "main.cpp", *link, "-o", tmp_path / "main"]
    subprocess.run(command, check=True)
    subprocess.run([tmp_path / "main"], check=True, env={})
    if kind == "shared" and shutil.which("readelf"):
        needed = subprocess.run(["readelf", "-d", tmp_path / "main"], check=True, capture_output=True, text=True).stdout
        assert "[libidcwh.so.0]" in needed


C = """
#include <idcwh/idcwh.h>
int main(void) {
    const uint8_t codes[] = {7, 0, 1}, query = 0;
    const idcwh_codes view = {codes, 3, 8};
    int32_t distance;
    int64_t id;
    size_t kept = 0;
    return idcwh_topk(&view, &query, 1, 1, 0, &distance, &id, &kept) || kept != 1 || id != 1 || distance;
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C++ runtime is libstdc++ on Linux")
@pytest.mark.parametrize("kind", ["static", "shared"])
def test_linking_with_c_compiler_runs(folders, tmp_path, kind):
    include, library = folders
    (tmp_path / "main.c").write_text(C)
    link = [f"{library}/libidcwh.a", "-lstdc++", "-lm", "-pthread"]
    if kind == "shared":
        link = [f"-L{library}", "-lidcwh", f"-Wl,-rpath,{library}"]
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, f"-I{include}", tmp_path / "main.c", *link, "-o", tmp_path / "main"], check=True)
    subprocess.run([tmp_path / "main"], check=True, env={})


@pytest.mark.skipif(sys.platform != "linux", reason="the shared library is part of Linux packages only")
def test_shared_library_is_small_and_loads_by_ctypes(folders):
    path = Path(folders[1]) / "libidcwh.so.0"
    assert path.stat().st_size < 2_000_000
    library = ctypes.CDLL(str(path))
    library.idcwh_version.restype = ctypes.c_char_p
    header = (Path(folders[0]) / "idcwh" / "version.hpp").read_text()
    numbers = [line.split()[-1] for line in header.splitlines() if line.startswith("#define IDCWH_VERSION_")]
    assert library.idcwh_version().decode() == ".".join(numbers)


ENCODER = """
#include <idcwh/encoder.hpp>
#include <idcwh/threads.hpp>
#include <cstring>
int main() {
    idcwh::set_threads(1);
    const std::uint8_t rgb[3] = {1, 2, 3};
    const auto pixels = idcwh::Preprocess(2, 2)({rgb, 1, 1});
    if (pixels.size() != 12 || pixels[11] != 3) return 1;
    try {
        idcwh::Encoder("no such file");
    } catch (const idcwh::SystemError& error) {
        return error.path() == "no such file" ? 0 : 2;
    }
    return 3;
}
"""


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_linking_the_encoder_library_runs(folders, tmp_path, kind):
    include, library = folders
    if kind == "shared" and sys.platform != "linux":
        pytest.skip("the shared library is part of Linux packages only")
    (tmp_path / "main.cpp").write_text(ENCODER)
    link = [f"{library}/libidcwh_encoder.a", f"{library}/libidcwh.a", "-pthread", "-ldl"]
    if kind == "shared":
        link = [f"-L{library}", "-lidcwh_encoder", "-lidcwh", f"-Wl,-rpath,{library}"]
    command = [COMPILER, "-std=c++20", f"-I{include}", tmp_path / "main.cpp", *link, "-o", tmp_path / "main"]
    subprocess.run(command, check=True)
    subprocess.run([tmp_path / "main"], check=True, env={})


@pytest.mark.skipif(shutil.which("nm") is None or sys.platform != "linux", reason="needs nm")
@pytest.mark.parametrize("name", ["libidcwh.so.0", "libidcwh_encoder.so.0"])
def test_shared_libraries_export_public_names_only(folders, name):
    path = Path(folders[1]) / name
    table = subprocess.run(
        ["nm", "-D", "-C", "--defined-only", path], check=True, capture_output=True, text=True
    ).stdout
    names = [line.split(maxsplit=2)[2] for line in table.splitlines()]
    assert names
    for name in names:
        name = name.removeprefix("typeinfo for ").removeprefix("typeinfo name for ").removeprefix("vtable for ")
        assert name.startswith(("idcwh::", "idcwh_")), name
