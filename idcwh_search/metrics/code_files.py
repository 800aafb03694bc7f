"""The four arrays that `evaluate` takes, as one object: made from a model and a split, or read from a file.

The file lets codes made anywhere be measured by the same metrics; docs/metrics.md says how to write one.
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
    """Packed codes uint8 [n, ceil(bits/8)] and labels (int64 [n] or bool [n, C]) of the queries and of the database."""

    bits: int
    query_codes: np.ndarray
    query_labels: np.ndarray
    database_codes: np.ndarray
    database_labels: np.ndarray

    def evaluate(self, **options: Any) -> Evaluation:
        """`metrics.evaluate` on these arrays."""
        return evaluate(*(getattr(self, name) for name in _ARRAYS), bits=self.bits, **options)

    def save(self, file: BinaryIO) -> None:
        """Write what `load` reads: an .npz archive of the arrays and `bits`."""
        np.savez_compressed(file, bits=np.int64(self.bits), **{name: getattr(self, name) for name in _ARRAYS})


def load(path: str | Path) -> CodeSet:
    """Reads an .npz archive of query_codes, query_labels, database_codes, database_labels and bits.

    Raises CorruptFileError for a file that is no such archive, InvalidInputError for one without an array. `evaluate`
    compares the arrays with each other.
    """
    wanted = (*_ARRAYS, "bits")
    arrays, names = npz.read(Path(path), wanted, f"{', '.join(_ARRAYS)} and bits")
    if missing := [name for name in wanted if name not in arrays]:
        found = ", ".join(names) or "nothing"
        raise InvalidInputError(f"lacks {', '.join(missing)}", path=path, found=found)
    bits = arrays.pop("bits")
    if bits.shape != () or bits.dtype.kind not in "iu":
        found = f"{bits.dtype} {list(bits.shape)}"
        raise InvalidInputError("has invalid bits", path=path, found=found, expected="one whole number")
    return CodeSet(int(bits), **arrays)


def encode(
    encoder: Encoder,
    dataset: LabelledImages,
    split: Split,
    *,
    on_skip: Callable[[str, str], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> tuple[CodeSet, Summary]:
    """Returns the codes of the split's queries and database. Decoding overlaps with inference.

    Images that cannot be read are left out, each named to on_skip(key, reason); without it the first is raised.
    progress gets the number of images done. Raises InvalidInputError when no query or no database image is left.
    """
    from ..encoder.batch import encode_loaded
    from ..images.decoding import UnreadableImage

    rows = np.concatenate([split.query, split.database])

    def pixels(position: int) -> np.ndarray:
        row = int(rows[position])
        try:
            return dataset.image(row, encoder.preprocess)
        except UnreadableImage as error:
            raise UnreadableImage(dataset.keys[row], error.reason) from error  # people know the image by its key

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
