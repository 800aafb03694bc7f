"""Every method with extreme outputs, one class, no label, and a restored state."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

from idcwh_search.errors import IdcwhError
from idcwh_train.methods import MODULES
from idcwh_train.methods.base import create, find
from idcwh_train.option_types import declared
from support.errors import raises

ALL = list(MODULES)
STEPPED = [name for name in ALL if not find(name).closed_form]


def batch(name, n, classes, bits, seed=0, multi_label=False):
    generator = torch.Generator().manual_seed(seed)
    h = 2 * torch.randn(n, classes if name == "class-code" else bits, generator=generator)
    y = F.one_hot(torch.randint(classes, (n,), generator=generator), classes).bool()
    if multi_label:
        y |= torch.rand(n, classes, generator=generator) < 0.3
    return h.requires_grad_(), y, torch.arange(n)


def finite(method, h, loss):
    loss.total.backward()
    grads = [h.grad, *(p.grad for p in method.parameters())]
    return torch.isfinite(loss.total) and all(torch.isfinite(g).all() for g in grads if g is not None)


@pytest.mark.parametrize("name", ALL)
def test_method_options_are_plain_and_rebuild_the_method(name):
    method = create(name, 5, 12, 20, {})
    options = method.options()
    assert list(options) == [*declared(type(method))]
    assert json.loads(json.dumps(options)) == options
    assert create(name, 5, 12, 20, options).options() == options
    for bits in (1, 12, 48, 512):
        for of in MODULES[name].with_bits.values():
            create(name, 5, bits, 20, of(bits))
    with pytest.raises(TypeError, match=f"^{name}: .*'nonsense'"):
        create(name, 5, 12, 20, {"nonsense": 1})


NOBODYS = [-1, float("nan"), float("inf"), "abc", None, [1]]


@pytest.mark.parametrize("name", ALL)
def test_method_option_with_an_invalid_value_is_refused(name):
    """The error names method, option and value. An option for whole numbers above 0 refuses 0.5."""
    for option, value in find(name)(5, 12, 20).options().items():
        wrong = {bool: ["maybe", "no", 0], int: [0, 0.5, 2.5, True], float: [True], str: [True]}[type(value)]
        for given in (*NOBODYS, *wrong):
            with pytest.raises(ValueError) as caught:
                create(name, 5, 12, 20, {option: given})
            message = str(caught.value)
            assert message.startswith(f"{name}: {option}: ") and repr(given) in message and "\n" not in message
        with pytest.raises(ValueError, match=f"^{option}: "):
            find(name)(5, 12, 20, **{option: -1})


def test_fsdh_has_no_sweeps():
    assert [*declared(find("fsdh"))] == [name for name in declared(find("sdh")) if name != "sweeps"]
    sdh, fsdh = (create(name, 5, 12, 20, {"iterations": 3, "lam": 2}).options() for name in ("sdh", "fsdh"))
    assert sdh == {**fsdh, "sweeps": 10} and fsdh["iterations"] == 3


@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.parametrize("bits", [1, 512])
def test_method_with_extreme_outputs_is_finite(name, bits):
    """Covers ||h - mu||^2 = 512 * 1e8, and outputs that are constant or exactly zero."""
    classes, n = 7, 32
    for scale in (0.0, 1.0, 100.0, 1e4):
        for constant in (True, False):
            torch.manual_seed(0)
            method = create(name, classes, bits, n, {})
            h, y, rows = batch(name, n, classes, bits)
            with torch.no_grad():
                h.copy_(torch.full_like(h, scale) if constant else scale * torch.sign(h))
            for _ in range(2):
                method.start_epoch()
                h.grad = None
                assert finite(method, h, method(h, y, rows)), (scale, constant)


@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.parametrize("multi_label", [False, True])
def test_method_ignores_rows_without_a_label(name, multi_label):
    h, y, rows = batch(name, 12, 4, 8, multi_label=multi_label)
    y[3] = y[7] = False
    kept = y.any(dim=1)
    torch.manual_seed(0)
    whole = create(name, 4, 8, 12, {}, multi_label=multi_label)
    torch.manual_seed(0)
    part = create(name, 4, 8, 12, {}, multi_label=multi_label)
    for method in (whole, part):
        method.start_epoch()
    torch.manual_seed(1)
    a = whole(h, y, rows)
    torch.manual_seed(1)
    b = part(h[kept], y[kept], rows[kept])
    assert (a.skipped, b.skipped) == (2, 0)
    assert a.total.item() == b.total.item() > 0
    none = whole(h, torch.zeros_like(y), rows)
    none.total.backward()
    assert none.skipped == 12 and none.total.item() == 0 and not none.terms


@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.parametrize(("classes", "n"), [(1, 1), (1, 6), (3, 1), (3, 6)])
def test_method_with_one_class_is_finite(name, classes, n):
    """Without another image, a triplet or another class, undefined terms are zero."""
    method = create(name, classes, 8, n, {})
    h, _, rows = batch(name, n, classes, 8)
    y = torch.zeros(n, classes, dtype=torch.bool)
    y[:, 0] = True
    for _ in range(2):
        method.start_epoch()
        loss = method(h, y, rows)
        h.grad = None
        assert finite(method, h, loss)
        if "triplets" in loss.terms:
            assert loss.terms["triplets"] == 0
        if n == 1 and name in ("hashnet", "dhn"):
            assert loss.terms["pairs"] == 0


@pytest.mark.parametrize("name", STEPPED)
def test_method_with_restored_state_gives_the_same_losses(name):
    """After state_dict and load_state_dict, the next losses are the same, bit for bit."""

    def steps(method, seeds):
        out = []
        for seed in seeds:
            torch.manual_seed(seed)
            if seed % 2 == 0:
                method.start_epoch()
            h, y, rows = batch(name, 10, 4, 8, seed)
            out.append(method(h, y, (rows + 3 * seed) % 20).total.item())
        return out

    torch.manual_seed(0)
    first = create(name, 4, 8, 20, {})
    steps(first, range(3))
    saved = {key: value.clone() for key, value in first.state_dict().items()}
    torch.manual_seed(99)
    second = create(name, 4, 8, 20, {})
    second.load_state_dict(saved)
    assert steps(first, range(3, 8)) == steps(second, range(3, 8))


@pytest.mark.parametrize("name", STEPPED)
def test_method_of_half_precision_equals_float32(name):
    torch.manual_seed(0)
    method = create(name, 4, 8, 10, {})
    h, y, rows = batch(name, 10, 4, 8)
    with torch.autocast("cpu", torch.bfloat16):
        torch.manual_seed(1)
        half = method(h.bfloat16(), y, rows).total
    assert half.dtype == torch.float32


@pytest.mark.parametrize("name", STEPPED)
def test_method_with_forty_thousand_classes_is_finite(name):
    """Covers memory and time: a batch of 16 at 12 bits has more classes than codes."""
    method = create(name, 40_000, 12, 100, {}, multi_label=False)
    h, y, rows = batch(name, 16, 40_000, 12)
    method.start_epoch()
    assert finite(method, h, method(h, y, rows))
    method.start_epoch()


def test_dnnh_with_fewer_features_than_bits_is_refused():
    with raises(IdcwhError, found="16 features"):
        create("dnnh", 3, 24, 10, {}).head(16)
