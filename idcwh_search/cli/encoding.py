"""Code shared by `idcwh-index build` and `add`: options, encoding with a progress bar, and the final summary."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._util import console
from .._util.wording import counted
from ..encoder.types import BatchEncoder
from ..errors import InvalidInputError
from ..images.listing import LeftOut
from . import common
from .content import checksum

LABELS = """With --labels folder, the label of an image is the first folder of its key that is not called train,
test or val. In a tar file it is the text of the .cls file of the same name, if there is one. A
manifest has its own labels. With --labels none it may have none."""


def add_images(parser: Any) -> Any:
    """Adds the options of the images, and returns the add_argument of their group."""
    add = parser.add_argument_group("images").add_argument
    add(
        "--images",
        required=True,
        type=common.path,
        metavar="IMAGES",
        help="folder, .tar file, list of paths (one per line, - for stdin), or manifest (.csv, .jsonl)",
    )
    add(
        "--labels",
        choices=("folder", "none"),
        default="folder",
        help="source of the labels (default folder), see below",
    )
    return add


def add_encoder(parser: Any, **model: Any) -> None:
    """Adds the options of the encoder. `model` are the arguments of `common.add_model`."""
    add = common.add_model(parser, **model)
    help = "images per inference batch (default 8 on a CPU, 64 on a GPU)"
    add("--batch-size", type=common.positive, metavar="N", help=help)


def add_output(parser: Any) -> None:
    """Adds the option of the summary."""
    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="summary on stdout, as JSON")


class EncodeProgress:
    """An encoding of files with a progress bar. Unreadable files are reported and kept in `skipped`.

    Attributes:
        skipped: path and reason of each unreadable file.
        sums: checksums of the files encoded so far, uint64 (n, 2).
    """

    def __init__(self, encoder: BatchEncoder, paths: list[str], already: int = 0, source: str = "--images") -> None:
        """Prepares the encoding of `paths`.

        If none of them can be read, iteration raises InvalidInputError with the path `source`, unless `already` > 0
        images are stored.
        """
        from ..encoder.batch import encode_loaded

        self.skipped: list[dict[str, str]] = []
        self._paths, self._already, self._source = paths, already, source
        self._bar = console.progress_bar(total=len(paths), unit="image", desc="indexing")
        self.sums = np.zeros((len(paths), 2), np.uint64)
        self._encoder = encoder
        self._run = encode_loaded(encoder, len(paths), self._load, on_skip=self._skip, progress=self._bar.update)

    def _load(self, i: int) -> np.ndarray:
        self.sums[i] = checksum(self._paths[i])  # before the pixels, so that a change of the file is noticed next time
        return self._encoder.pixels(self._paths[i])

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.append({"path": path, "reason": reason})
        self._bar.set_postfix(skipped=len(self.skipped), refresh=False)
        console.note(f"skipped {path}: {reason}")

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields batches of positions in `paths` and codes."""
        with self._bar:
            yield from self._run
        if self._paths and self._run.summary.images == 0 and not self._already:
            count = counted(len(self._paths), "image")
            raise InvalidInputError(f"none of {count} could be read; nothing was written", path=self._source)

    def summarise(self, target: Path, as_json: bool, left_out: LeftOut, **more: Any) -> int:
        """Prints the summary and returns the exit code.

        Args:
            target: the database.
            as_json: True to print JSON on stdout as well.
            left_out: files that are not among the images.
            more: further fields of the summary.
        """
        summary, size = self._run.summary, target.stat().st_size
        done = [str(summary)] if self._paths else []  # no speed if nothing was encoded
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
