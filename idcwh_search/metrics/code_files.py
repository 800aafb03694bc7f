"""The arguments of `evaluate` as one object, computed from a model and a split or read from an .npz file.

With such a file, codes of other programs are evaluated by the same metrics. docs/metrics.md describes its format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from .._util import npz
from .._util.wording import counted
from ..errors import InvalidInputError
from .evaluate import evaluate
from .result import Evaluation

if TYPE_CHECKING:
    from ..datasets import LabelledImages
    from ..encoder.batch import Summary
    from ..encoder.encoder import Encoder
    from ..splits.protocols import Split

_ARRAYS = ("query_codes", "query_labels", "database_codes", "database_labels")


@dataclass(frozen=True, eq=False)
class CodeSet:
    """Codes and labels of the queries and of the database.

    Attributes:
        bits: code length.
        query_codes, database_codes: packed codes, uint8 [n, ceil(bits/8)].
        query_labels, database_labels: int64 [n], or bool [n, C] for multi-label images.
    """

    bits: int
    query_codes: np.ndarray
    query_labels: np.ndarray
    database_codes: np.ndarray
    database_labels: np.ndarray

    def evaluate(self, **options: Any) -> Evaluation:
        """Returns the result of `metrics.evaluate` on these arrays. Options are those of `metrics.evaluate`."""
        return evaluate(*(getattr(self, name) for name in _ARRAYS), bits=self.bits, **options)

    def save(self, file: BinaryIO) -> None:
        """Writes an .npz archive of the arrays and `bits`, which `load` reads."""
        np.savez_compressed(file, bits=np.int64(self.bits), **{name: getattr(self, name) for name in _ARRAYS})


def load(path: str | Path) -> CodeSet:
    """Reads an .npz archive of query_codes, query_labels, database_codes, database_labels and bits.

    Shapes and dtypes of the four arrays are checked by `evaluate`.

    Raises:
        CorruptFileError: the file is not an .npz archive of plain arrays, or is corrupt.
        InvalidInputError: an array is missing, or `bits` is not one integer.
    """
    wanted = (*_ARRAYS, "bits")
    arrays, names = npz.read(Path(path), wanted, f"{', '.join(_ARRAYS)} and bits")
    if missing := [name for name in wanted if name not in arrays]:
        found = ", ".join(names) or "nothing"
        raise InvalidInputError(f"array {missing[0]} is missing", path=path, found=found, expected=", ".join(wanted))
    bits = arrays.pop("bits")
    if bits.shape != () or bits.dtype.kind not in "iu":
        found = f"{bits.dtype} {list(bits.shape)}"
        raise InvalidInputError("array bits is invalid", path=path, found=found, expected="one whole number")
    return CodeSet(int(bits), **arrays)


def encode(
    encoder: Encoder,
    dataset: LabelledImages,
    split: Split,
    *,
    on_skip: Callable[[str, str], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> tuple[CodeSet, Summary]:
    """Returns the codes of the split's queries and database, and counts and times of the run.

    Args:
        encoder: the model.
        dataset: the images.
        split: the rows that are queries and database.
        on_skip: called as on_skip(key, reason) for each image that cannot be read, and is skipped.
        progress: called with the number of images encoded or skipped since the last call.

    Raises:
        InvalidInputError: no query or no database image can be read.
        UnreadableImage: an image cannot be read, and there is no `on_skip`.
    """
    from ..encoder.batch import encode_loaded
    from ..images.decoding import UnreadableImage

    rows = np.concatenate([split.query, split.database])

    def pixels(position: int) -> np.ndarray:
        row = int(rows[position])
        try:
            return dataset.image(row, encoder.preprocess)
        except UnreadableImage as error:
            raise UnreadableImage(dataset.keys[row], error.reason) from error  # users know the image by its key

    run = encode_loaded(encoder, len(rows), pixels, on_skip=on_skip, progress=progress)
    codes = np.zeros((len(rows), encoder.code_bytes), np.uint8)
    done = np.zeros(len(rows), bool)
    for positions, some in run:
        codes[positions] = some
        done[positions] = True
    parts = []
    for part, positions in zip(("query", "database"), np.split(np.arange(len(rows)), [len(split.query)]), strict=True):
        kept = positions[done[positions]]
        if not len(kept):
            raise InvalidInputError(
                f"none of {counted(len(positions), f'{part} image')} could be read", path=dataset.spec
            )
        parts += [codes[kept], dataset.labels[rows[kept]]]
    return CodeSet(encoder.bits, *parts), run.summary
