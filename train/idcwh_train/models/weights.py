"""Reading of tensor files of torch.save and .safetensors, without running code from the files.

The callers check the tensors: `checkpoint` those of idcwh-train, and `backbones` pretrained weights.
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
_FOLDER = 0x10  # the MS-DOS attribute of a folder in a zip archive


def read(path: Path, expected: str) -> Any:
    """Returns the content of a file, tensors on the CPU and plain Python.

    expected: the format of the file, for errors. Raises IdcwhError for a file that is missing, corrupt, of another
    format, or that contains Python objects.
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
            hint="save state_dict() instead of the model; Python objects are never loaded",
        ) from None
    except _CorruptError:
        if model_file.metadata(path.read_bytes()) is not None:
            raise InvalidInputError(path=path, found="an ONNX model", expected=expected) from None
        raise CorruptFileError(path=path, expected=expected) from None
    except OSError as error:
        raise IdcwhError(f"cannot be read: {error.strerror or error}", path=path) from None


class _CorruptError(Exception):
    """A file that is corrupt, or has another format."""


class _PythonObjectsError(Exception):
    """A file with Python objects, whose loading could run code."""


def _torch(file: BinaryIO) -> Any:
    """Returns the content of a file of torch.save.

    zipfile checks the CRC of each part, which torch does not. Files of torch before 1.6 are not zip archives.
    """
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as parts:
                # torch does not read a part that is marked as a folder, and its tensor would be uninitialized memory
                if parts.testzip() is not None or any(part.external_attr & _FOLDER for part in parts.infolist()):
                    raise _CorruptError
        file.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about the pickle protocol of old or corrupt files
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch reports a forbidden class or function as GLOBAL; other messages mean an invalid pickle
        raise (_PythonObjectsError if "GLOBAL" in str(error) else _CorruptError) from None
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # a corrupt file has an offset before its start
            raise _CorruptError from None
        raise
    except Exception:  # corrupt structures cause many types of errors
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
    except Exception:  # a corrupt header causes several types of errors
        raise _CorruptError from None
