"""Files that are replaced as a whole: what writers that were killed have left goes, what others are at does not."""

from __future__ import annotations

import contextlib
import resource
import signal
import subprocess
import sys

import pytest

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


def test_two_writers_in_one_process(tmp_path):
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as two:
        one.write(b"one")
        two.write(b"two")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"one", "the last to end"


@contextlib.contextmanager
def files_up_to(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with files_up_to(1000), pytest.raises(NotWritten, match="a: cannot be written: "):  # noqa: SIM117
        with replacing(tmp_path / "a") as file:
            file.write(bytes(1_000_000))
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"


def test_a_place_that_cannot_be_written(tmp_path):
    assert issubclass(NotWritten, IdcwhError)
    for place in (tmp_path / "nowhere" / "a", tmp_path):
        with pytest.raises(NotWritten), replacing(place):
            pass
