"""Package layout and the call of CMake for the compiled part. The other settings are in pyproject.toml.

A wheel also carries the libraries that C and C++ programs link (idcwh_search/lib) and their headers
(idcwh_search/include). See idcwh_search/_util/build_paths.py.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pybind11
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext


class CMakeBuild(build_ext):
    """The build of idcwh_search._core, libidcwh and libidcwh_encoder with CMake."""

    def finalize_options(self):
        super().finalize_options()
        if self.editable_mode or self.inplace:
            self.build_temp = "build/csrc"  # `make build-test` builds the tests there, of the same objects

    def build_extension(self, ext):
        build, package = Path(self.build_temp).absolute(), Path(self.get_ext_fullpath(ext.name)).absolute().parent
        settings = {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_MAKE_PROGRAM": shutil.which("ninja"),
            "CMAKE_UNITY_BUILD": "ON",  # saves half of the compiler's time
            "IDCWH_PYTHON": "ON",
            "IDCWH_TESTS": "OFF",
            "Python_EXECUTABLE": sys.executable,
            "pybind11_DIR": pybind11.get_cmake_dir(),
        }
        defines = [f"-D{name}={value}" for name, value in settings.items()]
        subprocess.run(["cmake", "-S", "csrc", "-B", build, "-G", "Ninja", *defines], check=True)
        subprocess.run(["cmake", "--build", build, "--target", "python_package"], check=True)
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", package], check=True)

    def copy_extensions_to_source(self):
        """Puts the module and the libraries into the source tree; the headers are found in csrc/include."""
        super().copy_extensions_to_source()
        built = Path(self.build_lib, "idcwh_search", "lib")
        package = Path(self.get_finalized_command("build_py").get_package_dir("idcwh_search"), "lib")
        shutil.rmtree(package, ignore_errors=True)  # running programs keep the old files
        shutil.copytree(built, package)


setup(
    ext_modules=[Extension("idcwh_search._core", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    packages=find_packages(".", include=["idcwh_search*"]) + find_packages("train") + find_packages("export"),
    package_dir={
        "idcwh_train": "train/idcwh_train",
        "idcwh_reproduce": "train/idcwh_reproduce",
        "idcwh_export": "export/idcwh_export",
    },
    package_data={
        **{name: ["py.typed", "*.pyi"] for name in ("idcwh_train", "idcwh_reproduce", "idcwh_export")},
        "idcwh_search": ["py.typed", "*.pyi", "serve/page/*"],
    },
)
