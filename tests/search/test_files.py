"""Files that are replaced as a whole: what writers that were killed have left goes, what others are at does not."""

from __future__ import annotations

import contextlib
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from idcwh_search import files
from idcwh_search.errors import IdcwhError
from idcwh_search.files import NotWritten, check_target, replacing

WRITER = """
import sys, time
from idcwh_search.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is in the middle of writing tmp_path/a.json."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "a.json")], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    yield process
    process.kill()
    process.communicate()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_writer_has_left_goes_with_the_next(tmp_path, writer):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    (left,) = names(tmp_path)
    for other in (".a.json.notes.tmp", ".b.json.abcdefgh.tmp", ".a.json.abcdefgh", "a.json.abcdefgh.tmp"):
        (tmp_path / other).write_text("not ours")
    before = set(names(tmp_path))
    with replacing(tmp_path / "a.json") as file:
        file.write(b"whole")
    assert set(names(tmp_path)) == before - {left} | {"a.json"} and (tmp_path / "a.json").read_bytes() == b"whole"


def test_what_another_process_is_writing_stays(tmp_path, writer):
    (theirs,) = names(tmp_path)
    for _ in range(2):
        with replacing(tmp_path / "a.json") as file:
            file.write(b"whole")
        check_target(tmp_path / "a.json")
    assert names(tmp_path) == [theirs, "a.json"] and (tmp_path / theirs).read_bytes() == b"half"


@pytest.mark.parametrize("still_at_it", [True, False])
def test_a_new_file_that_another_process_takes_for_abandoned_is_given_up(tmp_path, monkeypatch, still_at_it):
    """It was seen before its writer had locked it. The other has removed it already, or is about to."""
    real, first = files.try_lock, []

    def late(handle):
        if first:
            return real(handle)
        first.append(Path(f"/proc/self/fd/{handle}").readlink())
        if still_at_it:
            return False
        first[0].unlink()
        return real(handle)

    monkeypatch.setattr(files, "try_lock", late)
    with replacing(tmp_path / "a") as file:
        first[0].unlink(missing_ok=True)
        file.write(b"whole")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"whole"


def test_another_file_under_the_name_of_an_abandoned_one_stays(tmp_path, monkeypatch):
    """Two who clean up opened the same; one has removed it, and a writer has made one of that name, before the other
    gets its lock."""
    left, real, first = tmp_path / ".a.aaaaaaaa.tmp", files.try_lock, []
    left.write_text("left")

    def late(handle):
        if not first:
            first.append(handle)
            left.unlink()
            left.write_text("of another writer")
        return real(handle)

    monkeypatch.setattr(files, "try_lock", late)
    with replacing(tmp_path / "a") as file:
        file.write(b"whole")
    assert left.read_text() == "of another writer"


def test_what_cannot_be_opened_does_not_keep_the_others(tmp_path):
    (tmp_path / ".a.aaaaaaaa.tmp").mkdir()
    (tmp_path / ".a.bbbbbbbb.tmp").write_text("left")
    (tmp_path / ".a.cccccccc.tmp").mkdir()
    with replacing(tmp_path / "a") as file:
        file.write(b"whole")
    assert names(tmp_path) == [".a.aaaaaaaa.tmp", ".a.cccccccc.tmp", "a"]


def test_two_writers_in_one_process(tmp_path):
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as two:
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


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with room_for(1000), pytest.raises(NotWritten, match="a: cannot be written: "):  # noqa: SIM117
        with replacing(tmp_path / "a") as file:
            file.write(bytes(1_000_000))
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"


def test_a_place_that_cannot_be_written(tmp_path):
    assert issubclass(NotWritten, IdcwhError)
    for place in (tmp_path / "nowhere" / "a", tmp_path):
        with pytest.raises(NotWritten), replacing(place):
            pass


MANY = """
import sys
from idcwh_search.files import replacing
for _ in range(500):
    with replacing(sys.argv[1]) as file:
        file.write(sys.argv[2].encode() * 1000)
"""


def test_many_writers_of_one_file(tmp_path):
    """None fails, and what is there is always one's, whole."""
    target = tmp_path / "a"
    command = [sys.executable, "-c", MANY, str(target)]
    writers = [subprocess.Popen([*command, letter], stderr=subprocess.PIPE, text=True) for letter in "xyz"]
    while any(writer.poll() is None for writer in writers):
        if target.exists():
            content = target.read_bytes()
            assert len(content) == 1000 and len(set(content)) == 1
    assert [writer.communicate()[1] for writer in writers] == [""] * 3
    assert names(tmp_path) == ["a"]
