"""Folders of the C and C++ headers and libraries in this installation, for builds against the pip package.

    c++ -std=c++20 main.cpp -I$(python -c "import idcwh_search as ih; print(ih.get_include())") \\
        $(python -c "import idcwh_search as ih; print(ih.get_library_dir())")/libidcwh.a -pthread

docs/cpp.md describes the shared library, CMake and C.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def get_include() -> str:
    """Returns the folder for `-I`, with `idcwh/search.hpp`, `idcwh/encoder.hpp`, `idcwh/idcwh.h` and other headers."""
    installed = _PACKAGE / "include"
    # An editable installation uses the headers of the source tree.
    return str(installed if installed.is_dir() else _PACKAGE.parent / "csrc" / "include")


def get_library_dir() -> str:
    """Returns the folder for `-L`, with `libidcwh.a`, and on Linux `libidcwh.so` (for `-lidcwh`) and `libidcwh.so.0`.

    It also has `libidcwh_encoder` in the same forms, which turns images into pixels and codes.
    """
    return str(_PACKAGE / "lib")
