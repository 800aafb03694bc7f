"""The model and the images that a database names, and finding both again after they were moved together with it.

Paths are stored twice: relative to the database (survives moving the whole folder) and absolute (survives moving the
database alone).
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
    """Returns the manifest of a database at this path, made by this encoder from images below this folder."""
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
    """Returns the encoder that made this database: `model`, else the one its manifest names. Refuses another.

    A model without metadata that the database was built with is read as it was then, unless `preprocess` is given.
    """
    said = part(database.manifest, "model")
    if preprocess is None and said.get("precision") == "unknown":
        preprocess = Preprocess.from_dict(part(said, "preprocess"))
    path = model or _find(database, said)
    encoder = Encoder(path, device=device, threads=threads, batch_size=batch_size, preprocess=preprocess)
    if encoder.fingerprint != said.get("sha256"):
        raise ModelMismatchError(
            f"its fingerprint does not match the model that made the codes in {database.path}",
            path=encoder.path,
            found=encoder.fingerprint,
            expected=said.get("sha256") or "no model",
            hint="give the model that made them with --model, or build the database again",
        )
    _check_same(database, said, encoder)
    return encoder


def _check_same(database: Database, said: dict[str, Any], encoder: Encoder) -> None:
    """Raises ModelMismatchError unless the encoder uses the file as it was used: its options override the metadata."""
    wanted = said.get("preprocess")
    if isinstance(wanted, dict) and wanted != encoder.preprocess.to_dict():
        raise ModelMismatchError(
            f"its preprocessing does not match the codes in {database.path}",
            path=encoder.path,
            found=_words(encoder.preprocess.to_dict()),
            expected=_words(wanted),
            hint="leave --preprocess out, or build the database again",
        )
    bits = said.get("bits", database.bits)
    if bits != encoder.bits:
        raise ModelMismatchError(
            f"its code length does not match the codes in {database.path}",
            path=encoder.path,
            found=f"{encoder.bits} bits",
            expected=bits,
            hint="give the model that made them with --model, or build the database again",
        )


def _words(preprocess: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in preprocess.items())


def is_outside(key: str) -> bool:
    """Returns whether a key names a file outside the folder that keys are relative to."""
    return key.startswith("../")


class KeyNames:
    """The keys of files relative to a folder, whichever links lead to it or to them."""

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
        """Returns what stands in front of the names of the files of a folder: nothing, or a path that ends with /."""
        if folder not in self._prefixes:
            at, below = os.path.abspath(folder), ""  # noqa: PTH100 (links stay as they were written)
            while os.path.realpath(at) != self._real:
                parent, name = os.path.split(at)
                if parent == at:  # outside
                    below = f"{os.path.relpath(folder or '.', self._root)}/"
                    break
                at, below = parent, f"{name}/{below}"
            self._prefixes[folder] = below
        return self._prefixes[folder]


def image_roots(database: Database, given: str | None = None) -> list[Path]:
    """Returns the folders that keys may be relative to: `given`, or else those that the database names.

    Raises IdcwhError where `given` is not a folder.
    """
    if given is None:
        return list(_candidates(database, part(database.manifest, "images")))
    if not Path(given).is_dir():
        raise NotFoundError("is not a folder", path=given, expected=f"the folder with the images of {database.path}")
    return [Path(given)]


def image_path(roots: Iterable[Path], key: str | None) -> Path | None:
    """Returns the path of the image of this key below one of the folders, None where it is missing."""
    if key is None:
        return None
    return next((path for path in (root / key for root in roots) if path.is_file() or tar.stat(path)), None)


def keys_of_file(roots: Iterable[Path], path: str) -> frozenset[str]:
    """Returns the keys that an image file may have, relative to these folders.

    Keys are of the names that were listed, which may be links: both the name and the file that it leads to count.
    """
    folders = {os.path.abspath(root) for root in roots}  # noqa: PTH100 (not resolved)
    real_file, real_folders = os.path.realpath(path), {os.path.realpath(folder) for folder in folders}
    of_names = {tar.relative(os.path.abspath(path), folder) for folder in folders}  # noqa: PTH100
    return frozenset(of_names | {tar.relative(real_file, folder) for folder in real_folders})


def images_root(database: Database, given: str | None, default: Path) -> Path:
    """Returns the folder that keys are relative to: `given`, the one that the database names, or else `default`.

    IdcwhError when the folder that it names is not where it was.
    """
    looked = list(dict.fromkeys(Path(os.path.normpath(root)) for root in image_roots(database, given)))
    if not looked:
        return default
    for root in looked:
        if root.is_dir():
            return root
    raise NotFoundError(
        "its folder of images is missing",
        path=database.path,
        expected=" or ".join(map(str, looked)),
        hint="give it with --root",
    )


def move_images(database: Database, root: Path) -> None:
    """Writes into the manifest that the images are below this folder."""
    manifest = database.manifest
    place = _place(root, database.path)
    if part(manifest, "images") != place:
        database.set_manifest({**manifest, "images": place})


def keys_below(database: Database, root: Path) -> list[str | None]:
    """Returns the keys that the items have when `root` is the folder with the images.

    Keys below the old root stay as they are, since the folder was moved with its files. A file that is still at its old
    place gets its key relative to `root` if it is below `root` or was outside the old root. The key is None for an item
    whose file is then that of an earlier item.
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
        path = os.path.normpath(old / key) if outside else os.fspath(old / key)  # the old root may be gone
        if _exists(path) and (outside or not is_outside(names.key(path))):
            return names.key(path)
    return key


def _exists(path: str | Path) -> bool:
    return os.path.isfile(path) or tar.exists(path)  # noqa: PTH113 (False where a disk fails)


def rename_items(database: Database, keys: list[str | None]) -> int:
    """Gives the items these keys and removes those whose key is None; returns the number of removed items."""
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


def _find(database: Database, said: dict[str, str]) -> Path:
    looked = list(dict.fromkeys(os.path.normpath(path) for path in _candidates(database, said)))
    for path in looked:
        if Path(path).is_file():
            return Path(path)
    if not looked:
        hint = "give the model that made its codes with --model"
        raise InvalidInputError("names no model", path=database.path, hint=hint)
    raise NotFoundError(
        "its model is missing", path=database.path, expected=" or ".join(looked), hint="give it with --model"
    )
