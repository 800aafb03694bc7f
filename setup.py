"""Build of the compiled part and the package layout; everything else is in pyproject.toml.

The C++ sources are listed once, in csrc/sources.txt, which csrc/CMakeLists.txt reads as well.
"""

from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import setup

SOURCES = [f"csrc/{line}" for line in Path("csrc/sources.txt").read_text().split()]
BINDINGS = sorted(str(path) for path in Path("csrc/bindings").glob("*.cpp"))
HEADERS = sorted(str(path) for pattern in ("*.hpp", "*.h") for path in Path("csrc").rglob(pattern))

core = Pybind11Extension(
    "idcwh_search._core",
    sources=SOURCES + BINDINGS,
    depends=HEADERS,
    include_dirs=["csrc/include", "csrc/src"],
    cxx_std=20,
    extra_compile_args=["-O3", "-fvisibility=hidden"],
)

ParallelCompile("IDCWH_BUILD_JOBS").install()
setup(
    ext_modules=[core],
    packages=[
        "idcwh_search",
        "idcwh_search.cli",
        "idcwh_train",
        "idcwh_train.methods",
        "idcwh_export",
    ],
    package_dir={
        "idcwh_train": "train/idcwh_train",
        "idcwh_export": "export/idcwh_export",
    },
    package_data={name: ["py.typed", "*.pyi"] for name in ("idcwh_search", "idcwh_train", "idcwh_export")},
)
