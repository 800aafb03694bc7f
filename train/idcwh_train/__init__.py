"""Training of hash models: backbones, hash layers, losses, the training loop and the model file.

The public names are loaded on first use, so that `import idcwh_train` does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

# public name -> module that defines it
_EXPORTS = {
    "DivergedError": "engine.divergence",
    "HashModel": "models.hash_model",
    "Options": "options",
    "Outcome": "engine.session",
    "RunDir": "engine.run_dir",
    "load_model": "engine.checkpoint",
    "save_model": "engine.checkpoint",
    "train": "engine.session",
}
__all__ = sorted(_EXPORTS)

if TYPE_CHECKING:
    from .engine.checkpoint import load_model as load_model
    from .engine.checkpoint import save_model as save_model
    from .engine.divergence import DivergedError as DivergedError
    from .engine.run_dir import RunDir as RunDir
    from .engine.session import Outcome as Outcome
    from .engine.session import train as train
    from .models.hash_model import HashModel as HashModel
    from .options import Options as Options


def __getattr__(name: str) -> object:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
