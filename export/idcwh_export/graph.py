"""The ONNX graph around a network: pixels as a decoder returns them in, packed codes and logits out.

Layout, normalisation (inside the network) and bit packing are in the graph, so a program that runs it needs no code for
them. The tensors on both sides of the backbone are called `normalised` and `features`; fp16.py and int8.py change the
part between them. verify.py compares the file with torch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from idcwh_search import __version__
from idcwh_search.encoder.metadata import ModelInfo
from idcwh_search.encoder.ort import CPU, load_onnxruntime, session_options
from idcwh_search.errors import CorruptFileError, InvalidInputError, NotSupportedError
from idcwh_train.models.hash_model import HashModel
from idcwh_train.models.to_onnx import to_onnx

from . import OPSETS

if TYPE_CHECKING:
    import onnx

# The exporter writes 18 by itself; any other opset goes through a converter, one more step that can change the network.
# ONNX Runtime reads 18 since 1.14, and its CUDA provider has every operator of it that is used here.
OPSET = OPSETS.start


BACKBONE = ("normalised", "features")
"""The tensors before and behind the backbone, by name."""


class PackedHash(nn.Module):
    """`network` between uint8 images and packed codes; the module that is exported.

    image:  uint8 [n, H, W, 3] RGB
    codes:  uint8 [n, ceil(bits / 8)], bit i of a code at position i % 8 of byte i // 8, 1 where logit i >= 0
    logits: float32 [n, bits]

    Where the network is a HashModel, the two tensors of BACKBONE come as well, so that they have a name in the graph.
    """

    packing: torch.Tensor

    def __init__(self, network: nn.Module, bits: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("packing", packing_matrix(bits))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # contiguous: torch would follow the other order of the bytes through the network, and add nodes for it
        pixels = image.permute(0, 3, 1, 2).contiguous()
        if not isinstance(self.network, HashModel):
            logits = self.network(pixels)
            return pack(logits, self.packing), logits
        normalised = self.network.normalise(pixels)
        features = self.network.backbone(normalised)
        logits = self.network.head(features)
        return pack(logits, self.packing), logits, normalised, features


def packing_matrix(bits: int) -> torch.Tensor:
    """Returns float32 [bits, ceil(bits / 8)]: column j has 1, 2, 4, ... 128 at the bits of byte j, zeros elsewhere."""
    matrix = torch.zeros(bits, -(-bits // 8))
    bit = torch.arange(bits)
    matrix[bit, bit // 8] = 2.0 ** (bit % 8)
    return matrix


def pack(logits: torch.Tensor, packing: torch.Tensor) -> torch.Tensor:
    """Returns packed codes of logits [n, bits] by one matrix product: CUDA has no BitShift or Bitwise operator.

    Exact in any precision that a provider may choose: zeros and ones times powers of two, and sums of at most 255.
    """
    return ((logits >= 0).to(torch.float32) @ packing).to(torch.uint8)


def check_network(network: nn.Module) -> nn.Module:
    """Returns `network` in evaluation mode; raises InvalidInputError if the code of an image depends on its batch."""
    network.eval()
    for name, module in network.named_modules():
        if module.training:
            raise InvalidInputError(f"layer {name or 'network'} stays in training mode after eval()")
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            # The code of an image would depend on the other images of its batch.
            raise InvalidInputError(
                f"layer {name} is batch norm without running statistics", hint="train with track_running_stats=True"
            )
    return network


def build(
    network: nn.Module, bits: int, image_size: int, metadata: Mapping[str, str], opset: int = OPSET
) -> onnx.ModelProto:
    """Returns the ONNX model of `network` (uint8 or float [n, 3, H, W] of 0..255 to logits [n, bits]), checked by onnx.

    `image_size` is H = W; the number of images stays open. `metadata` becomes the model's own (ModelInfo.to_metadata).
    Raises IdcwhError when the network cannot be exported, or not at this opset.
    """
    import onnx

    if opset not in OPSETS:
        raise ValueError(f"opset must be one of {OPSETS.start} to {OPSETS.stop - 1}, not {opset}")
    module = check_network(PackedHash(network, bits)).cpu()
    for layer in module.modules():
        if getattr(layer, "inplace", None) is True:
            # Computes the same, and torch exports it in half the time.
            layer.inplace = False  # type: ignore[assignment]
    example = torch.zeros(2, image_size, image_size, 3, dtype=torch.uint8)  # two: one would be taken for a constant
    outputs = ["codes", "logits", *(BACKBONE if isinstance(network, HashModel) else ())]
    try:
        model = to_onnx(module, example, "image", outputs, opset)
    except Exception as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise NotSupportedError(f"cannot be exported to ONNX by torch: {first}") from error
    del model.graph.output[2:]
    strip(model)
    written = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if written != opset:
        hint = f"leave --opset out, or choose {written}"
        raise NotSupportedError(path="opset", found=written, expected=opset, hint=hint)
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    return model


def simplified(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the network after ONNX Runtime's basic optimisations, in standard operators, for other runtimes."""
    import onnx

    ort, options = load_onnxruntime(), session_options(load_onnxruntime())
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    made = set(BACKBONE) <= {name for node in model.graph.node for name in node.output}
    marks = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in BACKBONE if made]
    model.graph.output.extend(marks)  # as outputs they keep their names
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "simple.onnx")
        ort.InferenceSession(model.SerializeToString(), options, providers=[CPU])
        simple = onnx.load(options.optimized_model_filepath)
    for changed in (model, simple):
        del changed.graph.output[2:]
    used = {node.domain or "ai.onnx" for node in simple.graph.node}
    imported = [entry for entry in simple.opset_import if (entry.domain or "ai.onnx") in used]
    del simple.opset_import[:]
    simple.opset_import.extend(imported)
    strip(simple)
    return simple


def finished(model: onnx.ModelProto, info: ModelInfo) -> bytes:
    """Returns the bytes of a model with its metadata, checked; the same bytes for the same model."""
    import onnx

    strip(model)
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, info.to_metadata())
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise CorruptFileError(f"in {info.precision} is not valid ONNX: {' '.join(str(error).split())}") from error
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def strip(model: onnx.ModelProto) -> None:
    """Removes the exporter's notes: stack traces with the paths of this machine, longer than the weights of some.

    The same model.pt then gives the same bytes, and so the same fingerprint, wherever it is exported.
    """
    import onnx

    model.producer_name, model.producer_version = "idcwh-export", __version__
    model.doc_string = ""
    model.ir_version = onnx.helper.find_min_ir_version_for(list(model.opset_import))
    graph = model.graph
    graph.ClearField("value_info")
    graph.ClearField("metadata_props")
    for part in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    graph.doc_string = ""


def backbone_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Returns the nodes that compute `features` from `normalised`, in their order; NotSupportedError without these.

    Nodes that depend on the pixels alone (`normalised` itself, the size of the batch) are not among them.
    """
    outputs = {name: node for node in model.graph.node for name in node.output}
    if not set(BACKBONE) <= set(outputs):
        raise NotSupportedError("has no tensors `normalised` and `features` around its backbone", hint="take fp32")

    def behind(name: str) -> set[str]:
        """Names of all tensors that `name` depends on, and its own."""
        seen, todo = {name}, [name]
        while todo:
            node = outputs.get(todo.pop())
            for source in node.input if node is not None else ():
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
        return seen

    before, until = (behind(name) for name in BACKBONE)
    return [node for node in model.graph.node if any(name in until and name not in before for name in node.output)]
