"""Build of the compiled part and the package layout; everything else is in pyproject.toml.

The C++ sources are listed once, in csrc/sources.txt and csrc/sources_encoder.txt, which csrc/CMakeLists.txt reads as
well. They are compiled once, for the Python module and for the libraries (idcwh_search/lib) that C and C++ programs
link; a wheel also carries the headers (idcwh_search/include). See idcwh_search/linking.py.
"""

import re
import shutil
import sys
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

SOURCES = [f"csrc/{line}" for line in Path("csrc/sources.txt").read_text().split()]
ENCODER = [f"csrc/{line}" for line in Path("csrc/sources_encoder.txt").read_text().split()]
BINDINGS = sorted(str(path) for path in Path("csrc/bindings").glob("*.cpp"))
HEADERS = sorted(str(path) for pattern in ("*.hpp", "*.h") for path in Path("csrc").rglob(pattern))
SMALL = re.compile("storage/|c_api|cores|index/(compact|explain|index|planner|structures)")  # as in CMakeLists.txt
INCLUDE = Path("csrc/include/idcwh")
SOVERSION = re.search(r"IDCWH_VERSION_MAJOR (\d+)", (INCLUDE / "version.hpp").read_text())[1]

core = Pybind11Extension(
    "idcwh_search._core",
    sources=SOURCES + BINDINGS,
    depends=HEADERS,
    include_dirs=["csrc/include", "csrc/src"],
    define_macros=[("_FILE_OFFSET_BITS", "64")],  # as in CMakeLists.txt
    cxx_std=20,
    extra_compile_args=["-O2", "-fvisibility=hidden", "-g0"],
)


class BuildWithLibrary(build_ext):
    """Makes libidcwh of the objects of the Python module, libidcwh_encoder, and puts the headers beside them."""

    def finalize_options(self):
        """`pip install -e` keeps the objects, for the C++ tests (IDCWH_OBJECTS in CMakeLists.txt)."""
        super().finalize_options()
        if self.editable_mode:
            self.build_temp = "build/objects"

    def build_extensions(self):
        """The kernels are written for -O3, which would make the rest larger, not faster; SMALL is kept small."""
        compile_one = self.compiler._compile

        def compile_as_meant(obj, source, suffix, arguments, options, defines):
            more = []
            if source.startswith("csrc/src/cpu/kernels/") or source == "csrc/src/images/passes.cpp":
                more = ["-O3"]
            elif SMALL.search(source):
                more = ["-Os"]
            compile_one(obj, source, suffix, arguments, [*options, *more], defines)

        self.compiler._compile = compile_as_meant
        super().build_extensions()

    def build_extension(self, ext):
        package = Path(self.get_ext_fullpath(ext.name)).parent
        objects = self.compiler.object_filenames(SOURCES, output_dir=self.build_temp)
        if not all(Path(file).exists() for file in [*objects, *self.library_files(package)]):
            self.force = True
        super().build_extension(ext)

        self.make_library(package, "idcwh", objects, [])
        self.make_library(package, "idcwh_encoder", self.encoder_objects(), [f"-L{package / 'lib'}", "-lidcwh", "-ldl"])
        shutil.copytree(INCLUDE, package / "include" / "idcwh", dirs_exist_ok=True)

    def encoder_objects(self):
        """Pixels are a matter of every rounding: see csrc/src/images/axis.cpp."""
        return self.compiler.compile(
            ENCODER,
            output_dir=self.build_temp,
            include_dirs=[*core.include_dirs, "csrc/third_party/onnxruntime"],
            extra_postargs=[*core.extra_compile_args, "-ffp-contract=off"],
            depends=HEADERS,
        )

    def make_library(self, package, name, objects, libraries):
        """Static, and on Linux shared."""
        archive, *shared = (file for file in self.library_files(package) if file.name.split(".")[0] == f"lib{name}")
        if newer_group(objects, str(archive)):
            archive.parent.mkdir(parents=True, exist_ok=True)
            archive.unlink(missing_ok=True)  # ar would keep members whose sources are gone
            self.compiler.create_static_lib(objects, name, output_dir=str(archive.parent), target_lang="c++")
        if shared:
            library, link = shared
            options = [f"-Wl,-soname,{library.name}", "-Wl,--no-undefined", "-Wl,-s", "-Wl,-rpath,$ORIGIN", "-pthread"]
            options.append("-Wl,--version-script=csrc/cmake/exports.map")
            options += libraries
            self.compiler.link_shared_object(objects, str(library), extra_postargs=options, target_lang="c++")
            # A wheel holds no links: what -l finds first is a line for the linker.
            link.write_text(f"INPUT({library.name})\n")

    def copy_extensions_to_source(self):
        """In place, the headers are those of csrc/include and only the library has to be beside the module."""
        super().copy_extensions_to_source()
        here = Path(self.get_finalized_command("build_py").get_package_dir("idcwh_search"))
        (here / "lib").mkdir(exist_ok=True)
        for file in self.library_files(Path(self.build_lib) / "idcwh_search"):
            (here / "lib" / file.name).unlink(missing_ok=True)  # running programs keep the old file
            shutil.copyfile(file, here / "lib" / file.name)

    @staticmethod
    def library_files(package):
        names = []
        for name in ("libidcwh", "libidcwh_encoder"):
            names.append(f"{name}.a")
            if sys.platform == "linux":
                names += [f"{name}.so.{SOVERSION}", f"{name}.so"]
        return [package / "lib" / name for name in names]


ParallelCompile("IDCWH_BUILD_JOBS").install()
setup(
    ext_modules=[core],
    cmdclass={"build_ext": BuildWithLibrary},
    packages=find_packages(".", include=["idcwh_search*"]) + find_packages("train") + find_packages("export"),
    package_dir={
        "idcwh_train": "train/idcwh_train",
        "idcwh_reproduce": "train/idcwh_reproduce",
        "idcwh_export": "export/idcwh_export",
    },
    package_data={
        name: ["py.typed", "*.pyi"] for name in ("idcwh_search", "idcwh_train", "idcwh_reproduce", "idcwh_export")
    },
)
