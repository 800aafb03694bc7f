"""idcwh-reproduce: a table of the paper, trained, evaluated and reported."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from idcwh_search import datasets
from idcwh_search._util.console import note, one_line
from idcwh_search.cli import common
from idcwh_search.errors import IdcwhError, MismatchError, NotInstalledError
from idcwh_train import methods, recipes
from idcwh_train.engine import run_dir
from idcwh_train.options import OPTIONS, Options

from . import experiments, grid, report, tables
from .experiments import Planned, Setup

_EPILOG = """\
examples:
  idcwh-reproduce cifar10-mini --data cifar10:data --freeze --backbone timm:tf_efficientnet_lite0 --out mini
  idcwh-reproduce cifar10-mini --data cifar10:data --device cuda --bits 48 --methods idcwh dcwh --out mini
  idcwh-reproduce cifar10-mini --report-only --out mini
  idcwh-reproduce --list --out mini

Each combination of method, code length and seed is an experiment: one training and one evaluation of the queries. A
finished experiment is a file in DIR/experiments, and is not trained again with the same settings. DIR/report.md,
DIR/report.html and DIR/results.json, which has all numbers, are written at the end.

exit codes: 0 done, 1 failed, 2 usage, 3 done but some experiments failed or some images could not be read,
130 interrupted (the same command continues)
"""
_NOT_SET = ("data", "seed", "method", "backbone", "freeze", "bits", "method_options", "length_options")
_SETTABLE = [name for name in OPTIONS if name not in _NOT_SET]


def parser() -> common.Parser:
    p = common.Parser(
        prog="idcwh-reproduce", description="Reproduce a table of the paper, with its figures.", epilog=_EPILOG
    ).with_version()
    p.add_argument("table", nargs="?", choices=tables.TABLES, help="table of the paper")

    add = p.add_argument_group("experiments").add_argument
    add("--data", type=common.path, metavar="DATA", help="dataset of the table; --list names it")
    add("--methods", nargs="+", metavar="M", help="default: the paper's rows and csq, orthohash, class-code; or: all")
    add("--bits", nargs="+", type=common.bits, metavar="L", help="code lengths (default: the paper's four)")
    add("--seeds", type=common.positive, metavar="N", help="seeds 0 to N - 1 (default 3 with --freeze, else 1)")
    add("--sweeps", action="store_true", help="also IDCWH over sigma^2 and beta")
    add("--ablation", action="store_true", help="also IDCWH without each setting of the recipe")

    add = p.add_argument_group("training").add_argument
    add("--backbone", metavar="NAME", help="as idcwh-train's (default the recipe's: googlenet, for scratch compact)")
    add("--recipe", choices=recipes.RECIPES, help="settings to start from (default: frozen with --freeze, else paper)")
    add("--freeze", action="store_true", help="train hash layers only, on features computed once")
    add("--joint", action="store_true", help="all code lengths in one training; with --freeze that changes nothing")
    add("--set", action="append", default=[], metavar="NAME=VALUE", type=_setting,
        help=f"another value than the recipe's, of: {', '.join(_SETTABLE)}")  # fmt: skip
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--cache", type=common.path, metavar="DIR", help="folder of cached features (default: the user's cache folder)")

    add = p.add_argument_group("output").add_argument
    add("--out", metavar="DIR", type=common.path, help="folder of the experiments and the report")
    add("--figures", action=argparse.BooleanOptionalAction, default=True, help="draw figures (default)")
    add("--report-only", action="store_true", help="train nothing: report the experiments that are there")
    add("--retry-failed", action="store_true", help="train failed experiments again")
    add("--keep-models", action="store_true", help="keep model.pt and log of each experiment in DIR/runs")
    add("--list", action="store_true", help="datasets of the tables, and the time of each experiment in DIR")
    return p


def _setting(text: str) -> tuple[str, Any]:
    """argparse type: NAME=VALUE, with the value converted to the option's type."""
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in _SETTABLE:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE with NAME one of {', '.join(_SETTABLE)}")
    try:
        return name, OPTIONS[name].type.read(name, value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@common.command
def main(argv: list[str] | None = None) -> int:
    """Runs the command; see the epilog for its exit codes."""
    p = parser()
    arguments = p.parse_args(argv)
    arguments.out = arguments.out and Path(arguments.out)
    if arguments.list:
        print("\n".join(map(one_line, _listing(arguments.out))))
        return common.DONE
    if arguments.out is None:
        p.error("--out DIR is missing")
    out: Path = arguments.out
    run_dir.check_folder(out)
    report.check(out)
    kept = report.remembered(out) or {}
    name = arguments.table or (kept.get("table") if arguments.report_only else None)
    if name is None:
        p.error(f"which table? one of {', '.join(tables.TABLES)}")
    if kept.get("table", name) != name and _has_experiments(out):
        raise MismatchError(
            "has experiments of another table",
            path=out,
            found=kept["table"],
            expected=name,
            hint="choose another --out",
        )
    table = tables.TABLES[name]
    if arguments.report_only:
        _report(out, table, kept.get("unavailable"), arguments.figures)
        return common.DONE
    if not arguments.data:
        p.error(f"--data is missing; {name} needs {table.needs}")
    with p.checking():  # before the dataset is read
        planned = plan(arguments, table)

        from idcwh_train.engine import session  # which needs torch

        session.check(planned[0].options)
    return _run(arguments, table, planned, shlex.join(["idcwh-reproduce", *(sys.argv[1:] if argv is None else argv)]))


def _run(arguments: Any, table: tables.Table, planned: list[Planned], command: str) -> int:
    from idcwh_train.cli import device
    from idcwh_train.frozen import features

    from .runner import Runner

    out: Path = arguments.out
    runs_on = device(arguments.device)
    datasets.check_outside(arguments.data, out, "--out")
    with run_dir.alone(out, "idcwh-reproduce"):
        try:
            dataset = datasets.load(arguments.data)
        except IdcwhError as error:
            if not _has_experiments(out):  # a wrong path does not replace a report
                report.remember(out, table.name, str(error))
                _report(out, table, str(error), arguments.figures)
            raise error.about(hint=f"{table.name} needs {table.needs}") from None
        if arguments.figures:
            _check_figures(out)
        report.remember(out, table.name, None)
        cache = Path(arguments.cache) if arguments.cache else features.default_cache()
        runner = Runner(out, dataset, runs_on, cache, command)
        tally = runner.run(planned, arguments.retry_failed, arguments.keep_models)
        if tally.interrupted:
            note(f"interrupted: {tally.done:,} of {len(planned):,} experiments are done; the same command continues")
            return common.INTERRUPTED
        _report(out, table, None, arguments.figures)
    if tally.failed:
        note(f"failed: {tally.failed:,} of {len(planned):,} experiments; the report has the reasons")
    if tally.unreadable:
        note(f"images that could not be read: {tally.unreadable:,}")
    return common.SKIPPED if tally.failed or tally.unreadable or dataset.left_out.skipped else common.DONE


def plan(arguments: Any, table: tables.Table) -> list[Planned]:
    """Returns the requested experiments. Raises ValueError for options that contradict each other."""
    recipe = arguments.recipe or ("frozen" if arguments.freeze else "paper")
    backbone = arguments.backbone
    if backbone is None:
        backbone = recipes.RECIPES[recipe].get("backbone", Options.backbone)
    requested = grid.Grid(
        setup=Setup(recipe, backbone, arguments.freeze),
        methods=_methods(arguments.methods, table, arguments.freeze),
        bits=Options(bits=tuple(arguments.bits or table.bits)).bits,
        seeds=arguments.seeds or (3 if arguments.freeze else 1),
        joint=arguments.joint,
        # All training images of the protocol train: nothing is chosen by validation images.
        given={"data": arguments.data or "", "protocol": table.name, "validation": 0.0, **dict(arguments.set)},
    )
    if (arguments.sweeps or arguments.ablation) and "idcwh" not in requested.methods:
        raise ValueError("--methods: --sweeps and --ablation compare with idcwh; add it")
    planned = list(grid.table(requested))
    if arguments.sweeps:
        planned += grid.sweeps(requested)
    if arguments.ablation:
        planned += grid.ablation(requested)
    return list(dict.fromkeys(planned))


def _methods(names: list[str] | None, table: tables.Table, freeze: bool) -> tuple[str, ...]:
    for name in names or ():
        if name != "all" and name not in methods.MODULES:
            raise ValueError(f"--methods: expected some of {', '.join(methods.MODULES)}, or all; not {name!r}")
        if name in tables.CLOSED_FORM and not freeze:
            raise ValueError(f"--methods: {name} needs the features of a frozen backbone; add --freeze")
    if names and "all" not in names:
        return tuple(dict.fromkeys(names))
    every = methods.MODULES if names else table.all_methods
    return tuple(m for m in every if freeze or m not in tables.CLOSED_FORM)


def _has_experiments(out: Path) -> bool:
    return any((out / "experiments").glob("*.json"))


def _check_figures(out: Path) -> None:
    """Raises IdcwhError before the long work if matplotlib or scikit-learn is missing."""
    import importlib.util

    from idcwh_search.metrics import plots

    plots.prepare(out / "figures")
    if importlib.util.find_spec("sklearn") is None:
        hint = "t-SNE needs it: pip install 'idcwh[train]', or pass --no-figures"
        raise NotInstalledError(path="scikit-learn", hint=hint)


def _report(out: Path, table: tables.Table, unavailable: str | None, figures: bool) -> None:
    for path in report.write(out, table, unavailable, figures):
        note(f"wrote {path}")


def _listing(out: Path | None) -> list[str]:
    """Returns the output of --list: what each table needs, and the time of each experiment in a folder."""
    lines = []
    for table in tables.TABLES.values():
        lines += [
            f"{table.name}: {table.label}",
            f"  needs    {table.needs}",
            f"  lengths  {', '.join(map(str, table.bits))} bits",
            f"  methods  {', '.join(table.all_methods)}",
        ]
    if out is None:
        return lines
    results = list(experiments.read_all(out / "experiments"))
    if not results:
        return [*lines, "", f"{out}: no experiments yet"]
    kept = report.remembered(out) or {"table": "experiments"}
    lines += ["", f"{out}: {kept['table']}, seconds in all (of which training)"]
    width = max(len(result.name) for result in results)
    for result in results:
        seconds = result.content["seconds"]
        failed = "" if result.done else f"  failed: {result.reason}"
        lines.append(f"  {result.name:<{width}}  {seconds['total']:9.1f}  ({seconds['training']:.1f}){failed}")
    total = sum(result.content["seconds"]["total"] for result in results)
    return [*lines, f"  {f'{len(results):,} experiments':<{width}}  {total:9.1f}"]
