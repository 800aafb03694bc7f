"""Corrupt files and files of other formats: the feature cache and the weights of a backbone."""

from __future__ import annotations

import copy
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from idcwh_search import datasets
from idcwh_search.errors import CorruptFileError, IdcwhError, InvalidInputError
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.frozen import features
from idcwh_train.models import backbones, compact
from idcwh_train.models.hash_model import Embedder
from support.errors import raises


def flips(path: Path, step: int) -> Iterator[None]:
    """Flips a bit of every `step`-th byte of the file, one after another, and finally restores the file."""
    whole = path.read_bytes()
    for i in range(0, len(whole), step):
        flipped = bytearray(whole)
        flipped[i] ^= 1 << i // step % 8
        path.write_bytes(flipped)
        yield
    path.write_bytes(whole)


@pytest.mark.parametrize("seconds", [1e9, -1.0])
def test_features_of_an_interrupted_run_are_kept(tmp_path, monkeypatch, capsys, seconds):
    """Features are written when the run is interrupted, and at intervals in case it is killed."""
    (tmp_path / "images" / "a").mkdir(parents=True)
    for i in range(11):
        Image.new("RGB", (32, 32), (i * 20, 10, 99)).save(tmp_path / "images" / "a" / f"{i:02d}.png")
    (tmp_path / "images" / "a" / "05.png").write_text("no image")
    network = nn.Sequential(nn.Conv2d(3, 24, 32), nn.Flatten())
    model = Embedder(network, 24, (0.5,) * 3, (0.5,) * 3)
    data, cpu, cache = datasets.load(str(tmp_path / "images")), torch.device("cpu"), tmp_path / "cache"
    given = (model, data, np.arange(11), Preprocess(32, 32), cpu)
    true, read_one, read, until = features.compute(*given), features.read_one, [], [8]

    def stopping(dataset, rows, preprocess):
        if until[0] in rows:
            raise KeyboardInterrupt
        read.extend(rows.tolist())
        return read_one(dataset, rows, preprocess)

    monkeypatch.setattr(features, "read_one", stopping)
    monkeypatch.setattr(features, "_SECONDS_BETWEEN_PARTS", seconds)
    monkeypatch.setattr(features, "ahead", map)
    with pytest.raises(KeyboardInterrupt):
        features.extract(*given, cache)
    assert read == list(range(8)) and len(list(cache.glob("*.part.npz"))) == (1 if seconds > 0 else 2)
    until[0] = 99
    weights = features.extract(*given, cache)
    assert read == list(range(11)) and "7 images" in capsys.readouterr().err
    assert (
        torch.equal(weights.x, true.x) and weights.rows.tolist() == true.rows.tolist() and weights.failed == true.failed
    )
    assert [file.suffixes for file in cache.iterdir()] == [[".npz"]]
    assert torch.equal(features.extract(*given, cache).x, true.x) and len(read) == 11


# ---------------------------------------------------------------------------------------------------- feature cache


class Cached:
    """Four images, one of them unreadable, with features of a small network that counts its runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "a").mkdir()
        for i in range(3):
            Image.new("RGB", (32, 32), (i * 40, 10, 99)).save(folder / "a" / f"{i}.png")
        (folder / "a" / "9.png").write_text("no image")
        network = nn.Sequential(nn.Conv2d(3, 24, 32), nn.Flatten())
        self.model = Embedder(network, 24, (0.5,) * 3, (0.5,) * 3)
        self.cache, self.data = folder.with_name("cache"), datasets.load(str(folder))
        self.true = self.extract()
        self.file = next(self.cache.iterdir())
        self.computed = 0

        def compute(*_: object, **options: object) -> features.Features:
            self.computed += 1
            return self.true

        monkeypatch.setattr(features, "compute", compute)

    def extract(self) -> features.Features:
        return features.extract(
            self.model, self.data, np.arange(4), Preprocess(32, 32), torch.device("cpu"), self.cache
        )

    def check(self) -> None:
        result = self.extract()
        assert torch.equal(result.x, self.true.x) and result.x.dtype == torch.float32
        assert result.rows.tolist() == [0, 1, 2] and result.rows.dtype == np.int64
        assert result.failed == self.true.failed and list(result.failed) == ["a/9.png"]


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cached:
    torch.manual_seed(0)
    (tmp_path / "data").mkdir()
    return Cached(tmp_path / "data", monkeypatch)


@pytest.mark.slow
def test_feature_cache_with_a_flipped_bit_gives_the_features(cached, capsys):
    for _ in flips(cached.file, 5):
        before = cached.computed
        capsys.readouterr()
        cached.check()
        assert cached.computed == before or str(cached.file) in capsys.readouterr().err
    computed = cached.computed
    assert computed > cached.true.x.numpy().nbytes // 5, "each flip in the features is noticed"
    cached.check()
    assert cached.computed == computed, "the whole file is used"


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY", b"PK\3\4", {"x": np.zeros((3, 24))}])
def test_feature_cache_of_another_format_is_computed_again(cached, content):
    if isinstance(content, bytes):
        cached.file.write_bytes(content)
    else:
        np.savez(cached.file, **content)
    cached.check()
    assert cached.computed == 1
    cached.check()
    assert cached.computed == 1


def test_feature_cache_of_other_weights_is_another_file(cached):
    torch.nn.init.ones_(cached.model.backbone[0].weight)
    cached.extract()
    assert cached.computed == 1 and len(list(cached.cache.iterdir())) == 2


def test_feature_cache_that_cannot_be_written_is_reported(cached, tmp_path, capsys):
    for place in (tmp_path / "data" / "a" / "0.png", Path("/proc/idcwh")):
        cached.cache = place
        cached.check()
        assert str(place) in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------- weights


def small() -> nn.Module:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3))
    network[1].running_mean.normal_()
    return network


def fill(network: nn.Module, path: Path) -> None:
    """Loads the weights of a file like `backbones.create`, but for any network."""
    backbones._fill(network, backbones._read(path), str(path), "small")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors"])
def test_weights_with_a_flipped_bit_fail_or_are_equal(tmp_path, kind):
    """A zip has a CRC per part. Other formats have none: a bit of a weight may change, but nothing else may."""
    network, path = small(), tmp_path / f"w.{'safetensors' if kind == 'safetensors' else 'pt'}"
    true = copy.deepcopy(network.state_dict())
    if kind == "safetensors":
        pytest.importorskip("safetensors.torch").save_file(true, path)
    else:
        torch.save(true, path, _use_new_zipfile_serialization=kind == "zip")
    refused = 0
    for _ in flips(path, 3):
        try:
            fill(network, path)
        except IdcwhError as error:
            assert error.path == str(path) and "\n" not in str(error)
            refused += 1
        else:
            weights = network.state_dict()
            assert kind != "zip" or all(torch.equal(weights[key], true[key]) for key in true)
        network.load_state_dict(true)
    assert refused > 100
    fill(network, path)


def test_backbone_weights_with_a_flipped_bit_are_corrupt(tmp_path):
    path, state = tmp_path / "w.pt", compact.Compact().state_dict()
    torch.save(state, path)
    with path.open("r+b") as file:
        place = file.read().index(state["groups.2.4.weight"].numpy().tobytes()) + 100_000
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    with raises(CorruptFileError, path=path):
        backbones.create("compact", str(path), 32)


def test_weights_with_a_part_that_is_a_folder_are_corrupt(tmp_path):
    """A bit of the zip's directory can turn a part into a folder. torch then reads nothing and returns uninitialized
    memory.
    """
    torch.save(small().state_dict(), tmp_path / "w.pt")
    with zipfile.ZipFile(tmp_path / "w.pt") as parts, zipfile.ZipFile(tmp_path / "x.pt", "w") as out:
        for part in parts.infolist():
            part.external_attr = 0x10 if part.filename.endswith("data/1") else 0
            out.writestr(part, parts.read(part))
    with raises(CorruptFileError, path=tmp_path / "x.pt"):
        fill(small(), tmp_path / "x.pt")


def nan(w: Tensor) -> Tensor:
    w = w.clone()
    w[0, 0, 0, 0] = float("nan")
    return w


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda w: w.to_sparse(), "sparse_coo"),
        (lambda w: w.to("meta"), "on the meta device, without values"),
        (lambda w: w + 1j, "complex64"),
        (lambda w: torch.quantize_per_tensor(w, 0.1, 0, torch.qint8), "qint8"),
        (lambda w: w.to(torch.float8_e4m3fn), "float8_e4m3fn"),
        (lambda w: w > 0, "bool"),
        (lambda w: (100 * w).to(torch.int8), "int8"),
        (nan, "NaN or infinite values"),
        (lambda w: w.double() * 1e300, "NaN or infinite values"),
    ],
)
def test_weights_of_another_kind_are_invalid(tmp_path, change, found):
    path, state = tmp_path / "w.pt", small().state_dict()
    torch.save({"state_dict": {**state, "0.weight": change(state["0.weight"])}}, path)
    with raises(InvalidInputError, path=path, found=found, problem="0.weight"):
        fill(small(), path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision_are_converted(tmp_path, dtype):
    """Tensors that the network does not use may have any dtype."""
    network, path = small(), tmp_path / "w.pt"
    state = {key: value.to(dtype) for key, value in network.state_dict().items()}
    torch.save({**state, "mask": torch.ones(2) > 0, "fourier": torch.ones(2) * 1j}, path)
    fill(network, path)
    for key, value in network.state_dict().items():
        assert torch.equal(value, state[key].to(value.dtype))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ([torch.ones(2)], "list"),
        (torch.ones(2), "Tensor"),
        ({}, "an empty dictionary"),
        ({"epoch": 3, "w": torch.ones(2)}, "int"),
    ],
)
def test_weights_without_a_state_dict_are_corrupt(tmp_path, content, found):
    torch.save(content, tmp_path / "w.pt")
    with raises(CorruptFileError, path=tmp_path / "w.pt", found=found):
        fill(small(), tmp_path / "w.pt")


@pytest.mark.parametrize(("name", "content"), [("w.pt", b"hello"), ("w.pt", b""), ("w.safetensors", b"hello")])
def test_weights_that_are_text_are_corrupt(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with raises(CorruptFileError, path=tmp_path / name):
        fill(small(), tmp_path / name)


def test_weights_from_a_safetensors_file(tmp_path):
    save_file = pytest.importorskip("safetensors.torch").save_file
    expected = compact.Compact().state_dict()
    save_file(expected, tmp_path / "w.safetensors")
    weights = backbones.create("compact", str(tmp_path / "w.safetensors"), 32).network.state_dict()
    assert all(torch.equal(weights[key], expected[key]) for key in expected)
