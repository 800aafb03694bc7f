"""The codes of images in memory, for commands that need no database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._util import console
from .._util.wording import counted
from ..codes import code_bytes
from ..database.database import Database, check_same_model
from ..database.provenance import describe, open_encoder
from ..encoder.types import BatchEncoder
from ..images.listing import LeftOut
from . import common, encoding
from .inputs import ImageInputs


@dataclass
class ImageCodes:
    """The codes of the readable images of a folder or list, with the keys that idcwh-index build gives them.

    Attributes:
        path: the folder or list.
        root: folder to which keys are relative.
        bits, manifest: as in Database.
        codes, ids: codes and ids in the order of the images.
        skipped: path and reason of each unreadable image.
        left_out: files that are not among the images.
    """

    path: Path
    root: Path
    bits: int
    manifest: dict[str, Any]
    codes: np.ndarray
    names: list[str]
    skipped: list[dict[str, str]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def ids(self) -> np.ndarray:
        return np.arange(len(self.names))

    def keys(self, ids: np.ndarray) -> list[str | None]:
        """Returns the keys of these ids."""
        return [self.names[i] for i in ids.tolist()]

    def labels(self, ids: np.ndarray) -> list[str | None]:
        """Returns None per id, since labels are those of a database."""
        return [None] * len(ids)


def by_model(source: str, options: Any, reference: Database | None, check_bits: Callable[[int], None]) -> ImageCodes:
    """Returns the codes of the images by --model, or by the model of the reference.

    `check_bits` raises an error for a code length that does not fit, before the first image is read.
    """
    from ..encoder.encoder import Encoder

    inputs = _inputs(source)
    if reference is None:
        encoder = Encoder(options.model, **common.encoder_options(options))
    else:
        encoder = open_encoder(reference, options.model, **common.encoder_options(options))
    check_bits(encoder.bits)
    count = counted(len(inputs.paths), "image")
    console.note(f"{count}, {encoder.bits}-bit codes, model on {encoder.device} ({encoder.why})")
    manifest = describe(Path(source), encoder, inputs.root)
    return _encoded(source, inputs, encoder, encoder.bits, manifest)


def by_pdq(source: str, options: Any, reference: Database | None, check_bits: Callable[[int], None]) -> ImageCodes:
    """Returns the PDQ hashes of the images. Images of low quality are counted and left out.

    `check_bits` is that of `by_model`. Raises ModelMismatchError for a reference of other codes.
    """
    from ..encoder import pdq

    check_bits(pdq.BITS)
    manifest = {"hashes": {"order": "pdq"}}
    if reference is not None:
        none = ImageCodes(Path(source), Path(), pdq.BITS, manifest, np.zeros((0, pdq.BITS // 8), np.uint8), [])
        check_same_model(none, reference)  # type: ignore[arg-type]
    inputs, hasher = _inputs(source), pdq.Pdq(options.threads)
    found = _encoded(source, inputs, hasher, pdq.BITS + 8, manifest)
    good = found.codes[:, -1] >= pdq.LEAST_QUALITY
    if low := int((~good).sum()):
        console.note(f"left out {counted(low, 'image')} with too little detail (PDQ quality below {pdq.LEAST_QUALITY})")
    found.bits, found.codes = pdq.BITS, np.ascontiguousarray(found.codes[good, :-1])
    found.names = [name for name, kept in zip(found.names, good.tolist(), strict=True) if kept]
    return found


def _inputs(source: str) -> ImageInputs:
    inputs = ImageInputs(source, "none")
    console.note_all(inputs.left_out.lines())
    return inputs


def _encoded(
    source: str, inputs: ImageInputs, encoder: BatchEncoder, bits: int, manifest: dict[str, Any]
) -> ImageCodes:
    work = encoding.EncodeProgress(encoder, inputs.paths, source=source)
    rows: list[int] = []
    codes = [np.zeros((0, code_bytes(bits)), np.uint8)]
    for places, part in work:
        rows += places.tolist()
        codes.append(part)
    names = [inputs.keys[row] for row in rows]
    found = np.concatenate(codes)
    return ImageCodes(Path(source), inputs.root, bits, manifest, found, names, work.skipped, inputs.left_out)
