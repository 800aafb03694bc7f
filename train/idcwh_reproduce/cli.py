"""The command idcwh-reproduce, which trains, evaluates and reports a table of the paper."""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
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
  idcwh-reproduce cifar10-mini --data cifar10:data --freeze --out mini
  idcwh-reproduce cifar10-mini --data cifar10:data --bits 48 --methods idcwh dcwh --out mini
  idcwh-reproduce cifar10-mini --report-only --out mini
  idcwh-reproduce --list --out mini

Each combination of method, code length and seed is an experiment, with one training and one
evaluation of the queries. A finished experiment is a file in DIR/experiments and is not trained
again with the same settings. DIR/report.md, DIR/report.html and DIR/results.json are written at the
end.

NAME of --set is one of
{settable}.

exit codes: 0 done, 1 failed, 2 wrong usage, 3 done with failed experiments or skipped images,
130 interrupted (the same command continues)
"""
_NOT_SET = ("data", "seed", "method", "backbone", "freeze", "bits", "method_options", "length_options")
_SETTABLE = [name for name in OPTIONS if name not in _NOT_SET]


def parser() -> common.Parser:
    """Returns the parser of the command."""
    settable = textwrap.fill(", ".join(_SETTABLE), 98)
    p = common.Parser(
        prog="idcwh-reproduce", description="Reproduce a table of the paper, with its figures.",
        epilog=_EPILOG.format(settable=settable),
    ).with_version()  # fmt: skip
    p.add_argument("table", nargs="?", choices=tables.TABLES, help="table of the paper")

    add = p.add_argument_group("experiments").add_argument
    add("--data", type=common.path, metavar="DATA", help="dataset of the table, see --list")
    add("--methods", nargs="+", metavar="M", help="methods, or all (default the paper's, csq, orthohash, class-code)")
    add("--bits", nargs="+", type=common.bits, metavar="L", help="code lengths (default the paper's four)")
    add("--seeds", type=common.positive, metavar="N", help="seeds 0 to N - 1 (default 3 with --freeze, else 1)")
    add("--sweeps", action="store_true", help="also IDCWH with other values of sigma^2 and beta")
    add("--ablation", action="store_true", help="also IDCWH without each setting of the recipe")

    add = p.add_argument_group("training").add_argument
    add("--backbone", metavar="NAME", help="backbone of idcwh-train (default googlenet; compact for scratch)")
    add("--recipe", choices=recipes.RECIPES, help="set of defaults (default frozen with --freeze, else paper)")
    add("--freeze", action="store_true", help="frozen backbone: only the hash layers train, on cached features")
    add("--joint", action="store_true", help="one training for all code lengths; no effect with --freeze")
    add("--set", action="append", default=[], metavar="NAME=VALUE", type=_setting,
        help="option that differs from the recipe, see below")  # fmt: skip
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="training device (default auto)")
    add("--cache", type=common.path, metavar="DIR", help="feature cache (default ~/.cache/idcwh/features)")

    add = p.add_argument_group("output").add_argument
    add("--out", metavar="DIR", type=common.path, help="folder of the experiments and the report")
    add("--figures", action=argparse.BooleanOptionalAction, default=True, help="figures in the report (default on)")
    add("--report-only", action="store_true", help="report of the existing experiments, without training")
    add("--retry-failed", action="store_true", help="new training of failed experiments")
    add("--keep-models", action="store_true", help="model.pt and log of each experiment in DIR/runs")
    add("--list", action="store_true", help="datasets of the tables, and times of the experiments in DIR")
    return p


def _setting(text: str) -> tuple[str, Any]:
    """Returns name and value of an argument NAME=VALUE, with the value converted to the option's type."""
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
    """Runs the command and returns its exit code, see `_EPILOG`."""
    p = parser()
    arguments = p.parse_args(argv)
    arguments.out = arguments.out and Path(arguments.out)
    if arguments.list:
        print("\n".join(map(one_line, _listing(arguments.out))))
        return common.DONE
    if arguments.out is None:
        p.error("--out: is missing; expected a folder")
    out: Path = arguments.out
    run_dir.check_folder(out)
    report.check(out)
    kept = report.remembered(out) or {}
    name = arguments.table or (kept.get("table") if arguments.report_only else None)
    if name is None:
        p.error(f"table: is missing; expected one of {', '.join(tables.TABLES)}")
    if kept.get("table", name) != name and _has_experiments(out):
        raise MismatchError(
            "does not match the table",
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
        p.error(f"--data: is missing; expected {table.needs}")
    with p.checking():  # before the dataset is read
        planned = plan(arguments, table)

        from idcwh_train.engine import session  # imports torch

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
            note(f"interrupted: {tally.done:,} of {len(planned):,} experiments done; the same command continues")
            return common.INTERRUPTED
        _report(out, table, None, arguments.figures)
    if tally.failed:
        note(f"failed: {tally.failed:,} of {len(planned):,} experiments; the report lists the reasons")
    if tally.unreadable:
        note(f"unreadable images skipped: {tally.unreadable:,}")
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
        # No choice depends on validation images, so all training images of the protocol train.
        given={"data": arguments.data or "", "protocol": table.name, "validation": 0.0, **dict(arguments.set)},
    )
    if (arguments.sweeps or arguments.ablation) and "idcwh" not in requested.methods:
        raise ValueError("--methods: idcwh is missing; add it, since --sweeps and --ablation compare with it")
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
            raise ValueError(f"--methods: {name} is not supported without a frozen backbone; add --freeze")
    if names and "all" not in names:
        return tuple(dict.fromkeys(names))
    every = methods.MODULES if names else table.all_methods
    return tuple(m for m in every if freeze or m not in tables.CLOSED_FORM)


def _has_experiments(out: Path) -> bool:
    return any((out / "experiments").glob("*.json"))


def _check_figures(out: Path) -> None:
    """Raises IdcwhError if matplotlib or scikit-learn is not installed, before the experiments start."""
    import importlib.util

    from idcwh_search.metrics import plots

    plots.prepare(out / "figures")
    if importlib.util.find_spec("sklearn") is None:
        hint = "pip install 'idcwh[train]', or pass --no-figures"
        raise NotInstalledError(path="scikit-learn", hint=hint)


def _report(out: Path, table: tables.Table, unavailable: str | None, figures: bool) -> None:
    for path in report.write(out, table, unavailable, figures):
        note(f"wrote {path}")


def _listing(out: Path | None) -> list[str]:
    """Returns the output of --list: the dataset of each table, and the time of each experiment in a folder."""
    lines = []
    for table in tables.TABLES.values():
        lines += [
            f"{table.name}: {table.label}",
            f"  dataset  {table.needs}",
            f"  bits     {', '.join(map(str, table.bits))}",
            f"  methods  {', '.join(table.all_methods)}",
        ]
    if out is None:
        return lines
    results = list(experiments.read_all(out / "experiments"))
    if not results:
        return [*lines, "", f"{out}: no experiments"]
    kept = report.remembered(out) or {"table": "experiments"}
    lines += ["", f"{out}: {kept['table']}, seconds in total (training)"]
    width = max(len(result.name) for result in results)
    for result in results:
        seconds = result.content["seconds"]
        failed = "" if result.done else f"  failed: {result.reason}"
        lines.append(f"  {result.name:<{width}}  {seconds['total']:9.1f}  ({seconds['training']:.1f}){failed}")
    total = sum(result.content["seconds"]["total"] for result in results)
    return [*lines, f"  {f'{len(results):,} experiments':<{width}}  {total:9.1f}"]
