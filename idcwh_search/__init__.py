"""Exact image retrieval by binary hash codes: encode, index, search, evaluate.

Names are loaded on first use, so that `import idcwh_search` costs nothing and a machine that only searches codes
needs neither Pillow nor ONNX Runtime. Nothing here imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# public name -> module that defines it
_EXPORTS = {
    "pack": "codes",
    "unpack": "codes",
    "HammingIndex": "index",
    "isa": "index",
    "Database": "database",
    "Encoder": "encoder",
    "Preprocess": "images",
    "load_image": "images",
    "evaluate": "metrics",
    "get_include": "linking",
    "get_library_dir": "linking",
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
}
__all__ = [*sorted(_EXPORTS), "__version__", "interchange"]

if TYPE_CHECKING:
    from . import interchange as interchange
    from .codes import pack as pack
    from .codes import unpack as unpack
    from .database import Database as Database
    from .encoder import Encoder as Encoder
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
    from .images import Preprocess as Preprocess
    from .images import load_image as load_image
    from .index import HammingIndex as HammingIndex
    from .index import isa as isa
    from .linking import get_include as get_include
    from .linking import get_library_dir as get_library_dir
    from .metrics import evaluate as evaluate


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
