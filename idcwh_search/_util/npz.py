"""Reading of .npz archives of plain arrays without unpickling, each array checked against its CRC.

`numpy.load` is not used, because it unpickles files that are not archives. Callers check names and dtypes of arrays.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from ..errors import CorruptFileError, IdcwhError, InvalidInputError
from . import hardware, npy

_SUFFIX = ".npy"


def read(path: Path, names: Iterable[str], expected: str) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns the requested arrays that the archive has, and the names of all its arrays.

    Args:
        path: the file.
        names: names of the arrays to read.
        expected: description of the content for errors.

    Raises:
        CorruptFileError: the file is not an archive, holds Python objects, or is corrupt.
        InvalidInputError: the file cannot be read, or does not fit into memory.
        FileNotFoundError: there is no file.
    """
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise InvalidInputError(f"cannot be read: {error.strerror}", path=path) from None
    with file:
        if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
            raise CorruptFileError(path=path, found="one array", expected=f"an .npz archive of {expected}")
        expected = f"{expected}, as numpy.savez writes them"
        if not zipfile.is_zipfile(file):
            raise CorruptFileError(path=path, expected=f"an .npz archive of {expected}")
        try:
            with zipfile.ZipFile(file) as archive:
                found = [name.removesuffix(_SUFFIX) for name in archive.namelist()]
                members = {name: archive.getinfo(name + _SUFFIX) for name in names if name in found}
                _check_memory(path, sum(member.file_size for member in members.values()))
                return {name: _array(archive, member) for name, member in members.items()}, found
        except IdcwhError:
            raise
        except Exception as error:  # a corrupt archive may raise many kinds
            cause = " ".join(str(error).split()) or type(error).__name__
            raise CorruptFileError(f"is corrupt: {cause}", path=path, expected=expected) from None


def _check_memory(path: Path, size: int) -> None:
    """Raises InvalidInputError for arrays larger than memory. The system would kill the process that unpacks them."""
    limit = hardware.memory()
    if size > limit:
        found, expected = f"{size:,} bytes", f"at most {limit:,}"
        raise InvalidInputError("does not fit into memory", path=path, found=found, expected=expected)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        try:
            array = npy.read_array(file, member.file_size)
        except ValueError as error:
            raise ValueError(f"{member.filename} {error}") from None
        file.read(1)  # zipfile compares the CRC only at the end of the member
    return array
