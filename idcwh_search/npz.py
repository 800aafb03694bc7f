"""Archives of plain arrays, .npz files: read without running code, each array against the CRC that its archive has.

`numpy.load` takes what is no archive for a pickle, and does not come to the CRC of an array whose header was damaged
into that of a smaller one. Which arrays a file should have, and of which kind, is for its readers to say.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array

from .errors import IdcwhError

_SUFFIX = ".npy"


def read(path: Path, names: Iterable[str], expected: str) -> tuple[dict[str, np.ndarray], list[str]]:
    """Those of the arrays `names` that the archive has, and the names of all that it has.

    expected: what the file should hold, for the error. IdcwhError for a file that is no archive, holds Python objects,
    or is damaged; FileNotFoundError where there is none.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise IdcwhError(f"{path}: cannot be read: {error.strerror}") from None
    with file:
        if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
            raise IdcwhError(f"{path}: one array; expected an .npz archive of {expected}")
        if not zipfile.is_zipfile(file):
            raise IdcwhError(
                f"{path}: not an .npz archive of arrays, or cut off; expected {expected}, as numpy.savez writes them"
            )
        try:
            with zipfile.ZipFile(file) as archive, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python's, about headers that are damaged
                found = [name.removesuffix(_SUFFIX) for name in archive.namelist()]
                return {name: _array(archive, name) for name in names if name in found}, found
        except Exception as error:  # a damaged archive gives a dozen kinds
            cause = " ".join(str(error).split()) or type(error).__name__
            if "Object arrays" in cause:
                cause = "it holds Python objects, which are never loaded; save plain arrays"
            raise IdcwhError(f"{path}: not an .npz archive of plain arrays, or damaged: {cause}") from None


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name + _SUFFIX) as member:
        array: np.ndarray = read_array(member, allow_pickle=False)
        if member.read(1):  # at the end zipfile compares the CRC, so the end has to be reached
            raise ValueError(f"{name} is longer than its header says")
    return array
