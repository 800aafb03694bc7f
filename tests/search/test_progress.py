"""Progress in a log file, and numbers with their nouns."""

from __future__ import annotations

import pytest

from idcwh_search._util import console, progress
from idcwh_search._util.wording import counted


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets: now[0] is the time."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_progress_off_a_terminal_is_a_line_at_intervals(clock, capsys):
    with console.progress_bar(total=1000, desc="encoding", unit="image") as bar:
        for images in range(10):
            bar.set_postfix(skipped=images)
            clock[0] += 20
            bar.update(100)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "encoding: 200 of 1,000 images (20 %), 5 images/s, 3 min left, skipped 1"
    assert len(lines) == 4 and all(line.startswith("encoding: ") for line in lines)


def test_progress_of_resumed_work_does_not_count_it_in_the_rate(clock, capsys):
    bar = console.progress_bar(total=100, initial=90, desc="training", unit="step")
    clock[0] += 30
    bar.update(3)
    assert capsys.readouterr().err == "training: 93 of 100 steps (93 %), 0.1 steps/s, 70 s left\n"


def test_progress_without_a_total_counts_only(clock, capsys):
    with console.progress_bar(total=None, desc="importing", unit="item") as bar:
        clock[0] += 40
        bar.update(2000)
    assert capsys.readouterr().err == "importing: 2,000 items, 50 items/s\n"


def test_progress_of_short_work_writes_nothing(clock, capsys):
    with console.progress_bar(total=2, desc="encoding", unit="query") as bar:
        clock[0] += 29
        bar.update(1)
        clock[0] += 29
        bar.update(1)
    assert capsys.readouterr().err == ""


def test_progress_of_a_quiet_process_writes_nothing(clock, capsys, monkeypatch):
    monkeypatch.setattr(console, "_quiet", True)
    bar = console.progress_bar(total=9, desc="encoding", unit="image")
    clock[0] += 99
    bar.update(1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "image", "1 image"), (0, "image", "0 images"), (1200, "query", "1,200 queries"), (2, "class", "2 classes"),
     (1, "query", "1 query"), (3, "training image", "3 training images"),
     (2, "key", "2 keys"), (2, "batch", "2 batches"), (2, "epoch", "2 epochs")],
)  # fmt: skip
def test_counted_gives_singular_and_plural(number, noun, text):
    assert counted(number, noun) == text
