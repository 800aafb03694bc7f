"""A backbone through ONNX Runtime, which gives the features of PyTorch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from idcwh_search.datasets import load
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.frozen import features, ort_backbone
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import Embedder

pytestmark = pytest.mark.slow


def test_ort_backbone_of_any_batch_size_equals_pytorch():
    torch.manual_seed(0)
    network = backbones.create("timm:test_resnet", "none", 32, seed=0).network.eval()
    run = ort_backbone.session(network, torch.randn(2, 3, 32, 32))
    for n in (1, 2, 7):
        x = torch.randn(n, 3, 32, 32).to(memory_format=torch.channels_last)
        with torch.inference_mode():
            torch.testing.assert_close(run(x), network(x), rtol=1e-4, atol=1e-5)


class Changed(nn.Module):
    """A module that is exported as another function than it computes."""

    def forward(self, x):
        return x + 1 if torch.compiler.is_exporting() else x


class Choice(nn.Module):
    """A module that cannot be exported."""

    def forward(self, x):
        return x if bool(x.sum() > 0) else -x


@pytest.mark.parametrize("network", [Changed(), Choice()])
def test_ort_backbone_that_differs_is_not_used(network):
    assert ort_backbone.session(network, torch.rand(2, 4)) is None


def test_backbone_without_onnxruntime_uses_pytorch(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find_spec(name))
    assert ort_backbone.session(nn.Identity(), torch.rand(2, 4)) is None


def test_features_of_onnxruntime_equal_pytorch(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.integers(0, 256, (30, 32, 32, 3), np.uint8), y=np.arange(30) % 3)
    backbone = backbones.create("timm:test_resnet", "none", 32, seed=0)
    model = Embedder(backbone.network, backbone.features, backbone.mean, backbone.std)
    given = (model, load(str(tmp_path / "a.npz")), np.arange(30), Preprocess(32, 32), torch.device("cpu"))
    plain = features.compute(*given)
    used, session = [], ort_backbone.session
    monkeypatch.setattr(ort_backbone, "ENOUGH", 1)
    monkeypatch.setattr(ort_backbone, "session", lambda *a: used.append(session(*a)) or used[-1])
    fast = features.compute(*given)
    assert used[0] is not None
    torch.testing.assert_close(fast.x, plain.x, rtol=1e-4, atol=1e-5)
    assert fast.rows.tolist() == plain.rows.tolist()


_PEAK = """
import resource, sys
import numpy as np, torch
from idcwh_search.datasets import LabelledImages
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.engine import malloc
from idcwh_train.frozen import features, ort_backbone
from idcwh_train.models.hash_model import Embedder

ort_backbone.ENOUGH = 0
malloc.keep_freed()  # as in training
n = int(sys.argv[1])
convolution = torch.nn.Conv2d(3, 512, 7, stride=16)
network = torch.nn.Sequential(convolution, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()).eval()
model = Embedder(network, 512, (0.5,) * 3, (0.5,) * 3)
images = np.zeros((n, 32, 32, 3), np.uint8)
dataset = LabelledImages([str(i) for i in range(n)], np.zeros(n, int), ["a"], images, [""] * n)
features.compute(model, dataset, np.arange(n), Preprocess(224, 224), torch.device("cpu"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_depend_on_the_number_of_images():
    """In float32, 224 x 224 pixels of 800 more images are half a gigabyte, and their features 2 MB."""
    few, many = (
        int(subprocess.run([sys.executable, "-c", _PEAK, n], capture_output=True, text=True, check=True).stdout) / 1024
        for n in ("200", "1000")
    )
    assert many - few < 150


def test_feature_cache_depends_on_onnxruntime(tmp_path, monkeypatch):
    """Features are computed again if ONNX Runtime is installed or removed, because their last bits differ."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.integers(0, 256, (6, 32, 32, 3), np.uint8), y=np.arange(6) % 3)
    backbone = backbones.create("timm:test_resnet", "none", 32, seed=0)
    model = Embedder(backbone.network, backbone.features, backbone.mean, backbone.std)
    cache = tmp_path / "cache"
    given = (model, load(str(tmp_path / "a.npz")), np.arange(6), Preprocess(32, 32), torch.device("cpu"), cache)
    monkeypatch.setattr(ort_backbone, "ENOUGH", 1)
    fast = features.extract(*given)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find_spec(name))
    plain = features.extract(*given)
    assert len(list(cache.iterdir())) == 2
    assert torch.equal(plain.x, features.compute(*given[:-1]).x)
    monkeypatch.undo()
    monkeypatch.setattr(ort_backbone, "ENOUGH", 1)
    assert torch.equal(features.extract(*given).x, fast.x)
