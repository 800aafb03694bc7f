"""Exact image retrieval by binary hash codes: encode, index, search, evaluate.

Names are loaded on first use, so importing the package is fast, and a search of codes needs neither Pillow nor ONNX
Runtime. torch is never imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# public name -> module that defines it
_EXPORTS = {
    "pack": "codes",
    "unpack": "codes",
    "from_hex": "hexadecimal",
    "from_integers": "hexadecimal",
    "to_hex": "hexadecimal",
    "to_integers": "hexadecimal",
    "HammingIndex": "search.index",
    "isa": "search.index",
    "clusters": "search.join",
    "count_pairs": "search.join",
    "join": "search.join",
    "self_join": "search.join",
    "Database": "database.database",
    "merge_databases": "database.merge",
    "Encoder": "encoder.encoder",
    "Preprocess": "images.preprocess",
    "load_image": "images.preprocess",
    "evaluate": "metrics.evaluate",
    "get_include": "_util.build_paths",
    "get_library_dir": "_util.build_paths",
    "IdcwhError": "errors",
    "AlreadyExistsError": "errors",
    "CorruptFileError": "errors",
    "InvalidInputError": "errors",
    "LockedError": "errors",
    "MismatchError": "errors",
    "ModelMismatchError": "errors",
    "NotFoundError": "errors",
    "NotInstalledError": "errors",
    "NotSupportedError": "errors",
    "NotWrittenError": "errors",
    "UnreadableImage": "images.decoding",
}
__all__ = [*sorted(_EXPORTS), "__version__", "interchange"]

if TYPE_CHECKING:
    from . import interchange as interchange
    from ._util.build_paths import get_include as get_include
    from ._util.build_paths import get_library_dir as get_library_dir
    from .codes import pack as pack
    from .codes import unpack as unpack
    from .database.database import Database as Database
    from .database.merge import merge_databases as merge_databases
    from .encoder.encoder import Encoder as Encoder
    from .errors import AlreadyExistsError as AlreadyExistsError
    from .errors import CorruptFileError as CorruptFileError
    from .errors import IdcwhError as IdcwhError
    from .errors import InvalidInputError as InvalidInputError
    from .errors import LockedError as LockedError
    from .errors import MismatchError as MismatchError
    from .errors import ModelMismatchError as ModelMismatchError
    from .errors import NotFoundError as NotFoundError
    from .errors import NotInstalledError as NotInstalledError
    from .errors import NotSupportedError as NotSupportedError
    from .errors import NotWrittenError as NotWrittenError
    from .hexadecimal import from_hex as from_hex
    from .hexadecimal import from_integers as from_integers
    from .hexadecimal import to_hex as to_hex
    from .hexadecimal import to_integers as to_integers
    from .images.decoding import UnreadableImage as UnreadableImage
    from .images.preprocess import Preprocess as Preprocess
    from .images.preprocess import load_image as load_image
    from .metrics.evaluate import evaluate as evaluate
    from .search.index import HammingIndex as HammingIndex
    from .search.index import isa as isa
    from .search.join import clusters as clusters
    from .search.join import count_pairs as count_pairs
    from .search.join import join as join
    from .search.join import self_join as self_join


def __getattr__(name: str) -> object:
    if name == "interchange":
        return importlib.import_module(".interchange", __name__)
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
