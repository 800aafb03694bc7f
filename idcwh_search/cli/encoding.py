"""What `idcwh-index build` and `add` share: options of the model, encoding with a bar, and the summary at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._util import console
from .._util.wording import counted
from ..encoder.encoder import Encoder
from ..errors import InvalidInputError
from ..images.listing import LeftOut
from . import common
from .content import checksum


def add_options(parser: Any) -> None:
    """Adds the options of the images, the encoder and the summary."""
    parser.add_argument(
        "--images",
        required=True,
        type=common.path,
        metavar="DIR_OR_LIST",
        help="a folder, a .tar file, a list of paths (one per line; - for stdin), or a manifest (.csv, .jsonl)",
    )
    parser.add_argument(
        "--labels",
        choices=("folder", "none"),
        default="folder",
        help="label images by their first folder below DIR, in a .tar file by their .cls file or folder (default); a "
        "manifest has its own, and may be without any with none",
    )
    common.add_encoder(parser.add_argument)
    parser.add_argument(
        "--batch-size", type=common.positive, metavar="N", help="images per run of the model (default: by device)"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


class EncodeProgress:
    """Encodes files with a progress bar. Unreadable ones are named and kept in `skipped`.

    sums: checksums of the files encoded so far, uint64 (n, 2).
    """

    def __init__(self, encoder: Encoder, paths: list[str], already: int = 0) -> None:
        """already: images that the database had before, so that none of these being readable is no failure."""
        from ..encoder.batch import encode_loaded

        self.skipped: list[dict[str, str]] = []
        self._paths, self._already = paths, already
        self._bar = console.progress_bar(total=len(paths), unit="image", desc="indexing")
        self.sums = np.zeros((len(paths), 2), np.uint64)
        self._encoder = encoder
        self._run = encode_loaded(encoder, len(paths), self._load, on_skip=self._skip, progress=self._bar.update)

    def _load(self, i: int) -> np.ndarray:
        self.sums[i] = checksum(self._paths[i])  # before the pixels: of a file that changes meanwhile it is the old one
        return self._encoder.pixels(self._paths[i])

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.append({"path": path, "reason": reason})
        self._bar.set_postfix(skipped=len(self.skipped), refresh=False)
        console.note(f"skipped {path}: {reason}")

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(numbers of the files, their codes), batch by batch."""
        with self._bar:
            yield from self._run
        if self._paths and self._run.summary.images == 0 and not self._already:
            count = counted(len(self._paths), "image")
            raise InvalidInputError(f"none of {count} could be read; nothing was written", path="--images")

    def summarise(self, target: Path, as_json: bool, left_out: LeftOut, **more: Any) -> int:
        """Prints the summary and returns the exit code. left_out: files that were not among the images."""
        summary, size = self._run.summary, target.stat().st_size
        done = [str(summary)] if self._paths else []  # nothing was encoded: no speed
        done += [f"{number} {name}" for name, number in more.items() if isinstance(number, int)]
        console.note(f"{target}: {', '.join(done)}; {size:,} bytes")
        if as_json:
            numbers = {
                "database": str(target),
                "images": summary.images,
                **more,
                "skipped": self.skipped,
                "left_out": left_out.to_dict(),
                "seconds": round(summary.seconds, 3),
                "images_per_second": round(summary.images_per_second, 1),
                "decode_seconds": round(summary.decode_seconds, 3),
                "inference_seconds": round(summary.inference_seconds, 3),
                "bytes": size,
            }
            json.dump(numbers, sys.stdout, indent=1)
            print()
        return common.SKIPPED if self.skipped or left_out.skipped else common.DONE
