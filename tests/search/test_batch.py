"""encode_files: order, completeness, skipped files, bounded memory, and termination in every case.

The encoder is a fake whose code for an image is the image's number, so that lost, repeated or exchanged images are
found. The real encoder is tested in test_encoder.py.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from idcwh_search.encoder import batch
from idcwh_search.encoder.batch import EncodeRun, Summary, encode_files, encode_loaded
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess, load_image

SIDE = 4


class Numbered:
    """An encoder whose code is the first two bytes of an image's pixels, its number."""

    def __init__(self, batch_size: int = 8, threads: int = 2, device: str = "cpu", slots: int = 2) -> None:
        self.preprocess = Preprocess(SIDE, SIDE)
        self.input_shape = (SIDE, SIDE, 3)
        self.code_bytes, self.bits = 2, 16
        self.batch_size, self.threads, self.device, self.slots = batch_size, threads, device, slots
        self.batches: list[int] = []
        self.inside = self.most = 0
        self.lock = threading.Lock()

    def run(self, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.batches.append(len(pixels))
        time.sleep(0.001)
        with self.lock:
            self.inside -= 1
        return pixels[:, 0, 0, :2].copy(), np.zeros((len(pixels), 16), np.float32)

    def parallel(self) -> tuple[Callable[..., Any], int]:
        return self.run, self.slots

    def pixels(self, image: Any) -> np.ndarray:
        return load_image(image, self.preprocess)


def numbered(position: int) -> np.ndarray:
    return np.broadcast_to(np.array([position % 256, position // 256, 0], np.uint8), (SIDE, SIDE, 3)).copy()


def start(encoder: Any, count: int, load: Callable[[int], np.ndarray] = numbered, **options: Any) -> EncodeRun:
    return encode_loaded(encoder, count, load, **options)


def numbers(codes: np.ndarray) -> list[int]:
    return (codes.astype(int) @ [1, 256]).tolist()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("idcwh-encode")]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("workers", [None, 1, 2, 7])
@pytest.mark.parametrize("batch_size", [1, 3, 8, 64])
@pytest.mark.parametrize("count", [0, 1, 8, 9, 300])
def test_encode_gives_every_image_once_and_in_order(
    count: int, batch_size: int, workers: int | None, device: str
) -> None:
    encoder = Numbered(batch_size, device=device, slots=1 if device == "cuda" else 2)
    dealt: list[int] = []
    run = start(encoder, count, workers=workers, progress=dealt.append)
    result = list(run)
    assert [position for positions, _ in result for position in positions.tolist()] == list(range(count))
    assert [number for _, codes in result for number in numbers(codes)] == list(range(count))
    assert all(codes.dtype == np.uint8 and positions.dtype == np.int64 for positions, codes in result)
    assert sum(dealt) == count == run.summary.images and run.summary.skipped == 0
    assert max(encoder.batches, default=0) <= batch_size


def test_encode_with_uneven_loading_keeps_the_order() -> None:
    rng = np.random.default_rng(0)
    pauses = rng.random(200) * 0.003

    def load(position: int) -> np.ndarray:
        time.sleep(pauses[position])
        return numbered(position)

    result = list(start(Numbered(4), 200, load, workers=6))
    assert [number for _, codes in result for number in numbers(codes)] == list(range(200))


def test_encode_reports_unreadable_images_in_order(tmp_path: Path) -> None:
    paths: list[str] = []
    for i in range(60):
        path = tmp_path / f"{i:03}.png"
        if i % 7 == 3:
            path.write_bytes(b"" if i % 2 else b"not an image")
        elif i != 20:
            Image.fromarray(numbered(i)).save(path)
        paths.append(str(path))
    bad = [i for i in range(60) if i % 7 == 3 or i == 20]
    skipped: list[tuple[str, str]] = []
    dealt: list[int] = []
    run = encode_files(
        Numbered(),
        paths,
        on_skip=lambda path, why: skipped.append((path, why)),
        progress=dealt.append,  # type: ignore[arg-type]
    )
    result = list(run)
    good = [i for i in range(60) if i not in bad]
    assert [position for positions, _ in result for position in positions.tolist()] == good
    assert [number for _, codes in result for number in numbers(codes)] == good
    assert [Path(path).name for path, _ in skipped] == [f"{i:03}.png" for i in bad] and all(why for _, why in skipped)
    assert (run.summary.images, run.summary.skipped, sum(dealt)) == (len(good), len(bad), 60)


def test_encode_with_no_readable_image_is_empty() -> None:
    def load(position: int) -> np.ndarray:
        raise UnreadableImage(f"{position}.jpg", "gone")

    skipped: list[str] = []
    run = start(Numbered(), 30, load, on_skip=lambda path, why: skipped.append(path))
    assert list(run) == [] and skipped == [f"{i}.jpg" for i in range(30)]
    assert (run.summary.images, run.summary.skipped, run.summary.images_per_second) == (0, 30, 0.0)


def test_encode_without_on_skip_raises_the_first_error() -> None:
    def load(position: int) -> np.ndarray:
        if position in (11, 40):
            raise UnreadableImage(f"{position}.jpg", "gone")
        return numbered(position)

    with pytest.raises(UnreadableImage) as caught:
        list(start(Numbered(4), 100, load))
    assert (caught.value.path, caught.value.reason) == ("11.jpg", "gone")


def test_encode_raises_other_errors() -> None:
    def load(position: int) -> np.ndarray:
        if position == 50:
            raise ZeroDivisionError
        return numbered(position)

    with pytest.raises(ZeroDivisionError):
        list(start(Numbered(4), 5000, load, on_skip=lambda path, why: None))


@pytest.mark.parametrize("leave", ["break", "raise", "close"])
def test_encode_stops_when_the_caller_stops(leave: str) -> None:
    loaded: list[int] = []

    def load(position: int) -> np.ndarray:
        loaded.append(position)
        return numbered(position)

    steps = iter(start(Numbered(4), 100_000, load))
    next(steps)
    if leave == "close":
        steps.close()  # type: ignore[attr-defined]
    elif leave == "raise":
        with pytest.raises(KeyboardInterrupt):
            steps.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    else:
        del steps
    count = len(loaded)
    time.sleep(0.02)
    assert len(loaded) == count < 1000


def test_encode_stops_within_chunks_in_work(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    leaving = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            leaving.set()  # close() has requested the end, and waits for the two threads that block in load
            super().shutdown(wait, cancel_futures=cancel_futures)

    monkeypatch.setattr(batch, "ThreadPoolExecutor", Pool)

    def load(position: int) -> np.ndarray:
        if position >= 64:
            leaving.wait(60)
        loaded.append(position)
        return numbered(position)

    steps = iter(start(Numbered(64), 10_000, load, workers=2))
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert len(loaded) <= 64 + 2


def test_encode_with_a_slow_caller_bounds_memory() -> None:
    loaded: list[int] = []

    def load(position: int) -> np.ndarray:
        loaded.append(position)
        return numbered(position)

    steps = iter(start(Numbered(4), 10_000, load, workers=2))
    for taken in range(1, 20):
        next(steps)
        time.sleep(0.01)
        assert len(loaded) <= 4 * (taken + 4 * 2)  # the window: four chunks per worker
    steps.close()  # type: ignore[attr-defined]


def test_encode_runs_as_many_at_once_as_allowed() -> None:
    one, two = Numbered(2, threads=6, device="cuda", slots=1), Numbered(2, threads=2, slots=2)
    list(start(one, 400, workers=6))
    list(start(two, 400, workers=6))
    assert one.most == 1 and two.most == 2


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_encode_has_as_many_threads_as_the_device_needs(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads load at once, since each load waits for the others."""
    monkeypatch.setattr(batch, "available_cores", lambda: 5)
    expected = 5 if device == "cuda" else 3
    together, names = threading.Barrier(expected, timeout=60), set[str]()

    def load(position: int) -> np.ndarray:
        together.wait()
        names.add(threading.current_thread().name)
        return numbered(position)

    assert len(list(start(Numbered(8, threads=3, device=device), 8 * expected, load))) == expected == len(names)


def test_encode_of_few_images_opens_no_second_session() -> None:
    encoder = Numbered(threads=2)
    encoder.parallel = lambda: pytest.fail("opened a second session")  # type: ignore[method-assign]
    assert len(list(start(encoder, 31))) == 4


def test_encode_run_can_be_iterated_again() -> None:
    run = start(Numbered(), 50)
    first, second = list(run), list(run)
    assert len(first) == len(second) and run.summary.images == 50


def test_encode_with_zero_workers_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^workers "):
        start(Numbered(), 1, workers=0)


def test_summary_adds_up_times() -> None:
    def load(position: int) -> np.ndarray:
        time.sleep(0.001)
        return numbered(position)

    run = start(Numbered(8), 160, load)
    list(run)
    summary = run.summary
    assert summary.decode_seconds >= 0.16 and summary.inference_seconds >= 0.02 and summary.seconds > 0
    assert summary.images_per_second == pytest.approx(160 / summary.seconds)
    assert 0 < summary.inference_share < 1


def test_summary_as_text_has_counts_and_rates() -> None:
    text = str(Summary(images=90, skipped=10, seconds=2.0, decode_seconds=1.0, inference_seconds=3.0))
    assert text.startswith("90 images, 10 skipped in 2.0 s, 45 images/s (75 % of the work in the model")
    assert "skipped" not in str(Summary(images=1, seconds=1.0)) and str(Summary())


def test_encode_of_deleted_files_skips_them(tmp_path: Path) -> None:
    """Files deleted between listing and reading are skipped like other unreadable files."""
    paths = [tmp_path / f"{i}.png" for i in range(40)]
    for i, path in enumerate(paths):
        Image.fromarray(numbered(i)).save(path)
    steps = iter(encode_files(Numbered(1), paths, workers=1, on_skip=lambda path, why: None))  # type: ignore[arg-type]
    next(steps)
    for path in paths:
        os.unlink(path)  # noqa: PTH108
    assert sum(len(codes) for _, codes in steps) < 39
