"""The command idcwh-train, which trains a model.pt from labelled images."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import shlex
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from idcwh_search._util import console
from idcwh_search._util.wording import counted
from idcwh_search.cli import common
from idcwh_search.errors import IdcwhError, NotFoundError, NotSupportedError

from . import recipes
from .engine.run_dir import RunDir
from .methods import MODULES
from .methods.idcwh_options import IDCWHOptions
from .option_types import declared, guessed
from .options import GROUPS, OPTIONS, Options

_USAGE = """idcwh-train --data DATA --out DIR [options]
       idcwh-train --out DIR --resume [--data DATA] [--weights FILE]
                   [--device D] [--cache DIR] [--evaluate] [--json]"""
_METHODS = textwrap.fill(f"METHOD is one of {', '.join(MODULES)}.", 98)
_EPILOG = f"""\
examples:
  idcwh-train --data photos --query-per-class 20 --freeze --bits 48 --out runs/photos
  idcwh-train --data cifar10:data --protocol cifar10-mini --bits 48 --out runs/mini   (as in the paper)
  idcwh-train --out runs/mini --resume
  torchrun --nproc-per-node 4 -m idcwh_train --data photos --out runs/photos          (4 GPUs)

DATA is a folder (train/<class>/* and test/<class>/*, or <class>/*), a .csv or .jsonl manifest of
path,label[,label...], an .npz archive of arrays, or cifar10:DIR, cifar100:DIR or coco:DIR.
{_METHODS}
The schedule step divides the learning rates by 10 at 1/3 and 2/3 of the run.

exit codes: 0 done, 1 failed, 2 wrong usage, 3 done with skipped images, 130 interrupted,
143 terminated. An interrupted run also writes model.pt and checkpoint.pt, and --resume continues it.
"""
_METHOD_OPTIONS = declared(IDCWHOptions)
_NEW_RUN = {*OPTIONS, *_METHOD_OPTIONS, "method_option", "recipe"} - {"data", "weights"}
"""Arguments that --resume does not take, because the checkpoint has their values."""
_RESUME_TAKES = "only --data, --weights, --device, --cache, --evaluate and --json"


def parser() -> common.Parser:
    """Returns the parser. Its result has only those options of a run that are given, since recipes have defaults."""
    p = common.Parser(
        prog="idcwh-train", usage=_USAGE, description="Train a model that turns images into binary codes.",
        epilog=_EPILOG, argument_default=argparse.SUPPRESS,
    ).with_version()  # fmt: skip
    p.formatter_class = functools.partial(argparse.RawDescriptionHelpFormatter, max_help_position=35)
    groups = {title: p.add_argument_group(title).add_argument for title in GROUPS}
    run = groups["run"]
    run("--out", metavar="DIR", type=common.path, required=True, help="output folder: model.pt, checkpoint.pt and logs")
    run("--resume", action="store_true", default=False, help="continuation of DIR/checkpoint.pt, with its options")
    run("--overwrite", action="store_true", default=False, help="replacement of an earlier run in DIR")
    run("--evaluate", action="store_true", default=False, help="MAP of the queries at the end")
    run("--recipe", choices=recipes.RECIPES, help="set of defaults (default paper; frozen with --freeze)")
    run("--device", choices=("auto", "cpu", "cuda"), default="auto", help="training device (default auto)")
    run("--cache", type=common.path, metavar="DIR", help="feature cache (default ~/.cache/idcwh/features)")
    run("--json", action="store_true", default=False, help="log record of the last epoch on stdout, as JSON")
    for name, one in OPTIONS.items():
        if one.group:
            one.add(groups[one.group], name)
    for name, one in _METHOD_OPTIONS.items():
        one.add(groups["method"], name)
    groups["method"]("--method-option", metavar="NAME=VALUE", type=_method_option, action="append",
        help="any option of the method, from docs/methods.md")  # fmt: skip
    return p


@common.command
def main(argv: list[str] | None = None) -> int:
    """Runs the command and returns its exit code, see `_EPILOG`."""
    p = parser()
    arguments = vars(p.parse_args(argv))
    given = _given(arguments)
    if not given.get("data", arguments["resume"]):
        p.error("--data: is missing; expected a folder, a manifest, or cifar10:DIR")
    run_dir = RunDir(arguments["out"])
    if arguments["resume"]:
        if new := sorted(arguments.keys() & _NEW_RUN):
            p.error(f"--{new[0].replace('_', '-')}: is not supported with --resume, which takes {_RESUME_TAKES}")
        if arguments["overwrite"]:
            p.error("--overwrite: is not supported with --resume; give one of them")
        from .engine import resume

        try:
            recorded = resume.recorded(resume.read(run_dir.checkpoint), run_dir.checkpoint)
        except NotFoundError as error:
            run_dir.check_unused()  # a run that has just started has no checkpoint
            raise error.about(hint="start the run without --resume") from None
        with p.checking():
            options = replace(recorded, **given)
    else:
        with p.checking():
            options = recipes.options(arguments.get("recipe") or ("frozen" if given.get("freeze") else "paper"), given)

    from .engine import distributed, divergence, session, training_curves
    from .frozen import features  # torch is needed from here on

    if not arguments["resume"]:
        with p.checking():  # before the device is reported
            session.check(options)
    if distributed.number():
        console.set_quiet()
    here = distributed.local_device(device(arguments["device"]))
    cache = Path(arguments["cache"]) if "cache" in arguments else features.default_cache()
    with distributed.joined(here) as workers:
        try:
            outcome = session.train(
                options, run_dir, device=here, cache=cache, workers=workers,
                **{name: arguments[name] for name in ("resume", "overwrite", "evaluate")},
            )  # fmt: skip
        except divergence.DivergedError as error:
            raise error.about(hint=_advice(options, run_dir)) from None
        if not workers.first:
            return common.DONE
        _report_results(outcome, arguments["json"])
        status = _report_files(outcome, run_dir, options)
        if outcome.finished:
            console.note_all([*_quality(outcome, options), *_next(options, run_dir)])
        if importlib.util.find_spec("matplotlib"):
            try:
                training_curves.draw(run_dir.path)
            except IdcwhError as error:  # the model is written
                console.note(f"warning: {run_dir.curves.name} is not written: {error}")
        return status if workers.count == 1 else common.DONE  # torchrun treats every other exit code as a crash


def _advice(options: Options, run_dir: RunDir) -> str | None:
    """Returns the hint for a training that has diverged."""
    from .methods.base import find

    if find(options.method).closed_form:
        return None
    new_run = " and start a new run: --resume keeps the learning rate" if run_dir.checkpoint.exists() else ""
    return f"lower --lr{new_run}"


def _report_results(outcome: Any, as_json: bool) -> None:
    """Reports the evaluations, and the last log record as JSON on stdout if it is requested."""
    for bits, evaluation in outcome.evaluations.items():
        spread = f"{evaluation.map_pessimistic:.4f} to {evaluation.map_optimistic:.4f}, depending on the order of ties"
        sizes = f"{counted(evaluation.queries, 'query')}, {counted(evaluation.database, 'database image')}"
        console.note(f"MAP {evaluation.map:.4f} at {bits} bits ({spread}): {sizes}")
    for title, reason in outcome.unmeasured.items():
        console.note(f"{title}: not evaluated: {reason}")
    if as_json:
        evaluations = {str(bits): evaluation.to_dict() for bits, evaluation in outcome.evaluations.items()}
        variants = {
            title: {str(bits): evaluation.to_dict() for bits, evaluation in by_bits.items()}
            for title, by_bits in outcome.variants.items()
        }
        result = {"finished": outcome.finished, "unreadable": outcome.failed, "evaluations": evaluations}
        result["left_out"] = outcome.left_out.to_dict()
        if variants:
            result["variants"] = variants
        if outcome.unmeasured:
            result["unmeasured"] = outcome.unmeasured
        print(json.dumps({**outcome.record, **result}))
    for title, by_bits in outcome.variants.items():
        for bits, evaluation in by_bits.items():
            sizes = counted(evaluation.database, "database image")
            console.note(f"{title}: MAP {evaluation.map:.4f} at {bits} bits, {sizes}")


def _quality(outcome: Any, options: Options) -> list[str]:
    """Returns notes about the MAP on images outside of the training part, if it was measured."""
    from .engine.epoch_log import named

    if outcome.validation and options.keep == "last":
        maps = {bits: outcome.record.get(named("map", bits, options.bits)) for bits in options.bits}
        sizes = f"{counted(outcome.validation, 'validation image')}, {counted(outcome.trained, 'training image')}"
        return [
            f"validation MAP {value:.4f} at {bits} bits: {sizes}" for bits, value in maps.items() if value is not None
        ]
    if not outcome.validation and not outcome.evaluations:
        return ["the model was not evaluated: there are no validation images (see --validation SHARE)"]
    return []


def _next(options: Options, run_dir: RunDir) -> list[str]:
    """Returns the commands that usually follow, with the paths of this run."""
    model, data = run_dir.models(options.bits)[max(options.bits)], options.data
    files = Path(data).is_dir() or Path(data).suffix.lower() in (".csv", ".jsonl", ".ndjson")
    words = [
        ["idcwh-export", model, "--onnx"],
        ["idcwh-index", "build", "--model", model.with_suffix(".onnx"), "--images", data if files else "IMAGES",
         "--db", run_dir.path / "codes.bin"],
    ]  # fmt: skip
    return [f"next: {shlex.join(map(str, command))}" for command in words]


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of the run among the arguments, with the method's options as `method_options`."""
    given = {name: value for name, value in arguments.items() if name in OPTIONS}
    method_options = {name: value for name, value in arguments.items() if name in _METHOD_OPTIONS}
    method_options.update(arguments.get("method_option", []))
    return {**given, "method_options": method_options} if method_options else given


def _method_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text!r}")
    return name, guessed(value)


def device(requested: str) -> Any:
    """Returns the torch.device of --device, and reports it. Raises NotSupportedError if CUDA is not available."""
    import torch

    if requested == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        console.note(f"device: cuda ({torch.cuda.get_device_name()})")
        return torch.device("cuda")
    reason = "this PyTorch is built without CUDA" if torch.version.cuda is None else "PyTorch finds no CUDA device"
    if requested == "cuda":
        raise NotSupportedError(f"cuda is not supported: {reason}", path="--device", hint="use --device cpu")
    console.note(f"device: cpu, {counted(torch.get_num_threads(), 'thread')} ({reason})")
    return torch.device("cpu")


def _report_files(outcome: Any, run_dir: RunDir, options: Options) -> int:
    """Reports skipped images and written files; returns the exit code."""
    failed = outcome.failed
    for key, reason in list(failed.items())[:20]:
        console.note(f"skipped {key}: {reason}")
    if failed:
        more = ", the first 20 are listed above" if len(failed) > 20 else ""
        console.note(f"unreadable images skipped: {len(failed)}{more}")
    console.note(f"wrote {', '.join(map(str, run_dir.models(options.bits).values()))}")
    if not outcome.finished:
        console.note(f"interrupted; continue with: idcwh-train --out {shlex.quote(str(run_dir.path))} --resume")
        return common.INTERRUPTED
    skipped = failed or outcome.unmeasured or outcome.left_out.skipped
    return common.SKIPPED if skipped else common.DONE


if __name__ == "__main__":
    sys.exit(main(None))
