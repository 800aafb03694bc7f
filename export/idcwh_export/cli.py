"""The command idcwh-export, which writes a verified model.onnx from a model.pt."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idcwh_search._util import console
from idcwh_search.cli import common
from idcwh_search.encoder.cuda import NO_GPU
from idcwh_search.encoder.device import DEVICES
from idcwh_search.encoder.metadata import PRECISIONS
from idcwh_search.errors import InvalidInputError, NotFoundError, not_installed

from . import OPSETS

if TYPE_CHECKING:
    from .export import Export, Exported

_EXPECTED = "a model.pt of idcwh-train"
_BESIDE_MODEL = True  # --onnx without OUT; argparse would convert a string

EPILOG = """\
examples:
  idcwh-export model.pt --onnx                             model.onnx, verified on images in model.pt
  idcwh-export model.pt --onnx m.onnx --verify photos/     verified on other images
  idcwh-export model.pt --onnx --precision fp32 fp16 int8  model.onnx, model.fp16.onnx, model.int8.onnx
  idcwh-export --info model.onnx                           inputs, outputs and verification
  idcwh-export --list runs/                                one line per model

exit codes: 0 written, 1 failed and nothing written, 2 wrong usage, 3 written with skipped images
"""


def parser() -> common.Parser:
    """Returns the command's options."""
    made = common.Parser(
        prog="idcwh-export",
        description="Write a trained model as ONNX, and compare its codes with the model's on real images.\n"
        "If they differ by more than rounding, the command fails and writes no file.",
        epilog=EPILOG,
    ).with_version()
    made.add_argument("model", nargs="?", type=common.path, metavar="model.pt", help="model of idcwh-train")
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--onnx",
        nargs="?",
        const=_BESIDE_MODEL,
        type=common.path,
        metavar="OUT",
        help="output file (default model.pt with the suffix .onnx)",
    )
    what.add_argument("--info", type=common.path, metavar="model.onnx", help="description of a model.onnx")
    what.add_argument(
        "--list", nargs="+", type=common.path, metavar="PATH", help="table of the models in these files and folders"
    )
    made.add_argument(
        "--precision",
        nargs="+",
        choices=PRECISIONS,
        default=["fp32"],
        help="precision of the backbone, one file each (default fp32)",
    )
    made.add_argument(
        "--verify",
        type=common.path,
        metavar="IMAGES",
        help="images for the comparison: a labelled dataset, folder, image or list (default those in model.pt)",
    )
    made.add_argument(
        "--limit", type=common.positive, metavar="N", help="number of these images, evenly spaced (default all)"
    )
    made.add_argument(
        "--calibrate",
        type=common.path,
        metavar="IMAGES",
        help="images for the calibration of int8 (default those in model.pt)",
    )
    made.add_argument(
        "--device",
        choices=DEVICES,
        default="auto",
        help="device of ONNX Runtime in the comparison (default auto, every available device)",
    )
    made.add_argument("--opset", type=_opset, metavar="N", help="ONNX opset, 18 to 23 (default 18)")
    made.add_argument(
        "--simplify", action="store_true", help="basic graph optimisations of ONNX Runtime, for other runtimes"
    )
    made.add_argument("--json", action="store_true", help="JSON output")
    return made


def _opset(text: str) -> int:
    """Returns the opset of an argument."""
    return common.whole(text, OPSETS.start, OPSETS.stop - 1)


@common.command
def main(argv: list[str] | None = None) -> int:
    """Runs the command."""
    made = parser()
    options = made.parse_args(argv)
    if options.onnx is None:
        if options.model is not None:
            made.error(f"{options.model}: is not supported without --onnx; pass files to --info or --list")
        for name in ("precision", "verify", "limit", "calibrate", "device", "opset", "simplify"):
            if getattr(options, name) != made.get_default(name):
                made.error(f"--{name}: is not supported without --onnx")
        return _describe(options)
    if options.model is None:
        used = f" ({options.onnx} is OUT, the file to write)" if options.onnx is not _BESIDE_MODEL else ""
        made.error(f"model.pt: is missing{used}; pass it first: idcwh-export model.pt --onnx")
    if options.limit is not None and options.verify is None:
        made.error("--limit: is not supported without --verify IMAGES")
    if options.calibrate is not None and "int8" not in options.precision:
        made.error("--calibrate: is not supported without --precision int8")
    return _export(options)


def _describe(options: Any) -> int:
    from . import describe

    try:
        described: Any = (
            describe.listed(options.list) if options.info is None else describe.describe(Path(options.info))
        )
    except ImportError as error:
        raise not_installed(error, "export") from None
    shown = "" if options.json else describe.table(described) if options.info is None else describe.text(described)
    print(json.dumps(described, indent=2) if options.json else shown)
    return common.FAILED if options.info is not None and describe.changed(described) else common.DONE


def _export(options: Any) -> int:
    model = Path(options.model)
    out = model.with_suffix(".onnx") if options.onnx is _BESIDE_MODEL else Path(options.onnx)
    if not model.is_file():
        if not model.exists():
            raise NotFoundError(path=model, expected=_EXPECTED)
        raise InvalidInputError(path=model, found="a folder", expected=_EXPECTED)
    if model.suffix.lower() == ".onnx":
        raise InvalidInputError(path=model, found="an ONNX model", expected=_EXPECTED)
    skipped: list[dict[str, str]] = []

    def skip(path: str, reason: str) -> None:
        skipped.append({"path": path, "reason": reason})
        console.note(f"skipped {path}: {reason}")

    export = _load_export()
    console.note(f"exporting {model}")
    done = export.export_onnx(
        model,
        out,
        precisions=options.precision,
        images=options.verify,
        calibration=options.calibrate,
        limit=options.limit,
        device=options.device,
        opset=options.opset or OPSETS.start,
        simplify=options.simplify,
        on_skip=skip,
    )
    _report(done, skipped, as_json=options.json)
    return common.SKIPPED if skipped or done.left_out.skipped else common.DONE


def _load_export() -> Any:
    """Returns the module `export`. It loads torch, which takes seconds, so --help and usage errors do not need it."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401

        from . import export
    except ImportError as error:
        raise not_installed(error, "export") from None
    return export


def _report(done: Export, skipped: list[dict[str, str]], *, as_json: bool) -> None:
    from .export import SEEN

    console.note_all(done.left_out.lines())
    devices = [f"not on {device}: {why}" for device, why in done.passed_over.items() if not why.startswith(NO_GPU)]
    if not devices and done.passed_over:
        devices = ["on the CPU"]
    relevant = "labels" if done.labelled else "the nearest by the model's logits"
    console.note(f"compared with torch on {done.origin}, by ONNX Runtime ({'; '.join(devices) or 'on every device'})")
    if any(file.calibration == SEEN for file in done.files):
        console.note("int8 was calibrated and compared on the same images; compare on others with --verify IMAGES")
    if as_json:
        about: dict[str, Any] = {"images": done.origin, "relevant": relevant, "not_compared_on": done.passed_over}
        about |= {"skipped": skipped, "left_out": done.left_out.to_dict()}
        print(json.dumps({"files": [_numbers(file) for file in done.files], **about}, indent=2))
        sys.stdout.flush()
        return
    for file in done.files:
        summary = f"{file.info.bits} bits, {file.info.precision}, {file.size:,} bytes, sha256 {file.fingerprint}"
        print(console.one_line(f"{file.path}: {summary}"))
        if file.float_layers is not None:
            calibrated = console.one_line(f"calibrated on {file.calibration}")
            print(f"  the first {file.float_layers} layers stay in float32; {calibrated}")
        half = {} if file.half is None else {"half arithmetic (emulated)": file.half}
        for device, comparison in {**file.comparisons, **half}.items():
            print(f"  {device}: {comparison}")
            speed = f"{comparison.images_per_second:.0f} images/s"
            if comparison.map_before is not None and comparison.map_after is not None:
                maps = f"MAP {comparison.map_before:.4f} -> {comparison.map_after:.4f} (relevant: {relevant})"
                print(f"  {device}: {maps}; {speed}")
            else:
                print(f"  {device}: {speed}")


def _numbers(file: Exported) -> dict[str, Any]:
    return {
        "path": str(file.path),
        "bytes": file.size,
        "sha256": file.fingerprint,
        "bits": file.info.bits,
        "precision": file.info.precision,
        "float_layers": file.float_layers,
        "calibration": file.calibration,
        **({} if file.half is None else {"half_arithmetic": file.half.to_dict()}),
        "devices": {
            device: {**found.to_dict(), "images_per_second": round(found.images_per_second, 1)}
            for device, found in file.comparisons.items()
        },
    }
