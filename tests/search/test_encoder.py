"""Encoder: the codes of a model.onnx, and its errors. The oracle is numpy."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from idcwh_search.encoder import model_file
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.errors import (
    CorruptFileError,
    IdcwhError,
    InvalidInputError,
    ModelMismatchError,
    NotFoundError,
    NotSupportedError,
)
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess, load_image
from support.errors import raises

SIDE = 8  # side of the linear model's images


def box(side: int) -> str:
    """Returns preprocessing without a crop, as metadata."""
    return json.dumps(Preprocess(side, side, "box").to_dict())


# ------------------------------------------------------------------------------------------------ encoding


@pytest.mark.parametrize("bits", [1, 7, 8, 12, 48, 100, 1024])
def test_encoder_of_any_code_length_equals_numpy(bits: int, linear: Any) -> None:
    encoder = Encoder(linear.write(bits))
    pixels = linear.images(21)
    codes, logits = encoder.run(pixels)
    assert codes.dtype == np.uint8 and logits.dtype == np.float32
    assert np.array_equal(logits, linear.logits(pixels, bits))
    assert np.array_equal(codes, linear.codes(pixels, bits))
    assert np.array_equal(encoder.encode(pixels), codes) and np.array_equal(encoder.logits(pixels), logits)


@pytest.mark.parametrize("batch_size", [1, 3, 8, 64, None])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9])
def test_encoder_with_any_batch_size_equals_numpy(n: int, batch_size: int | None, linear: Any) -> None:
    encoder = Encoder(linear.write(), batch_size=batch_size)
    assert np.array_equal(encoder.encode(linear.images(n)), linear.codes(linear.images(n), 12))
    assert encoder.encode(linear.images(n)).shape == (n, 2)


def test_encoder_of_a_zero_logit_gives_a_one(linear: Any) -> None:
    grey = np.full((1, SIDE, SIDE, 3), 128, np.uint8)
    encoder = Encoder(linear.write(12))
    assert (encoder.logits(grey) == 0).all() and encoder.encode(grey).tolist() == [[255, 15]]


def test_encoder_attributes_equal_the_metadata(linear: Any) -> None:
    path = linear.write(12)
    encoder = Encoder(str(path))
    assert (encoder.bits, encoder.code_bytes, encoder.preprocess) == (12, 2, Preprocess(SIDE + 2, SIDE))
    assert (
        encoder.classes == ["chat", "Straße"]
        and encoder.method == {"name": "idcwh"}
        and encoder.info == linear.info(12)
    )
    assert encoder.fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()
    assert encoder.device == "cpu" and encoder.why and "\n" not in encoder.why


def test_encoder_takes_images_of_every_kind(linear: Any, tmp_path: Path) -> None:
    big = np.random.default_rng(3).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    path = tmp_path / "a.png"
    Image.fromarray(big).save(path)
    encoder = Encoder(linear.write())
    (code,) = linear.codes(load_image(path, encoder.preprocess)[None], 12)
    for one in (path, str(path), Image.open(path), big):
        assert np.array_equal(encoder(one), code[None])
        assert np.array_equal(encoder([one, path]), [code, code])
    assert np.array_equal(encoder(np.stack([big, big])), [code, code])
    assert encoder([]).shape == (0, 2)


def test_encoder_of_other_objects_is_a_type_error(linear: Any, tmp_path: Path) -> None:
    encoder = Encoder(linear.write())
    with pytest.raises(UnreadableImage) as caught:
        encoder([tmp_path / "gone.jpg"])
    assert caught.value.path == str(tmp_path / "gone.jpg")
    for wrong in (np.zeros((4, 4, 3), np.float32), np.zeros((4, 4), np.uint8), 3):
        with pytest.raises(TypeError, match=r"^image"):
            encoder([wrong])  # type: ignore[list-item]


def test_encoder_with_an_empty_path_is_invalid(linear: Any) -> None:
    with raises(InvalidInputError, path=None, problem="path of the model is missing"):
        Encoder("")
    with raises(UnreadableImage, path="''", problem="an empty path"):
        Encoder(linear.write())([""])


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((1, SIDE, SIDE, 3), np.float32),
        np.zeros((1, SIDE, SIDE, 3), np.int8),
        np.zeros((1, 3, SIDE, SIDE), np.uint8),
        np.zeros((SIDE, SIDE, 3), np.uint8),
        [[0]],
    ],
)
def test_encode_with_wrong_pixels_is_a_type_error(pixels: Any, linear: Any) -> None:
    with pytest.raises(TypeError, match=r"^pixels .*uint8 \[n, 8, 8, 3\]"):
        Encoder(linear.write()).encode(pixels)


def test_encode_of_views_equals_numpy(linear: Any) -> None:
    encoder, pixels = Encoder(linear.write()), linear.images(20)
    for view in (pixels[::2], pixels[:, ::-1], np.asfortranarray(pixels), pixels[..., ::-1]):
        assert np.array_equal(encoder.encode(view), linear.codes(view, 12))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_encoder_of_many_images_equals_numpy(threads: int, linear: Any) -> None:
    many = linear.images(200)
    encoder = Encoder(linear.write(48), threads=threads)
    crops = np.stack([encoder.pixels(image) for image in many])
    assert np.array_equal(encoder(many), linear.codes(crops, 48))


def test_encoder_works_after_chdir(linear: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = linear.images(40)
    monkeypatch.chdir(tmp_path)
    encoder = Encoder(linear.write(48).name, threads=2)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    crops = np.stack([encoder.pixels(image) for image in many])
    assert np.array_equal(encoder(many), linear.codes(crops, 48))
    assert encoder.path == str(linear.path)


def test_encoder_is_shared_by_threads(linear: Any) -> None:
    encoder, wrong = Encoder(linear.write(48)), []

    def work(seed: int) -> None:
        pixels = linear.images(50, seed)
        run, _ = encoder.parallel()
        if not np.array_equal(encoder.encode(pixels), linear.codes(pixels, 48)):
            wrong.append(seed)
        if not np.array_equal(run(pixels)[0], linear.codes(pixels, 48)):
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_encoder_of_a_moved_file_is_the_same(linear: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    moved = linear.write().rename(tmp_path / "elsewhere" / "other name.onnx")
    assert np.array_equal(Encoder(moved).encode(linear.images(2)), linear.codes(linear.images(2), 12))


def test_encoder_runs_the_model_that_it_opened(linear: Any) -> None:
    encoder = Encoder(linear.write(12), threads=2)
    linear.write(13)
    run, _ = encoder.parallel()
    assert np.array_equal(run(linear.images(9))[0], linear.codes(linear.images(9), 12))


# ------------------------------------------------------------------------------------------------ refusals


def test_encoder_with_weights_elsewhere_is_not_supported(linear: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save_model(linear.proto(12), path, save_as_external_data=True, location="m.data", size_threshold=0)
    assert (tmp_path / "m.data").stat().st_size > 1000
    for options in ({}, {"preprocess": linear.info(12).preprocess}):
        with raises(NotSupportedError, path=path) as caught:
            Encoder(path, **options)
        assert "m.data" in caught.value.found


def test_encoder_of_another_file_names_it(linear: Any, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "cut.onnx").write_bytes(linear.write().read_bytes()[:-400])
    os.mkfifo(tmp_path / "pipe.onnx")
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as file:  # as torch.save writes
        file.writestr("model/data.pkl", b"")
    cases = {
        "gone.onnx": NotFoundError,
        "text.onnx/m.onnx": NotFoundError,
        "folder.onnx": InvalidInputError,
        "text.onnx": CorruptFileError,
        "empty.onnx": CorruptFileError,
        "cut.onnx": CorruptFileError,
        "pipe.onnx": NotSupportedError,
        "model.pt": InvalidInputError,
    }
    for name, kind in cases.items():
        with raises(kind, path=tmp_path / name) as caught:
            Encoder(tmp_path / name)
        assert "\n" not in str(caught.value)
    assert f"idcwh-export {tmp_path / 'model.pt'} --onnx" in caught.value.hint


def test_encoder_of_a_later_onnx_is_not_supported(linear: Any) -> None:
    path = linear.write()
    encoder = onnx.load(path)
    encoder.ir_version = 99
    path.write_bytes(encoder.SerializeToString())
    with raises(NotSupportedError, path=path, problem="IR version: 99"):
        Encoder(path)


@pytest.mark.parametrize(
    ("meta", "kind", "about", "found"),
    [
        ({"idcwh_format": None}, CorruptFileError, "", "no idcwh metadata"),
        ({"idcwh_format": "2"}, NotSupportedError, "idcwh_format", "2"),
        ({"idcwh_bit_order": "big"}, CorruptFileError, "idcwh_bit_order", "big"),
        ({"idcwh_bit_order": None}, CorruptFileError, "idcwh_bit_order", "no entry"),
        ({"idcwh_threshold": "> 0"}, CorruptFileError, "idcwh_threshold", "> 0"),
        ({"idcwh_threshold": None}, CorruptFileError, "idcwh_threshold", "no entry"),
        ({"idcwh_bits": "twelve"}, CorruptFileError, "idcwh_bits", "'twelve'"),
        ({"idcwh_bits": "0"}, CorruptFileError, "idcwh_bits", "'0'"),
        ({"idcwh_bits": "65536"}, CorruptFileError, "idcwh_bits", "'65536'"),
        ({"idcwh_bits": "9" * 5000}, CorruptFileError, "idcwh_bits", repr("9" * 40)),
        ({"idcwh_bits": None}, CorruptFileError, "idcwh_bits", "''"),
        ({"idcwh_bits": "13"}, InvalidInputError, "logits", "tensor(float) ['n', 12]"),
        ({"idcwh_bits": "17"}, InvalidInputError, "codes", "tensor(uint8) ['n', 2]"),
        ({"idcwh_preprocess": "{"}, CorruptFileError, "idcwh_preprocess", None),
        ({"idcwh_preprocess": "[" * 100_000}, CorruptFileError, "idcwh_preprocess", None),
        ({"idcwh_preprocess": '{"resize": 8, "crop": 9}'}, CorruptFileError, "idcwh_preprocess", None),
        ({"idcwh_preprocess": box(9)}, InvalidInputError, "image", "tensor(uint8) ['n', 8, 8, 3]"),
        ({"idcwh_classes": "{}"}, CorruptFileError, "idcwh_classes", "dict"),
        ({"idcwh_classes": "[1, 2]"}, CorruptFileError, "idcwh_classes", "int"),
        ({"idcwh_backbone": '{"name": ["a"]}'}, CorruptFileError, "idcwh_backbone", "list"),
        ({"idcwh_method": None}, CorruptFileError, "idcwh_method", None),
        ({"idcwh_precision": "int4"}, NotSupportedError, "idcwh_precision", "'int4'"),
        ({"idcwh_verified": "yes"}, CorruptFileError, "idcwh_verified", None),
    ],
)
def test_encoder_with_wrong_metadata_names_the_entry(
    meta: dict[str, str | None], kind: type[IdcwhError], about: str, found: str | None, linear: Any
) -> None:
    path = linear.write(12, meta=meta)
    with raises(kind, path=path, found=found, problem=about) as caught:
        Encoder(path)
    assert "\n" not in str(caught.value)


def test_encoder_with_one_image_per_run_is_not_supported(linear: Any) -> None:
    with raises(NotSupportedError, path=linear.path, problem="image"):
        Encoder(linear.write(batch=1))


def test_encoder_with_float_images_is_invalid(linear: Any) -> None:
    with raises(InvalidInputError, path=linear.path, found="tensor(float) ['n', 8, 8, 3]", problem="image"):
        Encoder(linear.write(image_type=onnx.TensorProto.FLOAT))


def test_encoder_without_the_output_codes_is_invalid(linear: Any, tmp_path: Path) -> None:
    encoder = linear.proto(12)
    del encoder.graph.output[0]
    (tmp_path / "m.onnx").write_bytes(encoder.SerializeToString())
    with raises(InvalidInputError, path=tmp_path / "m.onnx", found="['image'] and ['logits']"):
        Encoder(tmp_path / "m.onnx")


def test_encoder_of_a_changed_model_is_corrupt(linear: Any) -> None:
    path = linear.write()
    path.write_bytes(model_file.with_checksum(path.read_bytes()))
    assert Encoder(path).bits == 12
    changed = onnx.load(path)
    changed.graph.node[1].input.reverse()
    path.write_bytes(changed.SerializeToString())
    with raises(CorruptFileError, path=path):
        Encoder(path)
    assert np.array_equal(  # -x in place of x
        Encoder(path, preprocess=Preprocess(SIDE + 2, SIDE)).logits(linear.images(3)),
        -linear.logits(linear.images(3), 12),
    )


def test_encoder_without_metadata_takes_preprocess(linear: Any, tmp_path: Path) -> None:
    result = linear.proto(12)
    del result.metadata_props[:]
    (tmp_path / "m.onnx").write_bytes(result.SerializeToString())
    with raises(CorruptFileError, path=tmp_path / "m.onnx") as caught:
        Encoder(tmp_path / "m.onnx")
    assert "--preprocess" in caught.value.hint
    encoder = Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE))
    assert np.array_equal(encoder.encode(linear.images(5)), linear.codes(linear.images(5), 12))
    assert (encoder.bits, encoder.classes, encoder.info.precision) == (12, [], "unknown")
    assert Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE), bits=12).bits == 12
    with raises(InvalidInputError, found="tensor(uint8) ['n', 2]", expected="tensor(uint8) ['n', 3]", problem="codes"):
        Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE), bits=17)
    with raises(InvalidInputError, expected="tensor(uint8) ['n', 16, 16, 3]", problem="image"):
        Encoder(tmp_path / "m.onnx", preprocess=Preprocess(16, 16))


def test_encoder_of_a_model_with_checksum_keeps_its_metadata(linear: Any) -> None:
    path = linear.write()
    path.write_bytes(model_file.with_checksum(path.read_bytes()))
    assert Encoder(path, preprocess=Encoder(path).preprocess).info.precision == "fp32", "from the metadata"
    other = Preprocess(SIDE + 3, SIDE)
    with raises(ModelMismatchError, path=path, found=Preprocess(SIDE + 2, SIDE), expected=other):
        Encoder(path, preprocess=other)
    with raises(ModelMismatchError, path=path, found=12, expected=16):
        Encoder(path, bits=16)


def test_encoder_with_logits_that_are_nan_is_corrupt(linear: Any, tmp_path: Path) -> None:
    encoder = linear.proto(12)
    weights = encoder.graph.initializer[0]
    assert weights.data_type == onnx.TensorProto.FLOAT
    weights.CopyFrom(onnx.numpy_helper.from_array(np.full(tuple(weights.dims), np.nan, np.float32), weights.name))
    onnx.save(encoder, tmp_path / "nan.onnx")
    with raises(CorruptFileError, path=tmp_path / "nan.onnx"):
        Encoder(tmp_path / "nan.onnx")


def test_encoder_with_an_argument_of_another_type_names_it(linear: Any) -> None:
    path = linear.write()
    assert Encoder(path, threads=np.int64(1), batch_size=np.int32(3)).batch_size == 3
    with pytest.raises(TypeError, match=r"^preprocess"):
        Encoder(path, preprocess=(8, 8))  # type: ignore[arg-type]
    encoder = Encoder(path)
    with pytest.raises(TypeError, match=r"^image .*uint8 \[8, 9\]"):
        encoder(np.zeros((8, 9), np.uint8))
    with pytest.raises(TypeError, match=r"^image .* int$"):
        encoder([3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"^preprocess: interpolation"):
        Preprocess(8, 8, ["bilinear"])  # type: ignore[arg-type]


def test_encoder_with_codes_unlike_its_logits_is_corrupt(linear: Any) -> None:
    path = linear.write()
    encoder = onnx.load(path)
    encoder.graph.node[4].op_type = "Less"
    path.write_bytes(encoder.SerializeToString())
    with raises(CorruptFileError, path=path, found="other codes"):
        Encoder(path)


@pytest.mark.parametrize(
    "options",
    [{"threads": 0}, {"batch_size": 0}, {"batch_size": 2.5}, {"device": "gpu"}, {"gpu_memory": 0}, {"gpu": -1}],
)
def test_encoder_with_a_wrong_argument_names_it(options: dict[str, Any], linear: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{next(iter(options))} "):
        Encoder(linear.write(), **options)
