"""Heads that are stored, built again and exported without a change, and class codes compared with loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from idcwh_search.errors import NotSupportedError
from idcwh_train.models import heads
from idcwh_train.models.hash_model import Network
from support.errors import raises

FEATURES, BITS = 20, 6


def drawn(kind):
    torch.manual_seed(1)
    head = {
        "linear": lambda: heads.linear(FEATURES, BITS),
        "sliced": lambda: heads.Sliced(FEATURES, BITS),
        "normed": lambda: heads.Normed(FEATURES, BITS),
        "rbf": lambda: heads.RBF(FEATURES, BITS, 9),
        "class-code": lambda: heads.ClassCode(FEATURES, BITS, 5),
        "multi_label": lambda: heads.ClassCode(FEATURES, BITS, 5, multi_label=True),
    }[kind]()
    for _, tensor in head.named_parameters():
        nn.init.normal_(tensor, std=0.5)
    if isinstance(head, heads.RBF):
        head.anchors.normal_()
        head.width.fill_(4.0)
    if isinstance(head, heads.ClassCode):
        head.codes.copy_(2 * torch.randint(2, (5, BITS)) - 1)
    if isinstance(head, heads.Normed):
        for _ in range(5):
            head.train()(3 + 2 * torch.randn(30, FEATURES))
    return head


KINDS = ["linear", "sliced", "normed", "rbf", "class-code", "multi_label"]


@pytest.mark.parametrize("kind", KINDS)
def test_head_stored_and_built_again_is_equal(kind):
    head = drawn(kind).eval()
    again = heads.build(heads.config(head), FEATURES, BITS)
    again.load_state_dict(head.state_dict())
    x = torch.randn(50, FEATURES)
    assert torch.equal(again.eval()(x), head(x))
    assert heads.config(again) == heads.config(head)
    assert head(x).shape == (50, BITS) and head(x).dtype == torch.float32


def test_class_code_head_is_built_from_its_key_until_0_1():
    head = heads.build({"kind": "class-code", "classes": 5, "several": True}, FEATURES, BITS)
    assert isinstance(head, heads.ClassCode) and head.multi_label


@pytest.mark.parametrize("kind", KINDS)
def test_plain_head_equals_the_head_in_eval_mode(kind):
    head = drawn(kind).train()
    exported = heads.plain(head)
    assert not exported.training
    assert isinstance(exported, nn.Linear) == (kind in ("linear", "sliced", "normed"))
    x = 2 + 3 * torch.randn(200, FEATURES)
    torch.testing.assert_close(exported(x), head.eval()(x), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rbf", "class-code", "multi_label"])  # the others are linear by then
def test_exported_head_equals_the_head(kind):
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = pytest.importorskip("idcwh_export.graph")

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = heads.plain(drawn(kind))

        def forward(self, pixels):
            return self.head(pixels.float().flatten(1)[:, :FEATURES] / 64 - 2)

    network = Network()
    session = onnxruntime.InferenceSession(
        graph.build(network, BITS, 4, {}).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    images = np.random.default_rng(0).integers(0, 256, (9, 4, 4, 3), dtype=np.uint8)
    codes, h = session.run(None, {"image": images})
    expected = network(torch.from_numpy(images).permute(0, 3, 1, 2)).detach().numpy()
    np.testing.assert_allclose(h, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(codes, np.packbits(expected >= 0, axis=1, bitorder="little"))


@pytest.mark.parametrize(("features", "bits", "widths"), [(12, 4, [3, 3, 3, 3]), (10, 3, [3, 3, 4]), (5, 5, [1] * 5)])
def test_sliced_head_bit_uses_its_slice(features, bits, widths):
    head = heads.Sliced(features, bits)
    nn.init.uniform_(head.weight, 0.5, 1)
    seen = torch.stack([head(row[None])[0] - head(torch.zeros(1, features))[0] for row in torch.eye(features)]) != 0
    owner = [bit for bit, width in enumerate(widths) for _ in range(width)]
    np.testing.assert_array_equal(seen.numpy(), np.eye(bits, dtype=bool)[owner])


def test_normed_head_of_one_image_is_finite():
    head = heads.Normed(FEATURES, BITS).train()
    h = head(torch.randn(1, FEATURES))
    h.sum().backward()
    assert torch.isfinite(h).all() and torch.isfinite(head.linear.weight.grad).all()
    balanced = head(torch.randn(64, FEATURES) + 5)
    torch.testing.assert_close(balanced.mean(dim=0), torch.zeros(BITS), atol=1e-5, rtol=0)


def test_rbf_head_equals_the_formula():
    head = drawn("rbf").eval()
    x = torch.randn(4, FEATURES)
    for i in range(4):
        phi = [np.exp(-np.sum((x[i] - a).double().numpy() ** 2) / (2 * 4.0**2)) for a in head.anchors]
        h = head.linear.weight.detach().double().numpy() @ phi + head.linear.bias.detach().double().numpy()
        np.testing.assert_allclose(head(x[i : i + 1])[0].detach().numpy(), h, rtol=1e-4, atol=1e-5)


def test_class_code_head_equals_loops():
    one, multi = drawn("class-code"), drawn("multi_label")
    assert torch.equal(one.codes, multi.codes)
    x = torch.randn(100, FEATURES)
    scores = one.train()(x)
    torch.testing.assert_close(scores, one.linear(x))
    numbers = set()
    for i, row in enumerate(scores):
        best = max(range(5), key=lambda j: row[j])
        assert one.eval()(x[i : i + 1])[0].tolist() == one.codes[best].tolist()
        result = {j for j in range(5) if row[j] >= 0} | {best}
        numbers.add(len(result))
        total = [sum(int(multi.codes[j, v]) for j in result) for v in range(BITS)]
        assert multi.eval()(x[i : i + 1])[0].tolist() == total
    assert len(numbers) > 2 and any((row < 0).all() for row in scores)


@pytest.mark.parametrize("kind", ["linear", "sliced", "normed", "rbf", "class-code", "multi_label"])
def test_head_trains_on_a_batch_of_one_image(kind):
    h = drawn(kind).train()(torch.randn(1, FEATURES))
    assert len(h) == 1 and torch.isfinite(h).all()


@pytest.mark.parametrize(
    "config", [{}, {"kind": "mlp"}, {"kind": "rbf"}, {"kind": "rbf", "anchors": 0}, None, "linear"]
)
def test_unknown_head_is_not_supported(config):
    with raises(NotSupportedError, found=repr(config)):
        heads.build(config, 4, 4)


def test_config_of_another_module_is_a_type_error():
    with pytest.raises(TypeError, match="Conv2d"):
        heads.config(nn.Conv2d(1, 1, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_moved_head_includes_the_center_of_the_features(kind):
    head = heads.plain(drawn(kind))
    before = [tensor.clone() for tensor in head.state_dict().values()]
    center, x = 2 * torch.randn(FEATURES), torch.randn(50, FEATURES)
    torch.testing.assert_close(heads.moved(head, center)(x + center), head(x), rtol=1e-4, atol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(before, head.state_dict().values(), strict=True))
    assert heads.moved(head, torch.zeros(FEATURES)) is head


@pytest.mark.parametrize("kind", KINDS)
def test_moved_head_includes_the_scale_of_the_features(kind):
    head = heads.plain(drawn(kind))
    center, x = 2 * torch.randn(FEATURES), torch.randn(50, FEATURES)
    torch.testing.assert_close(heads.moved(head, center, 4.0)(x / 4 + center), head(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("deviation", "scale"), [(0.37, 1), (0.3, 1), (0.5, 1), (0.185, 2), (3.0, 0.125), (0, 1)])
def test_network_scales_features_by_a_power_of_2(deviation, scale):
    x = 7 + deviation * torch.from_numpy(np.random.default_rng(0).standard_normal((400, FEATURES))).float()
    network = Network(nn.Identity(), FEATURES, [0.0] * 3, [1.0] * 3, {BITS: heads.linear(FEATURES, BITS)})
    network.standardise(x)
    assert network.scale == scale
    expected = torch.from_numpy(scale * (x.double() - x.double().mean(dim=0)).numpy()).float()
    torch.testing.assert_close(network.standard(x), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.model(BITS).head(x), network.eval().logits(x)[0], rtol=1e-4, atol=1e-4)
