"""Database.build and create, after which the database is complete or missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.errors import AlreadyExistsError, CorruptFileError, NotWrittenError
from support.errors import raises


def random_codes(n: int, bits: int, seed: int = 0) -> np.ndarray:
    return ih.pack(np.random.default_rng(seed).integers(0, 2, (n, bits)).astype(bool))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "codes.bin"
    with ih.Database.build(path, 20) as db:
        db.add(random_codes(30, 20))
    return path


@pytest.mark.parametrize("make", [ih.Database.create, ih.Database.build])
def test_replace_refuses_a_device(make: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"^/dev/null: "):
        make("/dev/null", 8, replace=True)


def test_build_with_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), ih.Database.build(tmp_path / "c.bin", 16) as db:
        db.add(random_codes(2, 16))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_build_keeps_existing_file_unless_asked(small: Path) -> None:
    before = small.read_bytes()
    with raises(AlreadyExistsError, path=small):
        ih.Database.build(small, 20)
    with ih.Database.build(small, 8, replace=True) as db:
        db.add(random_codes(1, 8))
        assert small.read_bytes() == before
    assert ih.Database.open(small).bits == 8
    assert sorted(p.name for p in small.parent.iterdir()) == ["codes.bin"]


def create(path: Path) -> None:
    ih.Database.create(path, 8, replace=True).close()


def build(path: Path) -> None:
    ih.Database.build(path, 8, replace=True).close()


@pytest.mark.parametrize("make", [create, build])
def test_replace_refuses_another_format(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "notes.txt"
    for content in (b"important", b"\x89IDCW", b"\0"):
        path.write_bytes(content)
        with raises(CorruptFileError, path=path):
            make(path)
        assert path.read_bytes() == content and len(list(tmp_path.iterdir())) == 1
    path.write_bytes(b"")
    for _ in range(2):
        make(path)
        assert ih.Database.open(path).bits == 8


def test_replace_refuses_a_file_that_appeared(tmp_path: Path) -> None:
    db = ih.Database.build(tmp_path / "c.bin", 8, replace=True)
    (tmp_path / "c.bin").write_text("somebody else's")
    with raises(CorruptFileError, path=tmp_path / "c.bin"):
        db.close()
    assert (tmp_path / "c.bin").read_text() == "somebody else's" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("make", [create, build])
def test_replace_keeps_permissions_and_links(tmp_path: Path, make: Callable[[Path], None]) -> None:
    real, link = tmp_path / "real.bin", tmp_path / "link.bin"
    link.symlink_to("real.bin")
    before = os.umask(0o027)
    try:
        ih.Database.create(real, 16).close()
        assert real.stat().st_mode & 0o777 == 0o640
        for mode in (0o600, 0o644):
            real.chmod(mode)
            with ih.Database.build(link, 8, replace=True):
                (hidden,) = tmp_path.glob(".real.bin.*")
                assert hidden.stat().st_mode & 0o777 == 0o600
            make(link)
            with ih.Database.open(link, "r+") as db:
                db.add(random_codes(3, 8))
                db.compact()
            assert link.is_symlink() and real.stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


@pytest.mark.parametrize("make", [create, build])
def test_replace_refuses_a_dangling_link(tmp_path: Path, make: Callable[[Path], None]) -> None:
    for name, leads_to in {"dangling": "nowhere", "loop": "loop"}.items():
        (tmp_path / name).symlink_to(leads_to)
        with raises(CorruptFileError, path=tmp_path / name):
            make(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "loop"]


@pytest.mark.parametrize("name", ["a" * 244, "a" * 255, "\u00e9" * 127, "a" + "\u20ac" * 84])
def test_create_with_a_long_name_succeeds(tmp_path: Path, name: str) -> None:
    for make in (create, build):
        make(tmp_path / name)
        with ih.Database.open(tmp_path / name, "r+") as db:
            db.add(random_codes(3, 8))
            db.compact()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_build_keeps_a_file_that_appeared(tmp_path: Path) -> None:
    db = ih.Database.build(tmp_path / "c.bin", 8)
    (tmp_path / "c.bin").write_text("somebody else's")
    with raises(AlreadyExistsError, path=tmp_path / "c.bin"):
        db.close()
    assert (tmp_path / "c.bin").read_text() == "somebody else's" and len(list(tmp_path.iterdir())) == 1


def test_build_in_unwritable_folder_raises(tmp_path: Path) -> None:
    with raises(NotWrittenError, path=tmp_path / "no" / "c.bin", problem="No such file"):
        ih.Database.build(tmp_path / "no" / "c.bin", 8)
    with raises(NotWrittenError, path=tmp_path, found="a folder", expected="a file"):
        ih.Database.build(tmp_path, 8)


def test_build_killed_leaves_no_database(tmp_path: Path) -> None:
    script = (
        "import sys, numpy as np, idcwh_search as ih\n"
        "db = ih.Database.build(sys.argv[1], 64)\n"
        "while True:\n"
        "    db.add(np.zeros((1 << 20, 8), np.uint8)); print('.', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path / "c.bin"], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "c.bin").exists()


def test_build_removes_file_of_killed_build(small: Path) -> None:
    script = (
        "import sys, os, idcwh_search as ih\n"
        "db = ih.Database.build(sys.argv[1], 64, replace=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, small], check=False)
    assert len(list(small.parent.iterdir())) == 2
    mine = ih.Database.build(small.parent / "other.bin", 8)
    ih.Database.open(small, "r+").close()
    assert sorted(path.name[:7] for path in small.parent.iterdir()) == [".other.", "codes.b"]
    mine.close()
    assert len(ih.Database.open(small)) == 30


def test_build_with_ids_in_any_order(tmp_path: Path) -> None:
    codes = random_codes(60, 8)
    ids = np.random.default_rng(1).permutation(1000)[:40]
    with ih.Database.build(tmp_path / "c.bin", 8) as db:
        db.add(codes[:40], ids=ids, keys=[f"{i}" for i in ids], mtime_signatures=ids.astype(np.uint32))
        assigned = db.add(codes[40:50])
        assert assigned.tolist() == list(range(int(ids.max()) + 1, int(ids.max()) + 11))
        for taken in (int(ids[3]), int(assigned[5])):
            with pytest.raises(ValueError, match=f"^ids: {taken} "):
                db.add(codes[50:51], ids=[taken])
        free = next(i for i in range(1000) if i not in ids)
        db.add(codes[50:51], ids=[free])
        assert len(db) == 51
    with ih.Database.open(tmp_path / "c.bin") as db:
        assert db.ids.tolist() == [*ids.tolist(), *assigned.tolist(), free]
        np.testing.assert_array_equal(db.codes, codes[:51])
        np.testing.assert_array_equal(db.mtime_signatures()[:40], ids)
        db.verify()


def test_create_writes_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.bin"
    with pytest.raises(RuntimeError), ih.Database.create(path, 16, {"a": 1}) as db:
        db.add(random_codes(2, 16))
        raise RuntimeError
    with ih.Database.open(path) as db:
        assert len(db) == 2 and db.manifest == {"a": 1}
    with raises(AlreadyExistsError, path=path):
        ih.Database.create(path, 16)
    with ih.Database.create(path, 8, replace=True) as db:
        assert len(db) == 0 and db.bits == 8
    with raises(NotWrittenError, path=tmp_path):
        ih.Database.create(tmp_path, 8, replace=True)


def test_build_in_forked_child_raises(tmp_path: Path) -> None:
    builder = ih.Database.build(tmp_path / "c.bin", 8)
    builder.add(random_codes(3, 8))
    for use in ("discard", "close"):
        child = os.fork()
        if child == 0:
            try:
                getattr(builder, use)()
            except ValueError as error:
                os._exit(0 if "fork" in str(error) else 1)
            os._exit(0 if use == "discard" else 2)
        assert os.waitpid(child, 0)[1] == 0
    builder.close()
    assert len(ih.Database.open(tmp_path / "c.bin")) == 3


def test_build_is_searched_and_changed_before_close(tmp_path: Path) -> None:
    path, codes = tmp_path / "c.bin", random_codes(40, 20)
    with ih.Database.build(path, 20) as db:
        for first in range(0, 40, 10):
            db.add(codes[first : first + 10])
        assert db.search(codes[7:8], 1)[0].tolist() == [[0]] and db.remove([3]) == 1
        assert not path.exists() and len(list(tmp_path.iterdir())) == 1
        db.compact()
        assert not path.exists() and len(list(tmp_path.iterdir())) == 1
        db.remove([5])
    with ih.Database.open(path) as db:
        np.testing.assert_array_equal(db.codes, np.delete(codes, [3, 5], axis=0))
        assert (db.info()["segments"], db.info()["removed"], db.info()["unused"]) == (1, 0, 0)
        db.verify()
