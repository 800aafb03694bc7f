"""The ONNX graph of a network, from pixels as decoders return them to packed codes and logits.

Layout, normalisation (inside the network) and bit packing are in the graph, so programs that run it need no code for
them. The tensors before and after the backbone have the names `normalised` and `features`. fp16.py and int8.py change
the part between them. verify.py compares the file with torch.
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

# The exporter writes opset 18 directly. Other opsets need a converter, which could change the network. ONNX Runtime
# supports opset 18 since 1.14, and its CUDA provider has all operators that are used here.
OPSET = OPSETS.start


BACKBONE = ("normalised", "features")
"""The names of the tensors before and after the backbone."""


class PackedHash(nn.Module):
    """The module that is exported: a network with uint8 images as input and packed codes as output.

    image:  uint8 [n, H, W, 3] RGB
    codes:  uint8 [n, ceil(bits / 8)], bit i of a code at position i % 8 of byte i // 8, 1 where logit i >= 0
    logits: float32 [n, bits]

    For a HashModel, `forward` also returns the two tensors of BACKBONE, so that they have names in the graph.
    """

    packing: torch.Tensor

    def __init__(self, network: nn.Module, bits: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("packing", packing_matrix(bits))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # without contiguous(), torch would keep the memory layout of NHWC, and add nodes for it
        pixels = image.permute(0, 3, 1, 2).contiguous()
        if not isinstance(self.network, HashModel):
            logits = self.network(pixels)
            return pack(logits, self.packing), logits
        normalised = self.network.normalise(pixels)
        features = self.network.backbone(normalised)
        logits = self.network.head(features)
        return pack(logits, self.packing), logits, normalised, features


def packing_matrix(bits: int) -> torch.Tensor:
    """Returns float32 [bits, ceil(bits / 8)], whose column j has 1, 2, 4, ... 128 at the bits of byte j, else 0."""
    matrix = torch.zeros(bits, -(-bits // 8))
    bit = torch.arange(bits)
    matrix[bit, bit // 8] = 2.0 ** (bit % 8)
    return matrix


def pack(logits: torch.Tensor, packing: torch.Tensor) -> torch.Tensor:
    """Returns the packed codes of logits [n, bits] by one matrix product.

    ONNX Runtime has no BitShift or Bitwise operators on CUDA. The product of zeros and ones with powers of two, and
    sums of at most 255, are exact in any precision that a provider may choose.
    """
    return ((logits >= 0).to(torch.float32) @ packing).to(torch.uint8)


def check_network(network: nn.Module) -> nn.Module:
    """Returns `network` in eval mode. Raises InvalidInputError if codes would depend on the rest of a batch."""
    network.eval()
    for name, module in network.named_modules():
        if module.training:
            raise InvalidInputError(f"layer {name or 'network'} is invalid: eval() does not end its training mode")
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            # The code of an image would depend on the other images of its batch.
            raise InvalidInputError(
                f"layer {name} is invalid: batch norm without running statistics",
                hint="train with track_running_stats=True",
            )
    return network


def build(
    network: nn.Module, bits: int, image_size: int, metadata: Mapping[str, str], opset: int = OPSET
) -> onnx.ModelProto:
    """Returns the ONNX model of a network, checked by onnx. The number of images per batch is variable.

    Args:
        network: from pixels [n, 3, H, W], uint8 or float of 0..255, to logits [n, bits].
        image_size: H and W.
        metadata: the metadata of the model (ModelInfo.to_metadata).

    Raises IdcwhError if the network cannot be exported, or not at this opset.
    """
    import onnx

    if opset not in OPSETS:
        raise ValueError(f"opset: expected {OPSETS.start} to {OPSETS.stop - 1}, not {opset}")
    module = check_network(PackedHash(network, bits)).cpu()
    for layer in module.modules():
        if getattr(layer, "inplace", None) is True:
            # The result is the same, and torch exports it faster.
            layer.inplace = False  # type: ignore[assignment]
    example = torch.zeros(2, image_size, image_size, 3, dtype=torch.uint8)  # torch would treat 1 as a constant
    outputs = ["codes", "logits", *(BACKBONE if isinstance(network, HashModel) else ())]
    try:
        model = to_onnx(module, example, "image", outputs, opset)
    except Exception as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise NotSupportedError(f"the network is not supported by torch's ONNX exporter: {first}") from error
    del model.graph.output[2:]
    strip(model)
    written = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if written != opset:
        hint = f"leave --opset out, or use {written}"
        raise NotSupportedError(path="opset", found=written, expected=opset, hint=hint)
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    return model


def simplified(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model after ONNX Runtime's basic optimisations, in standard operators, for other runtimes."""
    import onnx

    ort, options = load_onnxruntime(), session_options(load_onnxruntime())
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    present = set(BACKBONE) <= {name for node in model.graph.node for name in node.output}
    marks = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in BACKBONE if present]
    model.graph.output.extend(marks)  # outputs keep their names
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
    """Returns the bytes of a model with its metadata, checked by onnx. The same model gives the same bytes."""
    import onnx

    strip(model)
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, info.to_metadata())
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        cause = " ".join(str(error).split())
        raise CorruptFileError(f"the ONNX model in {info.precision} is invalid: {cause}") from error
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def strip(model: onnx.ModelProto) -> None:
    """Removes the exporter's comments, such as long stack traces with the paths of this machine.

    The same model.pt then gives the same bytes, and the same fingerprint, on every machine.
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
    """Returns the nodes that compute `features` from `normalised`, in their order.

    Nodes that depend only on the pixels, such as `normalised` itself and the batch size, are not among them. Raises
    NotSupportedError for a graph without these tensors.
    """
    outputs = {name: node for node in model.graph.node for name in node.output}
    if not set(BACKBONE) <= set(outputs):
        problem = "a graph without the tensors `normalised` and `features` is not supported"
        raise NotSupportedError(problem, hint="use fp32")

    def ancestors(name: str) -> set[str]:
        """Returns the names of all tensors that `name` depends on, and `name`."""
        seen, todo = {name}, [name]
        while todo:
            node = outputs.get(todo.pop())
            for source in node.input if node is not None else ():
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
        return seen

    before, until = (ancestors(name) for name in BACKBONE)
    return [node for node in model.graph.node if any(name in until and name not in before for name in node.output)]
