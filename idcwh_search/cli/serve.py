"""idcwh-serve, which serves searches of a database over HTTP."""

from __future__ import annotations

import argparse
import ipaddress
from pathlib import Path
from typing import Any

from .._util import console
from ..errors import IdcwhError, NotFoundError
from . import common

EPILOG = f"""examples:
  idcwh-serve --db codes.bin --images photos/
  idcwh-serve --db codes.bin --refresh 5
  idcwh-serve --db codes.bin --host 0.0.0.0 --read-key-file read.key --admin-key-file admin.key --writable
  curl -s -F image=@photo.jpg -F k=5 http://127.0.0.1:8000/v1/search

The page is at /, the API at /v1, and its description at /openapi.json.
The variables IDCWH_READ_KEY and IDCWH_ADMIN_KEY are further keys.

signals: SIGTERM finishes requests in flight and ends, SIGHUP reads the key files again
exit codes: {common.EXIT_CODES}"""


def seconds(text: str) -> float:
    """Returns an argument as seconds. Raises ArgumentTypeError for an invalid one."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"expected seconds > 0 and <= 86400, not {text!r}")
    return value


def port(text: str) -> int:
    """Returns an argument as a port. Raises ArgumentTypeError for an invalid one."""
    return common.whole(text, 0, 65535)


def parser() -> common.Parser:
    parser = common.Parser(
        prog="idcwh-serve", description="Serve searches of a database over HTTP, with a page.", epilog=EPILOG
    )
    parser.with_version()
    add = parser.add_argument_group("database and images").add_argument
    add("--db", required=True, type=common.path, metavar="FILE", help="database, written by idcwh-index build")
    add("--images", type=common.path, metavar="DIR", help="folder of the images, for images and thumbnails of hits")
    add("--refresh", type=seconds, metavar="SECONDS", help="time between checks for changes of the file (default none)")
    add("--no-structures", action="store_true", help="no index structures: less memory, slower searches")

    add = parser.add_argument_group("server").add_argument
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen at (default 127.0.0.1)")
    add("--port", type=port, default=8000, metavar="N", help="port, 0 for a free one (default 8000)")
    add("--drain", type=seconds, default=1.0, metavar="SECONDS", help="time between SIGTERM and the end (default 1)")

    add = parser.add_argument_group("access").add_argument
    add("--read-key-file", type=common.path, metavar="FILE", help="keys that allow searches, one per line")
    add("--admin-key-file", type=common.path, metavar="FILE", help="keys that also allow changes, one per line")
    add("--no-auth", action="store_true", help="no keys, at any address")
    add("--writable", action="store_true", help="items may be added and removed")

    common.add_model(parser)
    return parser


@common.command
def main(argv: list[str] | None = None) -> int:
    command = parser()
    options = command.parse_args(argv)
    from ..database.database import Database
    from ..serve.keys import Keys
    from ..serve.metrics import Metrics
    from ..serve.server import Runner
    from ..serve.service import Service
    from ..serve.store import Store

    def load_keys() -> Keys:
        return Keys.load(options.read_key_file, options.admin_key_file)

    keys = load_keys()
    _check(options, bool(keys), command)
    if options.images is not None and not Path(options.images).is_dir():
        raise NotFoundError(path=options.images, expected="the folder of the images")
    metrics = Metrics()
    store = Store(
        Path(options.db),
        structures=not options.no_structures,
        on_refresh=lambda result: metrics.refreshes.labels(result).inc(),
    )
    with Database.open(options.db) as database:
        encoder = _encoder(database, options)
    if encoder is not None:
        store.model = encoder.fingerprint
    service = Service(
        store,
        metrics,
        encoder=encoder,
        images=None if options.images is None else Path(options.images),
        load_keys=load_keys,
        writable=options.writable,
        threads=options.threads,
    )
    runner = Runner(service, options.host, options.port, refresh=options.refresh, drain=options.drain)
    if runner.run():
        return common.DONE
    raise KeyboardInterrupt


def _check(options: argparse.Namespace, has_keys: bool, command: common.Parser) -> None:
    """Ends the command as wrong usage for options that contradict each other."""
    if options.no_auth and has_keys:
        command.error("argument --no-auth: not allowed with keys")
    if not has_keys and not options.no_auth and not _is_local(options.host):
        command.error(
            f"argument --host: {options.host} needs a key; pass --read-key-file or --admin-key-file, "
            "or --no-auth to allow everyone"
        )


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _encoder(database: Any, options: argparse.Namespace) -> Any:
    """Returns the encoder of queries, or None for a database without a model, or whose model is missing."""
    from ..database.provenance import open_encoder

    try:
        encoder = open_encoder(database, options.model, **common.encoder_options(options))
    except IdcwhError as error:
        if options.model is not None:
            raise
        console.note(f"{error}; queries cannot be images")
        return None
    encoder.warm_up()
    encoder.pixels(b"P6 1 1 255 \0\0\0")  # loads the decoders
    console.note(f"model on {encoder.device}: {encoder.why}")
    return encoder
