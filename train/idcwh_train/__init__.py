"""Training of hash models: backbones, the hash layer, the losses, the loop, and the model file.

The names people write in scripts are loaded on first use, so that `import idcwh_train` does not cost the seconds that
torch does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

# public name -> module that defines it
_EXPORTS = {
    "HashModel": "models.hash_model",
    "load_model": "engine.checkpoint",
    "save_model": "engine.checkpoint",
}
__all__ = sorted(_EXPORTS)

if TYPE_CHECKING:
    from .engine.checkpoint import load_model as load_model
    from .engine.checkpoint import save_model as save_model
    from .models.hash_model import HashModel as HashModel


def __getattr__(name: str) -> object:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
