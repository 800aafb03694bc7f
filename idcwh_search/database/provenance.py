"""The model and the image folder of a database, and their paths after a move.

The manifest has each path twice. The relative one stays valid when the whole folder is moved, and the absolute one when
the database alone is moved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..encoder.encoder import Encoder
from ..errors import InvalidInputError, ModelMismatchError, NotFoundError
from ..images import tar
from ..images.preprocess import Preprocess
from .database import Database, part

Manifest = dict[str, Any]


def describe(database: Path, encoder: Encoder, images: Path) -> Manifest:
    """Returns the manifest of a database.

    Args:
        database: path of the database.
        encoder: the model.
        images: folder to which the keys are relative.
    """
    model = {
        "sha256": encoder.fingerprint,
        "bits": encoder.bits,
        "method": encoder.method,
        "backbone": encoder.info.backbone,
        "preprocess": encoder.preprocess.to_dict(),
        "precision": encoder.info.precision,
        **_place(Path(encoder.path), database),
    }
    return {"model": model, "images": _place(images, database)}


def open_encoder(
    database: Database,
    model: str | None,
    *,
    device: str,
    threads: int | None = None,
    batch_size: int | None = None,
    preprocess: Preprocess | None = None,
) -> Encoder:
    """Returns the encoder that computed the codes of a database.

    A model without metadata gets the preprocessing that is stored in the database, unless `preprocess` is given.

    Args:
        database: the database.
        model: path of the model; None for the path in the manifest.
        device, threads, batch_size, preprocess: as in Encoder.

    Raises:
        ModelMismatchError: the model is not the one that computed the codes.
        NotFoundError: the model is missing.
    """
    refuse_hashes(database)
    stored = part(database.manifest, "model")
    if preprocess is None and stored.get("precision") == "unknown":
        preprocess = Preprocess.from_dict(part(stored, "preprocess"))
    path = model or _find(database, stored)
    encoder = Encoder(path, device=device, threads=threads, batch_size=batch_size, preprocess=preprocess)
    if encoder.fingerprint != stored.get("sha256"):
        raise ModelMismatchError(
            f"fingerprint does not match {database.path}",
            path=encoder.path,
            found=encoder.fingerprint,
            expected=stored.get("sha256") or "no model",
            hint="pass --model FILE, the model that computed its codes, or build the database again",
        )
    _check_same(database, stored, encoder)
    return encoder


def refuse_hashes(database: Database) -> None:
    """Raises ModelMismatchError for a database with hashes of another program, which no model can compute."""
    if database.hash_order is not None:
        raise ModelMismatchError(
            "does not match images and models",
            path=database.path,
            found=f"hashes of another program in order {database.hash_order}",
            expected="codes of a model",
            hint="pass hashes of that program to idcwh-search --code or idcwh-index import",
        )


def _check_same(database: Database, stored: dict[str, Any], encoder: Encoder) -> None:
    """Raises ModelMismatchError if preprocessing or code length differ, which options of the encoder can override."""
    wanted = stored.get("preprocess")
    if isinstance(wanted, dict) and wanted != encoder.preprocess.to_dict():
        raise ModelMismatchError(
            f"preprocessing does not match {database.path}",
            path=encoder.path,
            found=_words(encoder.preprocess.to_dict()),
            expected=_words(wanted),
            hint="leave --preprocess out, or build the database again",
        )
    bits = stored.get("bits", database.bits)
    if bits != encoder.bits:
        raise ModelMismatchError(
            f"code length does not match {database.path}",
            path=encoder.path,
            found=f"{encoder.bits} bits",
            expected=bits,
            hint="pass --model FILE, the model that computed its codes, or build the database again",
        )


def _words(preprocess: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in preprocess.items())


def is_outside(key: str) -> bool:
    """Returns True for the key of a file outside the folder to which keys are relative."""
    return key.startswith("../")


class KeyNames:
    """The keys of files relative to a folder, with links to the folder or to the files taken into account."""

    def __init__(self, root: Path) -> None:
        self._root, self._real = root, os.path.realpath(root)
        self._prefixes: dict[str, str] = {}

    def key(self, path: str) -> str:
        """Returns the key of a file, or of a member of a tar file."""
        file, member = tar.split(path) or (path, None)
        folder, name = os.path.split(file)
        key = self.prefix(folder) + name
        return key if member is None else f"{key}/{member}"

    def prefix(self, folder: str) -> str:
        """Returns the prefix of the keys of all files in a folder: "" or a path that ends with /."""
        if folder not in self._prefixes:
            at, below = os.path.abspath(folder), ""  # noqa: PTH100 (does not resolve links)
            while os.path.realpath(at) != self._real:
                parent, name = os.path.split(at)
                if parent == at:  # the folder is outside the root
                    below = f"{os.path.relpath(folder or '.', self._root)}/"
                    break
                at, below = parent, f"{name}/{below}"
            self._prefixes[folder] = below
        return self._prefixes[folder]


def image_roots(database: Database, given: str | None = None) -> list[Path]:
    """Returns the folders to which keys may be relative: `given`, or those in the manifest.

    Raises NotFoundError if `given` is not a folder.
    """
    if given is None:
        return list(_candidates(database, part(database.manifest, "images")))
    if not Path(given).is_dir():
        raise NotFoundError(path=given, expected=f"the folder with the images of {database.path}")
    return [Path(given)]


def image_path(roots: Iterable[Path], key: str | None) -> Path | None:
    """Returns the path of the image with this key in one of the folders, or None if it is missing."""
    if key is None:
        return None
    return next((path for path in (root / key for root in roots) if path.is_file() or tar.stat(path)), None)


def keys_of_file(roots: Iterable[Path], path: str) -> frozenset[str]:
    """Returns the keys that an image file may have, relative to these folders.

    Images are listed by their names, which may be links. Both the name and the file behind a link have a key here.
    """
    folders = {os.path.abspath(root) for root in roots}  # noqa: PTH100 (not resolved)
    real_file, real_folders = os.path.realpath(path), {os.path.realpath(folder) for folder in folders}
    of_names = {tar.relative(os.path.abspath(path), folder) for folder in folders}  # noqa: PTH100
    return frozenset(of_names | {tar.relative(real_file, folder) for folder in real_folders})


def images_root(database: Database, given: str | None, default: Path) -> Path:
    """Returns the folder to which keys are relative: `given`, or the one in the manifest, or `default` without one.

    Raises NotFoundError if the folder is missing.
    """
    looked = list(dict.fromkeys(Path(os.path.normpath(root)) for root in image_roots(database, given)))
    if not looked:
        return default
    for root in looked:
        if root.is_dir():
            return root
    raise NotFoundError(
        "folder of images is missing",
        path=database.path,
        expected=" or ".join(map(str, looked)),
        hint="pass --root DIR",
    )


def image_folder(database: Database) -> Path | None:
    """Returns the folder of the images in the manifest, or None without one.

    The manifest has two paths. The result is the one that exists, otherwise the absolute one.
    """
    return _existing(image_roots(database))


def placed(database: Database, path: Path) -> Manifest:
    """Returns the manifest of a database for a file at `path`, from which the model and the images are found."""
    manifest = database.manifest
    for name in ("model", "images"):
        stored = part(manifest, name)
        if found := _existing(list(_candidates(database, stored))):
            manifest[name] = {**stored, **_place(found, path)}
    return manifest


def _existing(candidates: list[Path]) -> Path | None:
    return next((path for path in candidates if path.exists()), candidates[-1] if candidates else None)


def move_images(database: Database, root: Path) -> None:
    """Stores the folder of the images in the manifest."""
    manifest = database.manifest
    place = _place(root, database.path)
    if part(manifest, "images") != place:
        database.set_manifest({**manifest, "images": place})


def keys_below(database: Database, root: Path) -> list[str | None]:
    """Returns the keys of all items when `root` becomes the folder of the images.

    A key inside the old root stays unchanged if the file exists below `root`. A file at its old path gets a key
    relative to `root` if it is inside `root` or was outside the old root. The key is None for an item whose new key an
    earlier item has.
    """
    before, names = database.keys(), KeyNames(root)
    roots = image_roots(database)
    roots = [old for old in roots if old.is_dir()][:1] or roots
    keys = [None if key is None else _key_below(key, roots, root, names) for key in before]
    renamed = {key for key, old in zip(keys, before, strict=True) if key != old}
    seen = set[str]()
    for row, key in enumerate(keys):
        if key is not None and key in renamed:
            keys[row] = None if key in seen else key
            seen.add(key)
    return keys


def _key_below(key: str, roots: list[Path], root: Path, names: KeyNames) -> str:
    outside = is_outside(key)
    if not outside and _exists(root / key):
        return key
    for old in roots:
        path = os.path.normpath(old / key) if outside else os.fspath(old / key)  # the old root may be missing
        if _exists(path) and (outside or not is_outside(names.key(path))):
            return names.key(path)
    return key


def _exists(path: str | Path) -> bool:
    return os.path.isfile(path) or tar.exists(path)  # noqa: PTH113 (False for a failing disk)


def rename_items(database: Database, keys: list[str | None]) -> int:
    """Sets the keys of all items, removes the items whose key is None, and returns the number of removed items."""
    pairs = [*zip(database.keys(), keys, strict=True)]
    changed = [row for row, (old, new) in enumerate(pairs) if new != old]
    if not changed:
        return 0
    rows = [row for row in changed if keys[row] is not None]
    ids, codes = database.ids, database.codes
    some = ids[rows]
    columns = database.labels(some), database.mtime_signatures(some), database.checksums(some)
    database.update(ids[changed], codes[rows], some, [keys[row] for row in rows], *columns)
    return len(changed) - len(rows)


def _place(path: Path, database: Path) -> dict[str, str]:
    absolute = path.resolve()
    return {"path": os.path.relpath(absolute, database.resolve().parent), "absolute": str(absolute)}


def _candidates(database: Database, place: dict[str, str]) -> Iterator[Path]:
    if isinstance(place.get("path"), str):
        yield database.path.resolve().parent / place["path"]
    if isinstance(place.get("absolute"), str):
        yield Path(place["absolute"])


def _find(database: Database, stored: dict[str, str]) -> Path:
    looked = list(dict.fromkeys(os.path.normpath(path) for path in _candidates(database, stored)))
    for path in looked:
        if Path(path).is_file():
            return Path(path)
    if not looked:
        hint = "pass --model FILE, the model that computed its codes"
        raise InvalidInputError("path of the model is missing", path=database.path, hint=hint)
    raise NotFoundError("model is missing", path=database.path, expected=" or ".join(looked), hint="pass --model FILE")
