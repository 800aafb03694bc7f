"""Archives of plain arrays, .npz files: read without running code, each array against the CRC that its archive has.

`numpy.load` takes what is no archive for a pickle. Which arrays a file should have, and of which kind, is for its
readers to say.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from ..encoder import ort
from ..errors import CorruptFileError, IdcwhError, InvalidInputError
from . import npy

_SUFFIX = ".npy"


def read(path: Path, names: Iterable[str], expected: str) -> tuple[dict[str, np.ndarray], list[str]]:
    """Those of the arrays `names` that the archive has, and the names of all that it has.

    expected: what the file should hold, for the error. IdcwhError for a file that is no archive, holds Python objects,
    or is damaged; FileNotFoundError where there is none.
    """
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise IdcwhError(f"cannot be read: {error.strerror}", path=path) from None
    with file:
        if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
            raise CorruptFileError(f"one array; expected an .npz archive of {expected}", path=path)
        if not zipfile.is_zipfile(file):
            raise CorruptFileError(
                f"not an .npz archive of arrays, or cut off; expected {expected}, as numpy.savez writes them", path=path
            )
        try:
            with zipfile.ZipFile(file) as archive:
                found = [name.removesuffix(_SUFFIX) for name in archive.namelist()]
                members = {name: archive.getinfo(name + _SUFFIX) for name in names if name in found}
                _check_memory(path, sum(member.file_size for member in members.values()))
                return {name: _array(archive, member) for name, member in members.items()}, found
        except IdcwhError:
            raise
        except Exception as error:  # a damaged archive gives a dozen kinds
            cause = " ".join(str(error).split()) or type(error).__name__
            raise CorruptFileError(f"not an .npz archive of plain arrays, or damaged: {cause}", path=path) from None


def _check_memory(path: Path, size: int) -> None:
    """A small archive may hold arrays of any size: the system would end the process that unpacks them."""
    limit = ort.memory()
    if size > limit:
        raise InvalidInputError("holds arrays that do not fit into memory", path=path, found=f"{size:,} bytes",
                         expected=f"at most {limit:,}")  # fmt: skip


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        try:
            array = npy.read_array(file, member.file_size)
        except ValueError as error:
            raise ValueError(f"{member.filename} {error}") from None
        file.read(1)  # at the end zipfile compares the CRC, so the end has to be reached
    return array
