"""idcwh-eval, which prints retrieval metrics of models on a protocol, or of codes in files."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util import console
from .._util.atomic import NPZ, check_target, replacing
from .._util.wording import counted
from ..errors import InvalidInputError, UsageError
from ..metrics import code_files, plots, table
from ..metrics.code_files import CodeSet
from ..metrics.evaluate import CUTS
from ..metrics.result import Evaluation
from ..splits.options import HELP, NAMES, OPTIONS, SplitOptions
from ..splits.split import KIND as SPLIT
from . import common

if TYPE_CHECKING:
    from ..datasets import LabelledImages
    from ..encoder.encoder import Encoder
    from ..splits.protocols import Split

EPILOG = """examples:
  idcwh-eval --model model.onnx --data photos/ --query-per-class 20
  idcwh-eval --model 12.onnx --model 48.onnx --data cifar10:data --protocol cifar10-mini --plots plots/
  idcwh-eval --model model.onnx --data photos/test/ --leave-one-out
  idcwh-eval --codes theirs.npz --model ours.onnx --name DPSH --name IDCWH --data photos/ --protocol split.json --json

The output is a table with one column per --model and --codes. It has MAP with four orders of ties,
MAP@K with three denominators, P@N, R@N, P@H<=R, R@H<=R, and code statistics.

FILE.npz has the arrays query_codes and database_codes (uint8 [n, ceil(bits/8)]), query_labels and
database_labels (int [n], or bool [n, C]), and bits. --leave-one-out compares each image, or each
database code, with all others. It needs no queries.
SPEC is a folder (train/<class>/* and test/<class>/*, or <class>/*), a .csv or .jsonl manifest of
path,label[,label...], an .npz archive of arrays, or cifar10:DIR, cifar100:DIR or coco:DIR.
NAME is one of {protocols}.

exit codes: {exit_codes}"""


_SWITCHES = ("database_without_train",)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parser() -> common.Parser:
    parser = common.Parser(
        prog="idcwh-eval",
        description="Evaluate models, or codes of any origin, by retrieval metrics.",
        epilog=EPILOG.format(protocols=", ".join(NAMES), exit_codes=common.EXIT_CODES_SKIPPED),
    )
    parser.with_version()

    add = parser.add_argument_group("codes (each may be repeated)").add_argument
    # One list for both, so that --name follows the order of the command line.
    source: dict[str, Any] = {"dest": "sources", "action": "append"}
    add("--model", type=partial(_source, "model"), metavar="FILE", help="model.onnx, with --data", **source)
    add("--codes", type=partial(_source, "codes"), metavar="FILE.npz", help="codes and labels, see below", **source)
    add("--name", action="append", metavar="TEXT", help="column title; one per --model and --codes, in order")

    add = parser.add_argument_group("images (with --model)").add_argument
    add(
        "--data",
        type=common.path,
        metavar="SPEC",
        help="labelled images, see below",
    )
    add("--protocol", default="auto", metavar="NAME", help="split protocol, or file of --save-protocol (default auto)")
    for name, text in HELP.items():
        least = common.natural if name in ("query_per_class", "query") else common.positive
        how: dict[str, Any] = {"action": "store_true"} if name in _SWITCHES else {"type": least, "metavar": "N"}
        add(_flag(name), help=text, default=argparse.SUPPRESS, **how)
    add("--leave-one-out", action="store_true", help="each image or database code as a query among all others")
    add("--seed", type=common.natural, default=0, metavar="N", help="seed of the protocol (default 0)")

    add = parser.add_argument_group("metrics and device").add_argument
    add("--top", nargs="+", type=common.positive, metavar="K", help="K of MAP@K, P@K, R@K (default 10 100 1000 5000)")
    add("--radius", type=common.natural, default=2, metavar="R", help="radius of P@H<=R, R@H<=R in bits (default 2)")
    common.add_encoder(add)

    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="metrics as JSON, with curves and histograms")
    add("--plots", type=common.path, metavar="DIR", help="folder for PNG plots")
    add("--save-codes", type=common.path, metavar="FILE.npz", help="output file for the codes of one --model")
    add("--save-protocol", type=common.path, metavar="FILE.json", help="output file for the protocol and its images")
    return parser


@dataclass(frozen=True)
class Source:
    """A column of the table: a model to run (kind "model"), or a file of codes (kind "codes")."""

    kind: str
    path: str

    def open(self, options: Any) -> Encoder | CodeSet:
        if self.kind == "codes":
            return code_files.load(self.path, leave_one_out=options.leave_one_out)
        from ..encoder.encoder import Encoder

        return Encoder(self.path, **common.encoder_options(options))


def _source(kind: str, text: str) -> Source:
    """Returns an argument as a column of the table."""
    return Source(kind, common.path(text))


@dataclass(frozen=True)
class Images:
    """The images on which models are evaluated, and their split, or None for leave-one-out evaluation."""

    dataset: LabelledImages
    split: Split | None
    skipped: dict[str, str] = field(default_factory=dict)
    """Key of an unreadable image -> reason; filled by `_encode`."""

    @property
    def queries(self) -> np.ndarray:
        return np.arange(len(self.dataset)) if self.split is None else self.split.query

    def describe(self) -> str:
        """Returns the images and the protocol as text."""
        if self.split is None:
            return f"{self.dataset.spec}, leave-one-out among {counted(len(self.dataset), 'image')}"
        return f"{self.dataset.spec}, {self.split.describe()}"


@dataclass
class Column:
    """The results of one source, and its fields for JSON."""

    evaluation: Evaluation
    origin: dict[str, Any]


@common.command
def main(argv: list[str] | None = None) -> int:
    arguments = parser()
    options = arguments.parse_args(argv)
    _check_usage(arguments, options)
    names = _names(arguments, options)
    columns: dict[str, Column] = {}
    with ExitStack() as outputs:
        # Inputs and outputs are checked before the long work.
        for target, kind in ((options.save_codes, NPZ), (options.save_protocol, SPLIT)):
            if target:
                check_target(target, kind, options.protocol, *(source.path for source in options.sources or []))
        codes_file = outputs.enter_context(replacing(options.save_codes, NPZ)) if options.save_codes else None
        opened = [source.open(options) for source in options.sources]
        images = _images(options)
        if options.plots:
            plots.prepare(Path(options.plots), plots.NAMES)
        for source, name, found in zip(options.sources, names, opened, strict=True):
            origin: dict[str, Any] = {source.kind: source.path}
            if isinstance(found, CodeSet):
                codes = found
            else:
                assert images is not None  # _check_usage: --model has --data
                trained = _trained_on(found, name, images)
                codes = _encode(found, name, images)
                origin |= {"fingerprint": found.fingerprint, "device": found.device, "queries_trained_on": trained}
            if codes_file:
                codes.save(codes_file)
            columns[name] = Column(_evaluate(source, codes, options), origin)
            if columns[name].evaluation.health.distinct_database == 1:
                console.note(f"warning: {name}: all database codes are equal, the codes have collapsed")
    drawn = _draw(columns, options.plots)
    if options.json:
        _print_json(options, images, columns, drawn)
    else:
        _print_table(images, columns)
    left_out = images is not None and images.dataset.left_out.skipped
    return common.SKIPPED if images and (images.skipped or left_out) else common.DONE


def _check_usage(arguments: common.Parser, options: Any) -> None:
    if not options.sources:
        arguments.error("expected --model FILE or --codes FILE.npz")
    models = sum(source.kind == "model" for source in options.sources)
    if models and not options.data:
        arguments.error("--data: is missing; pass the labelled images for --model")
    if not models and (options.data or options.save_protocol):
        arguments.error("--data, --save-protocol: are not supported without --model")
    if options.save_codes and (models, len(options.sources)) != (1, 1):
        arguments.error("--save-codes: is not supported without exactly one --model")
    given = [name for name in OPTIONS if hasattr(options, name)]
    if options.leave_one_out and (given or options.protocol != "auto" or options.save_protocol):
        name = _flag(given[0]) if given else "--save-protocol" if options.save_protocol else "--protocol"
        arguments.error(f"{name}: is not supported with --leave-one-out, in which every image is a query")
    if options.protocol.endswith(".json") and given:
        arguments.error(f"{_flag(given[0])}: is not supported with the saved protocol {options.protocol}")
    if options.data and not options.protocol.endswith(".json") and not options.leave_one_out:
        with arguments.checking():
            SplitOptions.of(options)
    if options.name and len(options.name) != len(options.sources):
        count = len(options.sources)
        arguments.error(f"expected one --name per --model and --codes, {count} in all, not {len(options.name)}")
    if options.name and len(set(options.name)) != len(options.name):
        arguments.error("expected a different --name per --model and --codes")


def _names(arguments: common.Parser, options: Any) -> list[str]:
    """Returns the titles of the columns: --name, or the shortest ends of the paths that are all different."""
    if options.name:
        return list(options.name)
    paths = [Path(source.path) for source in options.sources]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = [str(Path(*path.parts[-parts:])) for path in paths]
        if len(set(names)) == len(names):
            return names
    arguments.error(f"{paths[0]} is repeated; give each a --name")


def _images(options: Any) -> Images | None:
    """Returns the labelled images and their split, or None if only files of codes are evaluated."""
    if not options.data:
        return None
    from .. import datasets
    from ..splits import protocols

    if options.plots:
        datasets.check_outside(options.data, options.plots, "--plots")
    dataset = datasets.load(options.data)
    if options.leave_one_out:
        console.note_all(dataset.remarks())
        return Images(dataset, None)
    if options.protocol.endswith(".json"):
        split = protocols.load(options.protocol, dataset)
    else:
        split = protocols.split(dataset, SplitOptions.of(options), seed=options.seed)
    if split.without_queries:
        where = options.protocol if options.protocol.endswith(".json") else "--query-per-class or --query"
        raise UsageError("has no queries", path=where)
    console.note_all([*dataset.remarks(), *split.remarks(dataset)])
    if options.save_protocol:
        split.save(options.save_protocol, dataset)
    return Images(dataset, split)


def _trained_on(encoder: Encoder, name: str, images: Images) -> int | None:
    """Returns the number of queries that are training images of the model, and reports it; None if it is unknown."""
    from ..datasets import training_images

    dataset, queries, recorded = images.dataset, images.queries, encoder.info.training_images
    found = training_images.count(recorded, dataset, queries)
    if recorded is None or found is None:
        console.note(f"{name}: has no record of its training images, so a check of the queries is skipped")
    elif found:
        other = (
            "other images" if images.split is None else "the protocol.json of its run as --protocol, or other images"
        )
        console.note(
            f"warning: {name}: {found:,} of {counted(len(queries), 'query')} are among its "
            f"{counted(recorded['images'], 'training image')}, which makes its metrics too high; pass {other}"
        )
    elif not training_images.count(recorded, dataset, np.arange(len(dataset))):
        console.note(
            f"{name}: none of its {counted(recorded['images'], 'training image')} is in {dataset.spec} by key and "
            "size; training images with other keys are not recognised"
        )
        return None
    return found


def _encode(encoder: Encoder, name: str, images: Images) -> CodeSet:
    console.note(f"{name}: {encoder.bits} bits, on {encoder.device} ({encoder.why})")

    def skip(key: str, reason: str) -> None:
        if key not in images.skipped:  # a second model skips the same files
            console.note(f"skipped {key}: {reason}")
        images.skipped[key] = reason

    total = len(images.queries) + (0 if images.split is None else len(images.split.database))
    with console.progress_bar(total=total, unit="image", desc=f"encoding, {name}", leave=False) as bar:
        codes, summary = code_files.encode(encoder, images.dataset, images.split, on_skip=skip, progress=bar.update)
    console.note(f"{name}: {summary}")
    return codes


def _evaluate(source: Source, codes: CodeSet, options: Any) -> Evaluation:
    at = options.top or [k for k in CUTS if k <= len(codes.database_codes)]
    try:
        return codes.evaluate(at=at, radius=options.radius, threads=options.threads)
    except ValueError as error:
        raise InvalidInputError(str(error), path=source.path) from error


def _draw(columns: dict[str, Column], folder: str | None) -> list[Path]:
    if not folder:
        return []
    drawn = plots.save({name: column.evaluation for name, column in columns.items()}, Path(folder))
    console.note(f"{len(drawn)} plots in {folder}: {', '.join(path.name for path in drawn)}")
    return drawn


def _print_table(images: Images | None, columns: dict[str, Column]) -> None:
    if images:
        print(console.one_line(images.describe()))
        if images.skipped:
            print(f"{counted(len(images.skipped), 'image')} could not be read and were skipped")
        print()
    print(table.table({console.one_line(name): column.evaluation for name, column in columns.items()}))


def _print_json(options: Any, images: Images | None, columns: dict[str, Column], drawn: list[Path]) -> None:
    content = {
        "data": options.data,
        "protocol": _protocol(images.split) if images and images.split else None,
        "skipped": [{"key": k, "reason": why} for k, why in images.skipped.items()] if images else [],
        "left_out": images.dataset.left_out.to_dict() if images else None,
        "evaluations": [
            {"name": name, **column.origin, **column.evaluation.to_dict()} for name, column in columns.items()
        ],
        "plots": [str(path) for path in drawn],
    }
    json.dump(content, sys.stdout, allow_nan=False, indent=1)
    print()


def _protocol(split: Split) -> dict[str, Any]:
    return {
        "name": split.name,
        "seed": split.seed,
        "options": split.options,
        "queries": len(split.query),
        "training": len(split.train),
        "database": len(split.database),
        "training_in_database": len(np.intersect1d(split.train, split.database)),
        "sha256": split.sha256(),
    }
