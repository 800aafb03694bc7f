"""The import graph of the packages: no circles, no import of an upper layer, no command line in a library."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "idcwh_search": ROOT,
    "idcwh_train": ROOT / "train",
    "idcwh_reproduce": ROOT / "train",
    "idcwh_export": ROOT / "export",
}
MAY_IMPORT = {
    "idcwh_search": {"idcwh_search"},
    "idcwh_train": {"idcwh_train", "idcwh_search"},
    "idcwh_reproduce": {"idcwh_reproduce", "idcwh_train", "idcwh_search"},
    "idcwh_export": {"idcwh_export", "idcwh_train", "idcwh_search"},
}


def modules() -> dict[str, Path]:
    """Returns the file of each module."""
    result = {}
    for package, base in PACKAGES.items():
        for file in (base / package).rglob("*.py"):
            parts = file.relative_to(base).with_suffix("").parts
            result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return result


MODULES = modules()


def imports(module: str) -> set[str]:
    """Returns the project's modules that a module imports, also inside functions. Imports for type checkers do not
    count.
    """
    file = MODULES[module]
    tree = ast.parse(file.read_text())
    unused = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    result = set()
    for node in ast.walk(tree):
        if id(node) in unused:
            continue
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], base]).rstrip(".")
            result |= {name if (name := f"{base}.{alias.name}") in MODULES else base for alias in node.names}
    return {name for name in result if name in MODULES and name != module}


GRAPH = {module: imports(module) for module in MODULES}


def test_graph_covers_the_packages():
    assert (
        len(GRAPH) > 100
        and "idcwh_search.codes" in GRAPH["idcwh_search.search.index"] | GRAPH["idcwh_search.search.base"]
    )


def test_imports_have_no_circles():
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way_between_folders(package):
    """No folder or single module imports another one that imports it, directly or indirectly."""
    graph: dict[str, set[str]] = {}
    for module, others in GRAPH.items():
        if module.startswith(f"{package}."):
            folder = module.split(".")[1]
            graph.setdefault(folder, set()).update(
                other.split(".")[1] for other in others if other.startswith(f"{package}.")
            )
            graph[folder].discard(folder)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_imports_go_one_way_between_packages():
    for module, others in GRAPH.items():
        package = module.split(".")[0]
        assert {other.split(".")[0] for other in others} <= MAY_IMPORT[package], module


def test_util_imports_no_other_folder():
    for module, others in GRAPH.items():
        if module.startswith("idcwh_search._util"):
            folders = {other.split(".")[1] for other in others if other.count(".")}
            assert folders <= {"_util", "_core", "errors"}, module


def test_libraries_do_not_import_command_lines():
    for module, others in GRAPH.items():
        if not {"cli", "__main__"} & set(module.split(".")):
            assert not [other for other in others if "cli" in other.split(".")], module
