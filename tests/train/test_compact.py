"""The small network for images of 32 x 32 pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from idcwh_search.errors import NotSupportedError
from idcwh_train import cli
from idcwh_train.engine import checkpoint
from idcwh_train.models import backbones, compact
from support.errors import raises


def test_whitened_patches_have_no_correlation():
    torch.manual_seed(0)
    smooth = torch.nn.functional.avg_pool2d(torch.randn(200, 3, 34, 34), 3, 1)
    mixed = torch.einsum("ij,njhw->nihw", torch.randn(3, 3), smooth)
    network = compact.Compact()
    network.whiten(mixed)
    out = network.whitening(mixed).permute(0, 2, 3, 1).reshape(-1, 24).double().numpy()
    np.testing.assert_allclose(out[:, 12:], -out[:, :12])
    moments = out[:, :12].T @ out[:, :12] / len(out)
    values = np.linalg.eigvalsh(
        np.cov(mixed.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12).T)
    )
    np.testing.assert_allclose(moments, np.diag(np.diag(moments)), atol=1e-4)
    np.testing.assert_allclose(np.sort(np.diag(moments)), np.sort(values / (values + 5e-4)), atol=2e-3)


@pytest.mark.parametrize("side", [16, 32, 45])
def test_compact_accepts_any_size_and_has_no_weights(side):
    result = backbones.create("compact", crop=side)
    assert result.weights == "none" and result.features == compact.WIDTHS[-1]
    assert result.network.eval()(torch.zeros(2, 3, side, side)).shape == (2, result.features)


def test_compact_with_too_small_images_is_not_supported():
    with raises(NotSupportedError, path="backbone compact", problem="4 x 4"):
        backbones.create("compact", crop=4)


@pytest.mark.slow
def test_compact_trained_from_an_archive_loads_again(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 4
    x = rng.integers(0, 120, (80, 32, 32, 3)) + 30 * y[:, None, None, None]
    np.savez(tmp_path / "set.npz", x=x.astype(np.uint8), y=y)
    out = tmp_path / "run"
    command = ["--data", str(tmp_path / "set.npz"), "--query-per-class", "2", "--backbone", "compact", "--resize", "32",
               "--crop", "32", "--pad", "2", "--flip", "--bits", "8", "--batch-size", "24", "--lr", "0.05"]  # fmt: skip
    assert cli.main([*command, "--epochs", "2", "--device", "cpu", "--out", str(out)]) == 0
    model, content = checkpoint.load_model(out / "model.pt")
    assert content["training"]["weights"] == "none"
    first = model.backbone.whitening.weight
    torch.testing.assert_close(first[:12], -first[12:])
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]["network"]
    assert torch.equal(saved["backbone.whitening.weight"], first), "a layer that does not train is kept all the same"


@pytest.mark.slow
def test_compact_trains_alike_with_and_without_weights_none(images, tmp_path):
    """Without weights, batch norm's statistics are those of the last steps; see engine/averaging.py."""
    command = ["--data", str(images), "--backbone", "compact", "--resize", "32", "--crop", "32", "--bits", "8",
               "--epochs", "3", "--batch-size", "11", "--lr", "0.05", "--device", "cpu"]  # fmt: skip
    assert cli.main([*command, "--out", str(tmp_path / "default")]) == 0
    assert cli.main([*command, "--weights", "none", "--out", str(tmp_path / "given")]) == 0
    assert (tmp_path / "default" / "model.pt").read_bytes() == (tmp_path / "given" / "model.pt").read_bytes()
