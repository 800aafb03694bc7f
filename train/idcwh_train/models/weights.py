"""Files of tensors as others wrote them: torch.save's, and .safetensors. Read whole, and never running code of theirs.

What the tensors should be is for the readers to say, `checkpoint` (files of ours) and `backbones` (pretrained weights).
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
    """Tensors and plain Python from a file, on the CPU.

    expected: the format of the file, for errors. Raises IdcwhError for a file that is missing, corrupt, of another
    format, or that holds Python objects.
    """
    try:
        with path.open("rb") as file:
            return _safetensors(file) if path.suffix == _SAFETENSORS else _torch(file)
    except FileNotFoundError:
        raise NotFoundError(path=path) from None
    except _PythonObjects:
        raise NotSupportedError(
            path=path,
            found="Python objects",
            expected=expected,
            hint="save state_dict() instead of the model, since Python objects are never loaded",
        ) from None
    except _Damaged:
        if model_file.metadata(path.read_bytes()) is not None:
            raise InvalidInputError(path=path, found="an ONNX model", expected=expected) from None
        raise CorruptFileError(path=path, expected=expected) from None
    except OSError as error:
        raise IdcwhError(f"cannot be read: {error.strerror or error}", path=path) from None


class _Damaged(Exception):
    """The bytes are not those that were written, or were written by something else."""


class _PythonObjects(Exception):
    """Loading them would run code of the file."""


def _torch(file: BinaryIO) -> Any:
    """What torch.save wrote. torch does not compare the CRC that a zip has of each of its parts, so a flipped bit in a
    weight would go unnoticed; zipfile does, at the speed of zlib.crc32. Files of before torch 1.6 have none.
    """
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as parts:
                # torch reads nothing of a part that is marked as a folder: its tensor would be what the memory held
                if parts.testzip() is not None or any(part.external_attr & _FOLDER for part in parts.infolist()):
                    raise _Damaged
        file.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of how an old or damaged file was pickled
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch names each class or function that it does not let a file call so; other bytes are no pickle at all
        raise (_PythonObjects if "GLOBAL" in str(error) else _Damaged) from None
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # of a place that a damaged file points to, before its beginning
            raise _Damaged from None
        raise
    except Exception:  # damaged structures give a dozen kinds
        raise _Damaged from None


def _safetensors(file: BinaryIO) -> Any:
    try:
        import safetensors.torch  # comes with timm
    except ImportError as error:
        raise NotInstalledError(f"{not_installed(error)}", path=file.name) from None
    try:
        return safetensors.torch.load(file.read())
    except OSError:
        raise
    except Exception:  # a damaged header gives several kinds
        raise _Damaged from None
