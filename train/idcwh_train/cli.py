"""idcwh-train: labelled images to model.pt."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from idcwh_search._util import console
from idcwh_search._util.wording import counted
from idcwh_search.cli import common
from idcwh_search.errors import IdcwhError, NotFoundError, NotSupportedError

from . import recipes
from .engine.run_dir import RunDir
from .methods.idcwh_options import IDCWHOptions
from .option_types import declared, guessed
from .options import GROUPS, OPTIONS, Options

_USAGE = """idcwh-train --data DATA --out DIR [options]
       idcwh-train --out DIR --resume [--data DATA] [--weights FILE]
                   [--device D] [--cache DIR] [--evaluate] [--json]"""
_EPILOG = """\
examples:
  idcwh-train --data photos --query-per-class 20 --freeze --bits 48 --out runs/photos
  idcwh-train --data cifar10:data --protocol cifar10-mini --bits 48 --device cuda --out runs/mini     (the paper's way)
  idcwh-train --out runs/mini --resume
  torchrun --nproc-per-node 4 -m idcwh_train --data photos --out runs/photos     (several GPUs)

DATA is a folder (train/<class>/* and test/<class>/*, or <class>/*), a .csv or .jsonl manifest of path,label[,label...],
a .npz archive of arrays, or cifar10:DIR, cifar100:DIR or coco:DIR. --method-option sets what docs/methods.md lists.

exit codes: 0 done, 1 failed, 2 usage, 3 done but some images could not be read, 130 interrupted (model.pt and
checkpoint.pt are written all the same; --resume continues)
"""
_METHOD_OPTIONS = declared(IDCWHOptions)
_NEW_RUN = {*OPTIONS, *_METHOD_OPTIONS, "method_option", "recipe"} - {"data", "weights"}
"""Arguments that --resume does not take, because the checkpoint has them."""
_RESUME_TAKES = "only --data, --weights, --device, --cache, --evaluate and --json"


def parser() -> common.Parser:
    """Returns the parser. Options of a run are absent from its result unless they are given; recipes have defaults."""
    p = common.Parser(
        prog="idcwh-train", usage=_USAGE, description="Trains a model that turns images into binary codes.",
        epilog=_EPILOG, argument_default=argparse.SUPPRESS,
    ).with_version()  # fmt: skip
    p.formatter_class = functools.partial(argparse.RawDescriptionHelpFormatter, max_help_position=30)
    groups = {title: p.add_argument_group(title).add_argument for title in GROUPS}
    run = groups["run"]
    run("--out", metavar="DIR", type=common.path, required=True, help="folder of the run: model.pt and the rest")
    run("--resume", action="store_true", default=False, help="continue DIR/checkpoint.pt; options are its own")
    run("--overwrite", action="store_true", default=False, help="replace an earlier run in DIR")
    run("--evaluate", action="store_true", default=False, help="MAP of the queries at the end")
    run("--recipe", choices=recipes.RECIPES, help="set of defaults (paper; with --freeze: frozen)")
    run("--device", choices=("auto", "cpu", "cuda"), default="auto", help="training device (default auto)")
    run("--cache", type=common.path, metavar="DIR", help="feature cache (default ~/.cache/idcwh/features)")
    run("--json", action="store_true", default=False, help="last epoch's numbers on stdout, as JSON")
    for name, one in OPTIONS.items():
        if one.group:
            one.add(groups[one.group], name)
    for name, one in _METHOD_OPTIONS.items():
        one.add(groups["method"], name)
    groups["method"]("--method-option", metavar="NAME=VALUE", type=_method_option, action="append",
        help="option of another method; see docs/methods.md")  # fmt: skip
    return p


@common.command
def main(argv: list[str] | None = None) -> int:
    """Runs the command; its epilog has the exit codes."""
    p = parser()
    arguments = vars(p.parse_args(argv))
    given = _given(arguments)
    if not given.get("data", arguments["resume"]):
        p.error("--data: is missing; expected a folder, a manifest, or cifar10:DIR")
    run_dir = RunDir(arguments["out"])
    if arguments["resume"]:
        if new := sorted(arguments.keys() & _NEW_RUN):
            p.error(f"--{new[0].replace('_', '-')}: belongs to a new run; --resume takes {_RESUME_TAKES}")
        if arguments["overwrite"]:
            p.error("--overwrite: replaces a run, and --resume continues it; give one of them")
        from .engine import resume

        try:
            recorded = resume.recorded(resume.read(run_dir.checkpoint), run_dir.checkpoint)
        except NotFoundError as error:
            run_dir.check_unused()  # a run that has just begun has no checkpoint
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
        _say(outcome, arguments["json"])
        status = _report(outcome, run_dir, options)
        if outcome.finished:
            console.note_all([*_quality(outcome, options), *_next(options, run_dir)])
        if importlib.util.find_spec("matplotlib"):
            try:
                training_curves.draw(run_dir.path)
            except IdcwhError as error:  # the model is there
                console.note(f"no {run_dir.curves.name}: {error}")
        return status if workers.count == 1 else common.DONE  # torchrun takes anything else for a crash


def _advice(options: Options, run_dir: RunDir) -> str | None:
    """Returns what to do when training has diverged."""
    from .methods.base import find

    if find(options.method).closed_form:
        return None
    again = ", in a new run: --resume keeps the rate and ends the same way" if run_dir.checkpoint.exists() else ""
    return f"a lower --lr helps most often{again}"


def _say(outcome: Any, as_json: bool) -> None:
    for bits, found in outcome.evaluations.items():
        spread = f"{found.map_pessimistic:.4f} to {found.map_optimistic:.4f} by the order of ties"
        sizes = f"{counted(found.queries, 'query')}, {counted(found.database, 'database image')}"
        console.note(f"MAP {found.map:.4f} at {bits} bits ({spread}): {sizes}")
    for title, why in outcome.unmeasured.items():
        console.note(f"{title}: not evaluated: {why}")
    if as_json:
        evaluations = {str(bits): found.to_dict() for bits, found in outcome.evaluations.items()}
        variants = {
            title: {str(bits): found.to_dict() for bits, found in of.items()} for title, of in outcome.variants.items()
        }
        said = {"finished": outcome.finished, "unreadable": outcome.failed, "evaluations": evaluations}
        said["left_out"] = outcome.left_out.to_dict()
        if variants:
            said["variants"] = variants
        if outcome.unmeasured:
            said["unmeasured"] = outcome.unmeasured
        print(json.dumps({**outcome.record, **said}))
    for title, evaluations_of in outcome.variants.items():
        for bits, found in evaluations_of.items():
            console.note(f"{title}: MAP {found.map:.4f} at {bits} bits, {counted(found.database, 'database image')}")


def _quality(outcome: Any, options: Options) -> list[str]:
    """Returns notes about MAP on images that did not train, as far as it was measured."""
    from .engine.epoch_log import named

    if outcome.validation and options.keep == "last":
        maps = {bits: outcome.record.get(named("map", bits, options.bits)) for bits in options.bits}
        queries, searched = counted(outcome.validation, "validation image"), counted(outcome.trained, "training image")
        on = f"{queries} searched among {searched}"
        return [f"MAP {value:.4f} at {bits} bits: {on}" for bits, value in maps.items() if value is not None]
    if not outcome.validation and not outcome.evaluations:
        return ["the model was not measured: there are no validation images (--validation SHARE)"]
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
    """Returns the options of the run among the arguments; those of the method in a dictionary of their own."""
    given = {name: value for name, value in arguments.items() if name in OPTIONS}
    of_method = {name: value for name, value in arguments.items() if name in _METHOD_OPTIONS}
    of_method.update(arguments.get("method_option", []))
    return {**given, "method_options": of_method} if of_method else given


def _method_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text!r}")
    return name, guessed(value)


def device(asked: str) -> Any:
    """Returns the torch.device of --device, and reports it. Raises NotSupportedError if CUDA is not available."""
    import torch

    if asked == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        console.note(f"device: cuda ({torch.cuda.get_device_name()})")
        return torch.device("cuda")
    why = "this PyTorch is built without CUDA" if torch.version.cuda is None else "PyTorch finds no usable CUDA device"
    if asked == "cuda":
        raise NotSupportedError(why, path="--device", hint="--device cpu works")
    console.note(f"device: cpu, {counted(torch.get_num_threads(), 'thread')} ({why})")
    return torch.device("cpu")


def _report(outcome: Any, run_dir: RunDir, options: Options) -> int:
    """Reports skipped images and written files; returns the exit code."""
    failed = outcome.failed
    for key, reason in list(failed.items())[:20]:
        console.note(f"skipped {key}: {reason}")
    if failed:
        more = ", the first 20 are named above" if len(failed) > 20 else ""
        console.note(f"unreadable images skipped: {len(failed)}{more}")
    console.note(f"wrote {', '.join(map(str, run_dir.models(options.bits).values()))}")
    if not outcome.finished:
        console.note(f"interrupted; continue with: idcwh-train --out {shlex.quote(str(run_dir.path))} --resume")
        return common.INTERRUPTED
    skipped = failed or outcome.unmeasured or outcome.left_out.skipped
    return common.SKIPPED if skipped else common.DONE


if __name__ == "__main__":
    sys.exit(main(None))
