"""`idcwh-export`: model.pt to model.onnx, and no file unless it computes what the model computes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idcwh_search.cli import common
from idcwh_search.errors import IdcwhError

if TYPE_CHECKING:
    from .export import Exported

EPILOG = """\
examples:
  idcwh-export model.pt --onnx                              write model.onnx, checked on the images kept in model.pt
  idcwh-export model.pt --onnx m.onnx --verify photos/      checked on images of your own

exit codes: 0 written, 1 failed and nothing written, 2 usage, 3 written, but some images could not be read
"""


def parser() -> common.Parser:
    """The command's options."""
    made = common.Parser(
        prog="idcwh-export",
        description="Write a trained model as one ONNX file, and compare the two bit by bit on real images. "
        "A difference that is more than rounding at zero is an error, and leaves no file behind.",
        epilog=EPILOG,
    ).with_version()
    made.add_argument("model", type=Path, metavar="model.pt", help="what idcwh-train wrote")
    made.add_argument(
        "--onnx",
        nargs="?",
        const="",
        required=True,
        metavar="OUT",
        help="write ONNX (default: the name of model.pt with .onnx)",
    )
    made.add_argument(
        "--verify",
        metavar="IMAGES",
        help="compare on a folder of images, an image, or a list of images (default: those kept in model.pt)",
    )
    made.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where ONNX Runtime runs for the comparison; torch runs on the CPU (default: auto)",
    )
    made.add_argument("--opset", type=int, metavar="N", help="ONNX opset, 18 to 23 (default: 18)")
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    return made


@common.command
def main(argv: list[str] | None = None) -> int:
    """The command."""
    options = parser().parse_args(argv)
    out = Path(options.onnx) if options.onnx else options.model.with_suffix(".onnx")
    if out == options.model:
        raise IdcwhError(f"{out}: is the model itself; choose another name for the ONNX file")
    if not options.model.is_file():
        raise IdcwhError(f"{options.model}: no such file; expected a model.pt written by idcwh-train")
    images = None
    if options.verify is not None:
        from idcwh_search.image_lists import list_images

        images = list_images(options.verify)
    skipped: list[dict[str, str]] = []

    def skip(path: str, reason: str) -> None:
        skipped.append({"path": path, "reason": reason})
        common.note(f"skipped {path}: {reason}")

    export = _load_export()
    common.note(f"exporting {options.model}")
    opset = export.graph.OPSET if options.opset is None else options.opset
    done = export.export_onnx(options.model, out, images=images, device=options.device, opset=opset, on_skip=skip)
    _report(done, skipped, as_json=options.json)
    return common.SKIPPED if skipped else common.DONE


def _load_export() -> Any:
    """torch takes seconds to load, which --help and a mistyped option need not wait for; or it is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401

        from . import export
    except ModuleNotFoundError as error:
        raise IdcwhError(f"{error.name} is not installed: pip install 'idcwh[export]'") from error
    return export


def _report(done: Exported, skipped: list[dict[str, str]], *, as_json: bool) -> None:
    found = done.comparison
    common.note(f"compared with torch by ONNX Runtime on {done.device} ({done.why})")
    if not as_json:
        print(found)
        print(f"{done.path}: {done.info.bits} bits, {done.size:,} bytes, sha256 {done.fingerprint}")
        return
    result = {
        "path": str(done.path),
        "bytes": done.size,
        "sha256": done.fingerprint,
        "bits": done.info.bits,
        "device": done.device,
        "images": found.images,
        "batches": sorted(found.batches),
        "bits_compared": found.bits,
        "bits_differing": found.differing,
        "largest_logit_differing": found.largest,
        "logit_distance": found.distance,
        "logit_scale": found.scale,
        "skipped": skipped,
    }
    json.dump(result, sys.stdout, indent=2)
    print()
