"""idcwh-train: labelled images to model.pt."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from idcwh_search._util import console
from idcwh_search._util.wording import counted
from idcwh_search.cli import common, split_options
from idcwh_search.errors import CorruptFileError, IdcwhError, MismatchError, NotSupportedError
from idcwh_search.splits import protocols

from . import methods, option_types, recipes
from .engine import run_dir

_EPILOG = """\
examples:
  idcwh-train --data photos --query-per-class 20 --freeze --bits 48 --out runs/photos
  idcwh-train --data cifar10:data --protocol cifar10-mini --bits 48 --device cuda --out runs/mini     (the paper's way)
  idcwh-train --out runs/mini --resume
  torchrun --nproc-per-node 4 -m idcwh_train --data photos --out runs/photos     (several GPUs)

DATA is a folder (train/<class>/* and test/<class>/*, or <class>/*), a .csv or .jsonl manifest of path,label[,label...],
a .npz archive of arrays, or cifar10:DIR, cifar100:DIR or coco:DIR. --method-option sets what docs/methods.md lists.

exit codes: 0 done, 1 failed, 2 usage, 3 done but some images could not be read, 130 interrupted (model.pt and
checkpoint.pt are written all the same; go on with --resume)
"""
_METHOD_OPTIONS = ("sigma2", "gamma", "beta", "l2_reduction", "reduction", "smoothing", "start")
_NOT_OPTIONS = ("out", "resume", "overwrite", "device", "cache", "recipe", "json", "evaluate")


def parser() -> common.Parser:
    """Every option without a default of its own: those come from the recipe."""
    p = common.Parser(
        prog="idcwh-train", description="Train a model that turns images into binary codes.", epilog=_EPILOG,
        argument_default=argparse.SUPPRESS,
    ).with_version()  # fmt: skip
    run = p.add_argument_group("run").add_argument
    run("--out", metavar="DIR", type=Path, required=True, help="folder for model.pt and the rest")
    run("--resume", action="store_true", default=False, help="go on from DIR/checkpoint.pt, bit for bit")
    run("--overwrite", action="store_true", default=False, help="replace an earlier run in DIR")
    run("--evaluate", action="store_true", default=False, help="at the end, MAP of the protocol's queries and database")
    run("--recipe", choices=recipes.RECIPES, help="settings to start from (default: frozen with --freeze, else paper)")
    run("--seed", type=common.natural, help="of the split, the first weights, the batches (default 0)")
    run("--device", choices=("auto", "cpu", "cuda"), default="auto")
    run("--keep", choices=recipes.KEEP, help="whose weights: the last epoch's, or the best on held-out images")
    run("--json", action="store_true", default=False, help="the last epoch's numbers on stdout, as JSON")

    data = p.add_argument_group("data").add_argument
    data("--data", metavar="DATA", help="labelled images, see below")
    data("--protocol", choices=protocols.NAMES, help="how they are split (default auto)")
    split_options.add_options(data)
    data("--validation", type=float, metavar="SHARE", help="of the training images: watched, not trained on")

    net = p.add_argument_group("network").add_argument
    net("--backbone", metavar="NAME", help="of torchvision, timm:NAME or compact (default googlenet; scratch: compact)")
    net("--weights", metavar="FILE", help="imagenet (default; compact: none), none, or a file with a state_dict")
    net("--bits", type=common.bits, metavar="L", nargs="+",
        help="code length (default 48); several: trained together on one backbone, a model file each")  # fmt: skip
    net("--freeze", action="store_true", help="train only the hash layer, on features computed once")
    net("--cache", type=Path, metavar="DIR", help="where features are kept (default: the user's cache folder)")
    net("--resize", type=common.positive, metavar="PIXELS", help="of the shorter side (default 240)")
    net("--crop", type=common.positive, metavar="PIXELS", help="side of the square the network sees (default 224)")
    net("--start-crop", type=common.positive, metavar="PIXELS", help="smaller crop of early epochs, grows to --crop")
    net("--pad", type=common.natural, metavar="PIXELS", help="mirrored border around what random crops are taken from")
    net("--erase", type=float, metavar="SHARE", help="side of a grey square put into training images, of their side")
    net("--flip", action=argparse.BooleanOptionalAction, help="mirror half of the training images")
    net("--precision", choices=recipes.PRECISIONS, help="of the backbone in fine-tuning (default float32)")

    loss = p.add_argument_group("method and optimisation (defaults: the recipe's)").add_argument
    loss("--method", choices=methods.MODULES, help="(default idcwh)")
    loss("--method-option", metavar="NAME=VALUE", type=_method_option, action="append", dest="named", help="repeatable")
    loss("--sigma2", type=float, help="variance around the centers")
    loss("--gamma", type=float, help="weight of the centers similarity L2")
    loss("--beta", type=float, help="weight of the quantization term Q")
    loss("--l2-reduction", choices=methods.L2_REDUCTIONS, help="what the sum in L2 is divided by")
    loss("--reduction", choices=methods.REDUCTIONS, help="of L1 and Q over the batch")
    loss("--smoothing", type=float, metavar="SHARE", help="of each label that goes to all classes alike in L1")
    loss("--start", choices=methods.STARTS, help="of the class centers: drawn from N(0, 1), or codes far apart")
    loss("--epochs", type=common.positive, metavar="N")
    loss("--batch-size", type=common.positive, metavar="N")
    loss("--optimizer", choices=recipes.OPTIMIZERS, help="(default sgd)")
    loss("--lr", type=float, help="of the network")
    loss("--head-lr", type=float, help="of the hash layer (default: --lr, or what its authors take)")
    loss("--center-lr", type=float, help="of the class centers")
    loss("--weight-decay", type=float)
    loss("--momentum", type=float)
    loss("--nesterov", action=argparse.BooleanOptionalAction)
    loss("--schedule", choices=recipes.SCHEDULES, help="x 0.1 after each third, or down to 0 by a cosine or a line")
    loss("--warmup", type=float, metavar="SHARE", help="of the run, in which the learning rate rises from 0")
    loss("--average", type=float, metavar="DECAY", help="of a running mean of the weights, which is then the model")
    loss("--dropout", type=float, help="share of the features dropped before the hash layer")
    return p


@common.command
def main(argv: list[str] | None = None) -> int:
    """The command; see the epilog for its exit codes."""
    p = parser()
    arguments = vars(p.parse_args(argv))
    setting = {name: arguments.pop(name) for name in _NOT_OPTIONS if name in arguments}
    out: Path = setting["out"]
    given = _given(arguments)
    if setting["resume"] and setting["overwrite"]:
        p.error("--resume goes on with a run, --overwrite replaces it; expected one of them")
    if setting["resume"] and setting.get("recipe"):
        p.error("--resume keeps the settings of the run; leave --recipe out")
    if setting["resume"]:
        options = _resumed(out, given, setting)
    else:
        if not given.get("data"):
            p.error("--data is missing: a folder, a manifest, or cifar10:DIR")
        if "LOCAL_RANK" not in os.environ:  # under torchrun the first process looks, once it has the folder
            run_dir.check(out, setting["overwrite"])
            run_dir.check_kinds(out)
        with p.checking():
            options = recipes.options(setting.get("recipe") or ("frozen" if given.get("freeze") else "paper"), given)

    from .engine import distributed, divergence, training_curves
    from .engine import session as run
    from .frozen import features  # from here on torch is needed

    if not setting["resume"]:
        with p.checking():
            run.check(options)
    if distributed.number():
        console.hush()
    here = distributed.local_device(device(setting["device"]))
    cache = setting.get("cache", features.default_cache())
    with distributed.joined(here) as team:
        try:
            outcome = run.train(
                options, out, here, cache, resume=setting["resume"], overwrite=setting["overwrite"],
                evaluate=setting["evaluate"], workers=team, data=given.get("data"),
                weights=given.get("weights"),
            )  # fmt: skip
        except divergence.Diverged as error:
            raise error.about(hint=_advice(options, out)) from None
        if not team.first:
            return common.DONE
        _say(outcome, setting["json"])
        status = _report(outcome, out, list(run_dir.model_names(options.bits).values()))
        if outcome.finished:
            console.note_all([*_quality(outcome, options), *_next(options, out, given.get("data", options.data))])
        if importlib.util.find_spec("matplotlib"):
            try:
                training_curves.draw(out)
            except IdcwhError as error:  # the model is there
                console.note(f"no {run_dir.CURVES}: {error}")
        return status if team.count == 1 else common.DONE  # torchrun takes anything else for a crash


def _advice(options: recipes.Options, out: Path) -> str | None:
    """Returns what to do when training has diverged."""
    from .methods.base import find

    if find(options.method).closed_form:
        return None
    resumable = (out / run_dir.CHECKPOINT).exists()
    of_resume = ", in a new run: --resume keeps the rate and comes to the same end" if resumable else ""
    return f"a lower --lr helps most often{of_resume}"


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


def _quality(outcome: Any, options: recipes.Options) -> list[str]:
    """Lines that say how good the model is on images it was not trained on, as far as that was measured."""
    from .engine.epoch_log import named

    if outcome.held and options.keep == "last":
        maps = {bits: outcome.record.get(named("map", bits, options.bits)) for bits in options.bits}
        on = f"{counted(outcome.held, 'held-out image')} searched among {counted(outcome.trained, 'training image')}"
        return [f"MAP {value:.4f} at {bits} bits: {on}" for bits, value in maps.items() if value is not None]
    if not outcome.held and not outcome.evaluations:
        return ["the model was not measured: no image was held out (--validation SHARE holds some out)"]
    return []


def _next(options: recipes.Options, out: Path, data: str) -> list[str]:
    """The commands that usually follow, with the paths of this run."""
    model = out / run_dir.model_names(options.bits)[max(options.bits)]
    files = Path(data).is_dir() or Path(data).suffix.lower() in (".csv", ".jsonl", ".ndjson")
    words = [
        ["idcwh-export", model, "--onnx"],
        ["idcwh-index", "build", "--model", model.with_suffix(".onnx"), "--images", data if files else "IMAGES",
         "--db", out / "codes.bin"],
    ]  # fmt: skip
    return [f"next: {shlex.join(map(str, command))}" for command in words]


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    method_options = {name: arguments.pop(name) for name in _METHOD_OPTIONS if name in arguments}
    method_options.update(arguments.pop("named", []))
    return {**arguments, **({"method_options": method_options} if method_options else {})}


def _method_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text!r}")
    return name, option_types.guessed(value)


def _resumed(out: Path, given: dict[str, Any], setting: dict[str, Any]) -> recipes.Options:
    """The options of the checkpoint; anything else on the command line has to agree with them, but for --data, which
    may say where the set lies now: `run.train` sees whether it is the same.
    """
    from .engine import resume
    from .methods.base import create

    saved: Any = resume.read(out / run_dir.CHECKPOINT)["options"]
    try:
        options = recipes.Options(**saved)
    except (TypeError, ValueError) as error:
        raise CorruptFileError(f"has invalid options ({error})", path=out / run_dir.CHECKPOINT) from None
    of_method = [create(options.method, 2, bits, 2, options.of_method(bits)).options() for bits in options.bits]
    asked = {name: value for name, value in given.items() if name not in ("data", "method_options")}
    if "bits" in asked:
        asked["bits"] = sorted(asked["bits"])
    if not {asked.get("weights", "none"), saved["weights"]} & {*recipes.NO_FILES}:
        asked.pop("weights", None)  # where the file lies now, as for data
    for name, value in asked.items():
        _agree(out, f"--{name.replace('_', '-')}", value, [saved[name]])
    for name, value in given.get("method_options", {}).items():
        if not all(name in of for of in of_method):
            raise MismatchError(f"{name}: the run in {out} is of {options.method}, which has no such option")
        flag = f"--{name.replace('_', '-')}" if name in _METHOD_OPTIONS else f"--method-option {name}"
        _agree(out, flag, value, [of[name] for of in of_method])
    return options


def _agree(out: Path, flag: str, value: Any, has: list[Any]) -> None:
    """IdcwhError unless an option says what the run has, for each of its code lengths."""
    if not all(_same(one, value) for one in has):
        found = ", ".join(dict.fromkeys(map(_shown, has)))
        raise MismatchError(f"{flag} {_shown(value)}: the run in {out} has {found}; leave {flag} out")


def _same(a: Any, b: Any) -> bool:
    """Also of a number as a person would write it."""
    return math.isclose(a, b) if isinstance(a, float) and isinstance(b, int | float) else bool(a == b)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def device(asked: str) -> Any:
    """The torch.device of --device, which is said. IdcwhError for CUDA that is not there."""
    import torch

    if asked == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        console.note(f"device: cuda ({torch.cuda.get_device_name()})")
        return torch.device("cuda")
    why = "this PyTorch is built without CUDA" if torch.version.cuda is None else "PyTorch finds no usable CUDA device"
    if asked == "cuda":
        raise NotSupportedError(f"--device cuda: {why}; --device cpu works")
    console.note(f"device: cpu, {counted(torch.get_num_threads(), 'thread')} ({why})")
    return torch.device("cpu")


def _report(outcome: Any, out: Path, models: list[str]) -> int:
    failed = outcome.failed
    for key, reason in list(failed.items())[:20]:
        console.note(f"skipped {key}: {reason}")
    if failed:
        more = ", the first 20 are named above" if len(failed) > 20 else ""
        console.note(f"unreadable images skipped: {len(failed)}{more}")
    console.note(f"wrote {', '.join(str(out / name) for name in models)}")
    if not outcome.finished:
        console.note(f"interrupted; go on with: idcwh-train --out {shlex.quote(str(out))} --resume")
        return common.INTERRUPTED
    skipped = failed or outcome.unmeasured or outcome.left_out.skipped
    return common.SKIPPED if skipped else common.DONE


if __name__ == "__main__":
    sys.exit(main(None))
