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

_DATABASE = ("database_codes", "database_labels")
_ARRAYS = ("query_codes", "query_labels", *_DATABASE)


@dataclass(frozen=True, eq=False)
class CodeSet:
    """Codes and labels of the queries and of the database.

    Attributes:
        bits: code length.
        query_codes, database_codes: packed codes, uint8 [n, ceil(bits/8)].
        query_labels, database_labels: int64 [n], or bool [n, C] for multi-label images.

    Without queries (None) the evaluation is leave-one-out.
    """

    bits: int
    query_codes: np.ndarray | None
    query_labels: np.ndarray | None
    database_codes: np.ndarray
    database_labels: np.ndarray

    def evaluate(self, **options: Any) -> Evaluation:
        """Returns the result of `metrics.evaluate` on these arrays. Options are those of `metrics.evaluate`."""
        alone = self.query_codes is None
        arrays = (getattr(self, name) for name in (_DATABASE if alone else _ARRAYS))
        return evaluate(*arrays, bits=self.bits, leave_one_out=alone, **options)

    def save(self, file: BinaryIO) -> None:
        """Writes an .npz archive of the arrays and `bits`, which `load` reads."""
        arrays = {name: getattr(self, name) for name in (_DATABASE if self.query_codes is None else _ARRAYS)}
        np.savez_compressed(file, bits=np.int64(self.bits), **arrays)


def load(path: str | Path, *, leave_one_out: bool = False) -> CodeSet:
    """Reads an .npz archive of query_codes, query_labels, database_codes, database_labels and bits.

    Shapes and dtypes of the four arrays are checked by `evaluate`. With `leave_one_out` the queries are not read.

    Raises:
        CorruptFileError: the file is not an .npz archive of plain arrays, or is corrupt.
        InvalidInputError: an array is missing, or `bits` is not one integer.
    """
    arrays_wanted = _DATABASE if leave_one_out else _ARRAYS
    wanted = (*arrays_wanted, "bits")
    arrays, names = npz.read(Path(path), wanted, f"{', '.join(arrays_wanted)} and bits")
    if missing := [name for name in wanted if name not in arrays]:
        found = ", ".join(names) or "nothing"
        raise InvalidInputError(f"array {missing[0]} is missing", path=path, found=found, expected=", ".join(wanted))
    bits = arrays.pop("bits")
    if bits.shape != () or bits.dtype.kind not in "iu":
        found = f"{bits.dtype} {list(bits.shape)}"
        raise InvalidInputError("array bits is invalid", path=path, found=found, expected="one whole number")
    queries = arrays.get("query_codes"), arrays.get("query_labels")
    return CodeSet(int(bits), *queries, arrays["database_codes"], arrays["database_labels"])


def encode(
    encoder: Encoder,
    dataset: LabelledImages,
    split: Split | None,
    *,
    on_skip: Callable[[str, str], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> tuple[CodeSet, Summary]:
    """Returns the codes of the split's queries and database, and counts and times of the run.

    Args:
        encoder: the model.
        dataset: the images.
        split: the rows that are queries and database; None for a database of all rows, without queries.
        on_skip: called as on_skip(key, reason) for each image that cannot be read, and is skipped.
        progress: called with the number of images encoded or skipped since the last call.

    Raises:
        InvalidInputError: no query or no database image can be read.
        UnreadableImage: an image cannot be read, and there is no `on_skip`.
    """
    from ..encoder.batch import encode_loaded
    from ..images.decoding import UnreadableImage

    if split is None:
        sizes = {"database": len(dataset)}
        rows = np.arange(len(dataset))
    else:
        sizes = {"query": len(split.query), "database": len(split.database)}
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
    arrays: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    starts = np.cumsum([*sizes.values()])[:-1]
    for part, positions in zip(sizes, np.split(np.arange(len(rows)), starts), strict=True):
        kept = positions[done[positions]]
        if not len(kept):
            raise InvalidInputError(
                f"none of {counted(len(positions), f'{part} image')} could be read", path=dataset.spec
            )
        arrays[part] = codes[kept], dataset.labels[rows[kept]]
    query_codes, query_labels = arrays.get("query", (None, None))
    return CodeSet(encoder.bits, query_codes, query_labels, *arrays["database"]), run.summary
