"""The images of --verify, their order and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idcwh_export import sample_images
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess

SMALL = Preprocess(8, 8)


def folder(path: Path, count: int, unreadable: Sequence[int] = ()) -> Path:
    """Writes 0.png, 1.png, ...: image i is filled with grey i."""
    path.mkdir()
    for i in range(count):
        Image.new("RGB", (8, 8), (i, i, i)).save(path / f"{i}.png")
    for i in unreadable:
        (path / f"{i}.png").write_text("no image")
    return path


def manifest(path: Path, labels: Sequence[int], parts: Sequence[str]) -> str:
    """Writes set.csv for such images."""
    lines = [f"{i}.png,{label},{part}" for i, (label, part) in enumerate(zip(labels, parts, strict=True))]
    (path / "set.csv").write_text("\n".join(["path,label,split", *lines]))
    return str(path / "set.csv")


def taken(found: sample_images.SampleImages) -> list[int]:
    return [int(pixels[0, 0, 0]) for pixels in found]


@pytest.mark.parametrize(("limit", "expected"), [(None, [0, 1, 3, 4, 5, 7, 8]), (5, [0, 4, 8]), (100, None)])
def test_chosen_keeps_labels_with_their_images(tmp_path: Path, limit: int | None, expected: list[int] | None) -> None:
    """Labels stay with their images, whichever images are skipped and however often they are read."""
    labels, skipped = np.array([0, 1, 2, 0, 0, 1, 1, 2, 1]), list[str]()
    spec = manifest(folder(tmp_path / "images", 9, unreadable=[2, 6]), labels.tolist(), [""] * 9)
    sample = sample_images.chosen(spec, SMALL, lambda path, reason: skipped.append(Path(path).name), limit)
    assert sample.relevance is not None
    for _ in range(2):
        rows = taken(sample)
        assert rows == (expected or [0, 1, 3, 4, 5, 7, 8])
        assert sample.relevance().tolist() == labels[rows].tolist()
    assert skipped == ["2.png", "6.png"] * 2


def test_chosen_of_a_dataset_takes_its_test_images(tmp_path: Path) -> None:
    labels, parts = [0, 1, 0, 1, 1, 0], ["train", "test", "train", "test", "", "test"]
    path = folder(tmp_path / "images", 6)
    sample = sample_images.chosen(manifest(path, labels, parts), SMALL, None)
    assert taken(sample) == [1, 3, 5]
    assert sample.relevance is not None and sample.relevance().tolist() == [1, 1, 0]
    assert taken(sample_images.chosen(manifest(path, labels, ["train"] * 6), SMALL, None)) == list(range(6))


@pytest.mark.parametrize(("limit", "expected"), [(1, [0]), (2, [0, 10]), (3, [0, 5, 10]), (11, list(range(11)))])
def test_chosen_with_a_limit_is_evenly_spaced(tmp_path: Path, limit: int, expected: list[int]) -> None:
    path = folder(tmp_path / "images", 11)
    (tmp_path / "list.txt").write_text("".join(f"images/{i}.png\n" for i in range(11)))
    assert taken(sample_images.chosen(str(tmp_path / "list.txt"), SMALL, None, limit)) == expected
    assert taken(sample_images.chosen(manifest(path, [0] * 11, [""] * 11), SMALL, None, limit)) == expected


def test_chosen_without_on_skip_raises_the_first_error(tmp_path: Path) -> None:
    path = folder(tmp_path / "images", 3, unreadable=[1])
    sample = sample_images.chosen(manifest(path, [0, 1, 0], [""] * 3), SMALL, None)
    with pytest.raises(UnreadableImage) as caught:
        list(sample)
    assert caught.value.path == str(path / "1.png")
