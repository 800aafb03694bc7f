"""idcwh-index, which creates, changes and inspects databases. Each of its subcommands is a module index_*.py."""

from __future__ import annotations

from . import (
    common,
    index_add,
    index_build,
    index_compact,
    index_export,
    index_import,
    index_info,
    index_merge,
    index_remove,
    index_verify,
)

EPILOG = f"""examples:
  idcwh-index build --model model.onnx --images photos/ --db codes.bin
  find . -name '*.jpg' | idcwh-index build --model model.onnx --images - --db codes.bin
  idcwh-index build --model model.onnx --images shards/ --db codes.bin --resume     (.tar files; can be continued)
  idcwh-index add codes.bin --images photos/       (new and changed images)
  idcwh-index remove codes.bin --keys cats/tom.jpg
  idcwh-index merge all.bin a.bin b.bin
  idcwh-index info codes.bin
  idcwh-index verify codes.bin
  idcwh-index export codes.bin codes.parquet
  idcwh-index import codes.faiss --db codes.bin

idcwh-index COMMAND --help has the options of a command.

exit codes: {common.EXIT_CODES_SKIPPED}"""


def parser() -> common.Parser:
    parser = common.Parser(
        prog="idcwh-index", description="Create, change and inspect databases of binary codes.", epilog=EPILOG
    )
    parser.with_version()
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=common.Parser)
    for module in (
        index_build,
        index_add,
        index_remove,
        index_merge,
        index_compact,
        index_info,
        index_verify,
        index_export,
        index_import,
    ):
        module.add_parser(commands)
    return parser


@common.command
def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    return options.run(options)
