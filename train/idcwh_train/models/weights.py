"""Reads files of tensors, of torch.save and .safetensors, without running code that they contain.

The callers check the tensors: `checkpoint` for our files and `backbones` for pretrained weights.
"""

from __future__ import annotations

import errno
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

from idcwh_search.encoder import model_file
from idcwh_search.errors import (
    CorruptFileError,
    IdcwhError,
    InvalidInputError,
    NotFoundError,
    NotInstalledError,
    NotSupportedError,
    not_installed,
)

_SAFETENSORS = ".safetensors"
_FOLDER = 0x10  # of MS-DOS's attributes, which a zip has


def read(path: Path, expected: str) -> Any:
    """Returns tensors on the CPU and plain Python from a file.

    expected: the format of the file, for errors. Raises IdcwhError for a file that is missing, corrupt, of another
    format, or that holds Python objects.
    """
    try:
        with path.open("rb") as file:
            return _safetensors(file) if path.suffix == _SAFETENSORS else _torch(file)
    except FileNotFoundError:
        raise NotFoundError(path=path) from None
    except _PythonObjectsError:
        raise NotSupportedError(
            path=path,
            found="Python objects",
            expected=expected,
            hint="save state_dict() instead of the model, since Python objects are never loaded",
        ) from None
    except _CorruptError:
        if model_file.metadata(path.read_bytes()) is not None:
            raise InvalidInputError(path=path, found="an ONNX model", expected=expected) from None
        raise CorruptFileError(path=path, expected=expected) from None
    except OSError as error:
        raise IdcwhError(f"cannot be read: {error.strerror or error}", path=path) from None


class _CorruptError(Exception):
    """The file is corrupt, or has another format."""


class _PythonObjectsError(Exception):
    """The file holds Python objects, which would run its code."""


def _torch(file: BinaryIO) -> Any:
    """Returns the content of a file of torch.save.

    zipfile compares the CRC of each part, which torch does not. Files from before torch 1.6 have none.
    """
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as parts:
                # torch reads nothing of a part that is marked as a folder: its tensor would be what the memory held
                if parts.testzip() is not None or any(part.external_attr & _FOLDER for part in parts.infolist()):
                    raise _CorruptError
        file.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of how an old or corrupt file was pickled
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch names each class or function that it does not let a file call so; other bytes are no pickle at all
        raise (_PythonObjectsError if "GLOBAL" in str(error) else _CorruptError) from None
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # of a place that a corrupt file points to, before its beginning
            raise _CorruptError from None
        raise
    except Exception:  # corrupt structures give a dozen kinds
        raise _CorruptError from None


def _safetensors(file: BinaryIO) -> Any:
    try:
        import safetensors.torch  # comes with timm
    except ImportError as error:
        raise NotInstalledError(f"{not_installed(error)}", path=file.name) from None
    try:
        return safetensors.torch.load(file.read())
    except OSError:
        raise
    except Exception:  # a corrupt header gives several kinds
        raise _CorruptError from None
