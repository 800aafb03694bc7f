"""idcwh-eval: retrieval metrics of models on a protocol, or of codes made elsewhere."""
from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import code_sets, plots, report
from ..errors import IdcwhError
from ..evaluation import Evaluation
from ..files import replacing
from ..metrics import CUTS
from . import common

if TYPE_CHECKING:
    from ..code_sets import CodeSet
    from ..datasets import LabelledImages
    from ..protocols import Split

EPILOG = """examples:
  idcwh-eval --model model.onnx --data photos/ --query-per-class 20
  idcwh-eval --model 12.onnx --model 48.onnx --data cifar10:data --protocol cifar10-mini --plots plots/
  idcwh-eval --codes theirs.npz --model ours.onnx --name DPSH --name IDCWH --data photos/ --protocol split.json --json

Prints a table, a column a model: MAP in four readings of ties, MAP@K by three denominators, P@N, R@N, P@H<=r, R@H<=r,
and the health of the codes; docs/metrics.md defines them. --codes reads an .npz archive of query_codes, database_codes
(uint8 [n, ceil(bits/8)]), query_labels, database_labels (int [n], or bool [n, C]) and bits. Exit codes: 0 done,
1 failed, 2 wrong usage, 3 done but some images could not be read."""


def parser() -> common.Parser:
    parser = common.Parser(prog="idcwh-eval", description="Measure how well codes retrieve.", epilog=EPILOG)
    parser.with_version()

    add = parser.add_argument_group("what to measure (each may be repeated, for columns side by side)").add_argument
    # one list for both, so that --name can follow the order of the command line
    add("--model", dest="sources", action="append", type=_model, metavar="FILE", help="a model.onnx")
    add("--codes", dest="sources", action="append", type=_codes, metavar="FILE.npz", help="codes made elsewhere")
    add("--name", action="append", metavar="TEXT", help="what to call each of them, in the same order")

    add = parser.add_argument_group("on which images (with --model)").add_argument
    add("--data", metavar="SPEC", help="a folder, a .csv or .jsonl manifest, or source:directory (cifar10:data)")
    add("--protocol", default="auto", metavar="NAME", help="a protocol, or a saved split .json (default auto)")
    add("--query-per-class", type=common.positive, metavar="N", help="queries a class, for protocol per-class")
    add("--train-per-class", type=common.positive, metavar="N", help="training images a class, likewise")
    add("--seed", type=common.natural, default=0, metavar="N", help="which images a protocol picks (default 0)")

    add = parser.add_argument_group("how").add_argument
    add("--top", nargs="+", type=common.positive, metavar="K", help="K of MAP@K, P@K, R@K (default 10 100 1000 5000)")
    add("--radius", type=common.natural, default=2, metavar="R", help="of P@H<=R and R@H<=R (default 2)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where the model runs (default auto)")
    add("--threads", type=common.positive, metavar="N", help="threads (default: all cores of the process)")

    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="print JSON, curves and histograms included")
    add("--plots", metavar="DIR", help="also draw PNG plots into DIR")
    add("--save-codes", metavar="FILE.npz", help="also write the codes of the one --model, for --codes")
    add("--save-protocol", metavar="FILE.json", help="also write the split, for --protocol")
    return parser


@dataclass(frozen=True)
class Source:
    """One column: a model to run, or a file of codes."""

    kind: str
    path: str


def _model(path: str) -> Source:
    return Source("model", path)


def _codes(path: str) -> Source:
    return Source("codes", path)


@dataclass
class Outcome:
    """What is printed."""

    columns: dict[str, Evaluation] = field(default_factory=dict)
    sources: list[dict[str, Any]] = field(default_factory=list)
    """Of each column, where the codes come from."""
    protocol: dict[str, Any] | None = None
    heading: str = ""
    skipped: dict[str, str] = field(default_factory=dict)
    """Key of each picture that could not be read, and why."""
    plots: list[Path] = field(default_factory=list)


@common.command
def main(argv: list[str] | None = None) -> int:
    arguments = parser()
    options = arguments.parse_args(argv)
    _check_usage(arguments, options)
    names = _names(options)
    outcome = Outcome()
    with ExitStack() as outputs:
        # every output is opened or made first: one that cannot be written shows before the long work
        codes_file = outputs.enter_context(replacing(options.save_codes)) if options.save_codes else None
        if options.plots:
            plots.prepare(Path(options.plots))
        images = _images(options, outcome)
        for source, name in zip(options.sources, names, strict=True):
            codes = _encode(source.path, name, images, options, outcome) if images and source.kind == "model" else None
            if codes is None:
                codes = code_sets.load(source.path)
                outcome.sources.append({"codes": source.path})
            if codes_file:
                codes.save(codes_file)
            outcome.columns[name] = _evaluate(source, codes, options)
    if options.plots:
        outcome.plots = plots.save(outcome.columns, Path(options.plots))
        common.note(f"plots: {', '.join(map(str, outcome.plots))}")
    if options.json:
        _print_json(options, outcome)
    else:
        _print_table(outcome)
    return common.SKIPPED if outcome.skipped else common.DONE


def _check_usage(arguments: common.Parser, options: Any) -> None:
    if not options.sources:
        arguments.error("expected --model FILE or --codes FILE.npz")
    models = sum(source.kind == "model" for source in options.sources)
    if models and not options.data:
        arguments.error("--model needs --data, the labelled images to encode")
    if not models and (options.data or options.save_protocol):
        arguments.error("--data and --save-protocol go with --model; --codes brings its own labels")
    if options.save_codes and (models, len(options.sources)) != (1, 1):
        arguments.error("--save-codes goes with exactly one --model")
    if options.name and len(options.name) != len(options.sources):
        arguments.error(f"expected {len(options.sources)} --name, one for each --model and --codes, not {len(options.name)}")
    if options.name and len(set(options.name)) != len(options.name):
        arguments.error("expected a different --name for each")


def _names(options: Any) -> list[str]:
    """What heads each column: --name, or the shortest end of the path that tells them apart."""
    if options.name:
        return list(options.name)
    paths = [Path(source.path) for source in options.sources]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = [str(Path(*path.parts[-parts:])) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise IdcwhError(f"{paths[0]}: given twice; give each a --name")


def _images(options: Any, outcome: Outcome) -> tuple[LabelledImages, Split] | None:
    """The labelled images and how the protocol splits them; None when only files of codes are measured."""
    if not options.data:
        return None
    from .. import datasets, protocols

    dataset = datasets.load(options.data)
    if options.protocol.endswith(".json"):
        if options.query_per_class or options.train_per_class:
            raise IdcwhError(f"{options.protocol}: a saved split; --query-per-class and --train-per-class do not apply")
        split = protocols.load(options.protocol, dataset)
    else:
        split = protocols.split(
            dataset,
            options.protocol,
            seed=options.seed,
            query_per_class=options.query_per_class,
            train_per_class=options.train_per_class,
        )
    if options.save_protocol:
        split.save(options.save_protocol, dataset)
    outcome.heading = f"{options.data}, {split.describe()}"
    common.note(outcome.heading)
    outcome.protocol = {
        "name": split.name,
        "seed": split.seed,
        "options": split.options,
        "queries": len(split.query),
        "training": len(split.train),
        "database": len(split.database),
        "training_in_database": len(np.intersect1d(split.train, split.database)),
        "sha256": split.sha256(),
    }
    return dataset, split


def _encode(path: str, name: str, images: tuple[LabelledImages, Split], options: Any, outcome: Outcome) -> CodeSet:
    from ..encoder import Encoder

    dataset, split = images
    encoder = Encoder(path, options.device, threads=options.threads)
    common.note(f"{name}: {encoder.bits} bits, on {encoder.device} ({encoder.why})")

    def skip(key: str, reason: str) -> None:
        if key not in outcome.skipped:  # a second model meets the same files
            common.note(f"skipped {key}: {reason}")
        outcome.skipped[key] = reason

    total = len(split.query) + len(split.database)
    with common.progress_bar(total=total, unit="image", desc=f"encoding, {name}", leave=False) as bar:
        codes, summary = code_sets.encode(encoder, dataset, split, on_skip=skip, progress=bar.update)
    common.note(f"{name}: {summary}")
    outcome.sources.append({"model": path, "fingerprint": encoder.fingerprint, "device": encoder.device})
    return codes


def _evaluate(source: Source, codes: CodeSet, options: Any) -> Evaluation:
    at = options.top or [k for k in CUTS if k <= len(codes.database_codes)]
    try:
        return codes.evaluate(at=at, radius=options.radius, threads=options.threads)
    except ValueError as error:
        raise IdcwhError(f"{source.path}: {error}") from error


def _print_table(outcome: Outcome) -> None:
    if outcome.heading:
        print(outcome.heading)
    if outcome.skipped:
        print(f"{len(outcome.skipped):,} images could not be read and are left out")
    if outcome.heading or outcome.skipped:
        print()
    print(report.table(outcome.columns))


def _print_json(options: Any, outcome: Outcome) -> None:
    content = {
        "data": options.data,
        "protocol": outcome.protocol,
        "skipped": [{"key": key, "reason": reason} for key, reason in outcome.skipped.items()],
        "evaluations": [
            {"name": name, **source, **evaluation.to_dict()}
            for (name, evaluation), source in zip(outcome.columns.items(), outcome.sources, strict=True)
        ],
        "plots": [str(path) for path in outcome.plots],
    }
    json.dump(content, sys.stdout, ensure_ascii=False, allow_nan=False, indent=1)
    print()


if __name__ == "__main__":
    sys.exit(main(None))
