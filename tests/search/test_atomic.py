"""Atomic replacement of files: leftovers of killed writers are removed, files of running writers are kept."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search._util import atomic
from idcwh_search._util.atomic import (
    CODES_BIN,
    NPY,
    NPZ,
    OWN_NAME,
    PNG,
    UNRECOGNIZABLE,
    NotWrittenError,
    beside,
    check_target,
    move_into_place,
    replacing,
)
from idcwh_search.errors import AlreadyExistsError, IdcwhError
from support.errors import raises

WRITER = """
import sys, time
from idcwh_search._util.atomic import OWN_NAME, replacing
with replacing(sys.argv[1], OWN_NAME) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is writing tmp_path/a.json."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "a.json")], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    yield process
    process.kill()
    process.communicate()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_replacing_removes_files_of_killed_writers(tmp_path, writer):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    (left,) = names(tmp_path)
    for other in (".a.json.notes.tmp", ".b.json.abcdefgh.tmp", ".a.json.abcdefgh", "a.json.abcdefgh.tmp"):
        (tmp_path / other).write_text("not ours")
    before = set(names(tmp_path))
    with replacing(tmp_path / "a.json", OWN_NAME) as file:
        file.write(b"whole")
    assert set(names(tmp_path)) == before - {left} | {"a.json"} and (tmp_path / "a.json").read_bytes() == b"whole"


def test_replacing_keeps_files_of_other_writers(tmp_path, writer):
    (theirs,) = names(tmp_path)
    for _ in range(2):
        with replacing(tmp_path / "a.json", OWN_NAME) as file:
            file.write(b"whole")
        check_target(tmp_path / "a.json", OWN_NAME)
    assert names(tmp_path) == [theirs, "a.json"] and (tmp_path / theirs).read_bytes() == b"half"


@pytest.mark.parametrize("still_at_it", [True, False])
def test_replacing_gives_up_a_file_taken_for_abandoned(tmp_path, monkeypatch, still_at_it):
    """The file was found before its writer had locked it. The writer has removed it or will do so."""
    real, first = atomic.try_lock, []

    def late(handle):
        if first:
            return real(handle)
        first.append(Path(f"/proc/self/fd/{handle}").readlink())
        if still_at_it:
            return False
        first[0].unlink()
        return real(handle)

    monkeypatch.setattr(atomic, "try_lock", late)
    with replacing(tmp_path / "a", OWN_NAME) as file:
        first[0].unlink(missing_ok=True)
        file.write(b"whole")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"whole"


def test_replacing_keeps_a_new_file_of_an_abandoned_name(tmp_path, monkeypatch):
    """Two processes opened the same abandoned file. One removed it, and a new writer created a file of that name before
    the other process got its lock.
    """
    left, real, first = tmp_path / ".a.aaaaaaaa.tmp", atomic.try_lock, []
    left.write_text("left")

    def late(handle):
        if not first:
            first.append(handle)
            left.unlink()
            left.write_text("new writer")
        return real(handle)

    monkeypatch.setattr(atomic, "try_lock", late)
    with replacing(tmp_path / "a", OWN_NAME) as file:
        file.write(b"whole")
    assert left.read_text() == "new writer"


def test_replacing_ignores_leftovers_it_cannot_open(tmp_path):
    (tmp_path / ".a.aaaaaaaa.tmp").mkdir()
    (tmp_path / ".a.bbbbbbbb.tmp").write_text("left")
    (tmp_path / ".a.cccccccc.tmp").mkdir()
    with replacing(tmp_path / "a", OWN_NAME) as file:
        file.write(b"whole")
    assert names(tmp_path) == [".a.aaaaaaaa.tmp", ".a.cccccccc.tmp", "a"]


def test_replacing_twice_at_once_keeps_the_last(tmp_path):
    with replacing(tmp_path / "a", OWN_NAME) as one, replacing(tmp_path / "a", OWN_NAME) as two:
        one.write(b"one")
        two.write(b"two")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"one", "the last to end"


@contextlib.contextmanager
def room_for(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_replacing_on_a_full_disk_keeps_the_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with room_for(1000), raises(NotWrittenError, path=tmp_path / "a"):  # noqa: SIM117
        with replacing(tmp_path / "a", OWN_NAME) as file:
            file.write(bytes(1_000_000))
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"


def test_replacing_in_an_unwritable_place_fails(tmp_path):
    assert issubclass(NotWrittenError, IdcwhError)
    for place in (tmp_path / "nowhere" / "a", tmp_path):
        with pytest.raises(NotWrittenError), replacing(place, OWN_NAME):
            pass


MANY = """
import sys
from idcwh_search._util.atomic import OWN_NAME, replacing
for _ in range(500):
    with replacing(sys.argv[1], OWN_NAME) as file:
        file.write(sys.argv[2].encode() * 1000)
"""


@pytest.mark.slow
def test_replacing_by_many_processes_is_never_partial(tmp_path):
    """No writer fails, and the file always has the complete content of one of them."""
    target = tmp_path / "a"
    command = [sys.executable, "-c", MANY, str(target)]
    writers = [subprocess.Popen([*command, letter], stderr=subprocess.PIPE, text=True) for letter in "xyz"]
    while any(writer.poll() is None for writer in writers):
        if target.exists():
            content = target.read_bytes()
            assert len(content) == 1000 and len(set(content)) == 1
    assert [writer.communicate()[1] for writer in writers] == [""] * 3
    assert names(tmp_path) == ["a"]


def written(kind, content):
    file = io.BytesIO()
    if kind is NPY:
        np.save(file, np.arange(5))
    elif kind is NPZ:
        np.savez(file, codes=np.arange(5))
    elif kind is PNG:
        Image.new("L", (2, 2)).save(file, "png")
    else:
        file.write(content)
    return file.getvalue()


@pytest.mark.parametrize("kind", [CODES_BIN, NPY, NPZ, PNG])
def test_replacing_another_kind_is_refused(tmp_path, kind):
    good = written(kind, b"\x89IDCWH\r\n and more")
    for name, other in {
        "notes.txt": b"notes",
        "one": b"\x89",
        "two": b"PK\x03\x04" + bytes(26) + b"word/a.xml",
    }.items():
        (tmp_path / name).write_bytes(other)
        with raises(AlreadyExistsError, path=tmp_path / name, expected=kind.name):
            check_target(tmp_path / name, kind)
        with raises(AlreadyExistsError, path=tmp_path / name), replacing(tmp_path / name, kind):
            raise AssertionError("before any work")
        assert (tmp_path / name).read_bytes() == other
    for old in (b"", good):
        (tmp_path / "out").write_bytes(old)
        with replacing(tmp_path / "out", kind) as file:
            file.write(b"new")
        assert (tmp_path / "out").read_bytes() == b"new"
    with raises(AlreadyExistsError, path=tmp_path / "out"):
        move_into_place(tmp_path / "one", tmp_path / "out", kind)
    assert names(tmp_path) == ["notes.txt", "one", "out", "two"]


def test_replacing_unrecognizable_files_needs_empty_ones(tmp_path):
    (tmp_path / "raw").write_bytes(b"codes")
    with raises(AlreadyExistsError, path=tmp_path / "raw", found="a file with content", expected="empty file"):
        check_target(tmp_path / "raw", UNRECOGNIZABLE)


def test_replacing_a_file_that_came_meanwhile_is_refused(tmp_path):
    with raises(AlreadyExistsError, path=tmp_path / "a"), replacing(tmp_path / "a", PNG) as file:
        file.write(b"new")
        (tmp_path / "a").write_bytes(b"another process")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"another process"


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o444])
def test_replacing_keeps_permissions(tmp_path, umask, mode):
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(mode)
    with replacing(tmp_path / "a", OWN_NAME) as file:
        assert Path(file.name).stat().st_mode & 0o777 == 0o600, (
            "other users cannot read it before it has its permissions"
        )
    (tmp_path / "b").touch()
    move_into_place(tmp_path / "b", tmp_path / "a", OWN_NAME)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode
    with replacing(tmp_path / "new", OWN_NAME):
        pass
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_replacing_never_changes_the_umask(tmp_path, monkeypatch):
    """Another thread would create world-writable files."""
    monkeypatch.setattr(os, "umask", None)
    with replacing(tmp_path / "a", OWN_NAME):
        pass


def test_replacing_a_link_replaces_what_it_leads_to(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real").touch()
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("folder/real")
    check_target(tmp_path / "one", PNG)
    with replacing(tmp_path / "one", PNG) as file:
        file.write(b"new")
    assert (tmp_path / "one").is_symlink() and (tmp_path / "folder" / "real").read_bytes() == b"new"
    assert beside(tmp_path / "one", ".part") == (tmp_path / "folder").resolve() / "real.part"


@pytest.mark.parametrize("leads_to", ["nowhere", "folder/nowhere", "link"])
def test_replacing_a_link_to_nowhere_is_refused(tmp_path, leads_to):
    (tmp_path / "link").symlink_to(leads_to)
    with raises(NotWrittenError, path=tmp_path / "link", found=f"a broken link to {leads_to}"):
        check_target(tmp_path / "link", OWN_NAME)
    with raises(NotWrittenError, path=tmp_path / "link"), replacing(tmp_path / "link", OWN_NAME):
        pass
    assert names(tmp_path) == ["link"] and (tmp_path / "link").is_symlink()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Linux only")
def test_replacing_a_link_to_a_pipe_is_refused(tmp_path):
    read, write = os.pipe()
    link = tmp_path / "link"
    link.symlink_to(f"/proc/self/fd/{write}")  # as /dev/stdout before a pipe
    with raises(NotWrittenError, path=link, found="a device or a pipe"):
        check_target(link, OWN_NAME)
    with pytest.raises(ValueError, match="a device or a pipe"):
        ih.Database.create(link, 48)
    os.close(read)
    os.close(write)


def test_replacing_a_dash_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("-", Path("-")):
        with raises(NotWrittenError, path=path, found="standard output"):
            check_target(path, OWN_NAME)
        with raises(NotWrittenError, path=path), replacing(path, OWN_NAME):
            raise AssertionError("before any work")
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["a" * 243, "a" * 255, "\u00e9" * 127, "a" + "\u20ac" * 84])
def test_replacing_a_long_name_succeeds(tmp_path, name):
    target = tmp_path / name
    for _ in range(2):
        with replacing(target, OWN_NAME) as file:
            left = Path(file.name)
    assert names(tmp_path) == [name]
    left.touch()
    check_target(target, OWN_NAME)
    assert not left.exists()
    part = beside(target, ".part")
    part.touch()
    move_into_place(part, target, OWN_NAME)
    longer = target.with_name(name + 100 * "a")
    with raises(NotWrittenError, path=longer, problem=os.strerror(errno.ENAMETOOLONG)):
        check_target(longer, OWN_NAME)
