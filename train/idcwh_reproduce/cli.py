"""idcwh-reproduce: a table of the paper, trained, measured and written up."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from idcwh_search import datasets
from idcwh_search._util.console import note
from idcwh_search.cli import common
from idcwh_search.errors import IdcwhError, MismatchError, NotInstalledError
from idcwh_train import methods, recipes
from idcwh_train.engine import run_dir

from . import report, tables

_EPILOG = """\
examples:
  idcwh-reproduce cifar10-mini --data cifar10:data --freeze --backbone timm:tf_efficientnet_lite0 --out mini
  idcwh-reproduce cifar10-mini --data cifar10:data --device cuda --bits 48 --methods idcwh dcwh --out mini
  idcwh-reproduce cifar10-mini --report-only --out mini
  idcwh-reproduce --list --out mini

Each combination of method, code length and seed is a cell: one training, then one look at the queries. A finished cell
is a file in DIR/cells; what is there, made with the same settings, is not made again. DIR/report.md and
DIR/report.html are written at the end, and DIR/results.json with all numbers.

exit codes: 0 done, 1 failed, 2 usage, 3 done but some cells failed or some images could not be read, 130 interrupted
(start the same command again to go on)
"""
_OWN = ("data", "seed", "method", "backbone", "freeze")
_SETTABLE = [name for name in recipes.KINDS if name not in _OWN]


def parser() -> common.Parser:
    p = common.Parser(
        prog="idcwh-reproduce", description="Make a table of the paper again, with its figures.", epilog=_EPILOG
    ).with_version()
    p.add_argument("table", nargs="?", choices=tables.TABLES, help="which table")

    add = p.add_argument_group("what").add_argument
    add("--data", metavar="DATA", help="its images; --list says what a table needs")
    add("--methods", nargs="+", metavar="M", help="default: the paper's rows and csq, orthohash, class-code; or: all")
    add("--bits", nargs="+", type=common.bits, metavar="L", help="code lengths (default: the paper's four)")
    add("--seeds", type=common.positive, metavar="N", help="seeds 0 to N - 1 (default 3 with --freeze, else 1)")
    add("--sweeps", action="store_true", help="also IDCWH over sigma^2 and beta")
    add("--ablation", action="store_true", help="also IDCWH with each setting of the recipe taken back")

    add = p.add_argument_group("how").add_argument
    add("--backbone", metavar="NAME", help="as idcwh-train's (default the recipe's: googlenet, for scratch compact)")
    add("--recipe", choices=recipes.RECIPES, help="settings to start from (default: frozen with --freeze, else paper)")
    add("--freeze", action="store_true", help="train hash layers only, on features computed once")
    add("--joint", action="store_true", help="all code lengths in one training; with --freeze that changes nothing")
    add("--set", action="append", default=[], metavar="NAME=VALUE", type=_setting,
        help=f"another value than the recipe's, of: {', '.join(_SETTABLE)}")  # fmt: skip
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--cache", type=Path, metavar="DIR", help="where features are kept (default: the user's cache folder)")

    add = p.add_argument_group("output").add_argument
    add("--out", metavar="DIR", type=Path, help="folder of the cells and the report")
    add("--figures", action="store_true", default=True, help="draw pictures (default)")
    add("--no-figures", action="store_false", dest="figures")
    add("--report-only", action="store_true", help="train nothing: write the report of the cells that are there")
    add("--retry-failed", action="store_true", help="train again what failed")
    add("--keep-models", action="store_true", help="leave each cell's model.pt and log in DIR/runs")
    add("--list", action="store_true", help="what each table needs, and how long its cells took in DIR")
    return p


def _setting(text: str) -> tuple[str, Any]:
    """argparse type: NAME=VALUE, the value of the kind that the setting takes."""
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in _SETTABLE:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE with NAME one of {', '.join(_SETTABLE)}")
    try:
        return name, recipes.KINDS[name].read(name, value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@common.command
def main(argv: list[str] | None = None) -> int:
    """The command; see the epilog for its exit codes."""
    p = parser()
    arguments = p.parse_args(argv)
    if arguments.list:
        from . import status

        print(status.text(arguments.out))
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
    if kept.get("table", name) != name and _holds_cells(out):
        raise MismatchError(f"holds cells of {kept['table']}; choose another --out for {name}", path=out)
    table = tables.TABLES[name]
    if arguments.report_only:
        _report(out, table, kept.get("unavailable"), arguments.figures)
        return common.DONE
    if not arguments.data:
        p.error(f"--data is missing; {name} needs {table.needs}")
    with p.checking():  # before the set is read
        planned = _planned(arguments, table)

        from idcwh_train.engine import session  # which needs torch

        session.check(planned[0].options)
    return _run(arguments, table, planned, shlex.join(["idcwh-reproduce", *(sys.argv[1:] if argv is None else argv)]))


def _run(arguments: Any, table: tables.Table, planned: list[Any], command: str) -> int:
    from idcwh_train.cli import device
    from idcwh_train.frozen import features

    from . import runner as running

    out: Path = arguments.out
    runs_on = device(arguments.device)
    datasets.check_outside(arguments.data, out, "--out")
    with run_dir.alone(out, "idcwh-reproduce"):
        try:
            dataset = datasets.load(arguments.data)
        except IdcwhError as error:
            if not _holds_cells(out):  # a wrong path must not cost the report of those
                report.remember(out, table.name, str(error))
                _report(out, table, str(error), arguments.figures)
            raise error.about(hint=f"{table.name} needs {table.needs}") from None
        if arguments.figures:
            _check_figures(out)
        report.remember(out, table.name, None)
        cache = arguments.cache or features.default_cache()
        runner = running.Runner(out, dataset, runs_on, cache, command)
        tally = runner.run(planned, arguments.retry_failed, arguments.keep_models, table.shown_bits)
        if tally.interrupted:
            note(
                f"interrupted, {tally.done:,} of {len(planned):,} cells are done; start the same command again to go on"
            )
            return common.INTERRUPTED
        _report(out, table, None, arguments.figures)
    if tally.failed:
        note(f"cells that failed: {tally.failed} of {len(planned):,}; the report has the reasons")
    if tally.unreadable:
        note(f"images that could not be read: {tally.unreadable:,}")
    return common.SKIPPED if tally.failed or tally.unreadable or dataset.left_out.skipped else common.DONE


def _planned(arguments: Any, table: tables.Table) -> list[Any]:
    """The cells that were asked for. ValueError for what cannot be."""
    from . import grid as plan
    from .experiments import Setup

    recipe = arguments.recipe or ("frozen" if arguments.freeze else "paper")
    backbone = arguments.backbone or recipes.RECIPES[recipe].get("backbone", recipes.Options.backbone)
    setup = Setup(recipe, backbone, arguments.freeze)
    # All of the protocol's training images train: nothing here is chosen by images that were held out.
    given = {"data": arguments.data or "", "protocol": table.name, "validation": 0.0, **dict(arguments.set)}
    grid = plan.Grid(
        setup=setup,
        methods=_methods(arguments.methods, table, arguments.freeze),
        bits=recipes.Options(bits=tuple(arguments.bits or table.bits)).bits,
        seeds=arguments.seeds or (3 if arguments.freeze else 1),
        joint=arguments.joint,
        given=given,
    )
    if (arguments.sweeps or arguments.ablation) and "idcwh" not in grid.methods:
        raise ValueError("--sweeps and --ablation compare with idcwh as it is: add it to --methods")
    planned = list(plan.table(grid))
    if arguments.sweeps:
        planned += plan.sweeps(grid)
    if arguments.ablation:
        planned += plan.ablation(grid)
    return list(dict.fromkeys(planned))


def _methods(asked: list[str] | None, table: tables.Table, freeze: bool) -> tuple[str, ...]:
    for name in asked or ():
        if name != "all" and name not in methods.MODULES:
            raise ValueError(f"unknown method {name!r}; expected some of {', '.join(methods.MODULES)}, or all")
        if name in tables.CLOSED_FORM and not freeze:
            raise ValueError(f"{name} is fitted on features of a frozen backbone: pass --freeze, or leave it out")
    if asked and "all" not in asked:
        return tuple(dict.fromkeys(asked))
    names = methods.MODULES if asked else table.every_method
    return tuple(m for m in names if m in methods.MODULES and (freeze or m not in tables.CLOSED_FORM))


def _holds_cells(out: Path) -> bool:
    return any((out / "cells").glob("*.json"))


def _check_figures(out: Path) -> None:
    """Before the long work: matplotlib and scikit-learn are there."""
    import importlib.util

    from idcwh_search.metrics import plots

    plots.prepare(out / "figures")
    if importlib.util.find_spec("sklearn") is None:
        raise NotInstalledError(
            "the pictures of t-SNE need scikit-learn: pip install 'idcwh[train]', or pass --no-figures"
        )


def _report(out: Path, table: tables.Table, unavailable: str | None, figures: bool) -> None:
    for path in report.write(out, table, unavailable, figures):
        note(f"wrote {path}")
