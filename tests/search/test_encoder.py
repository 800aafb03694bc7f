"""Encoder: the codes of a model.onnx, and what it refuses. The oracle is numpy."""

from __future__ import annotations

import hashlib
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
from idcwh_search.errors import IdcwhError
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess, load_image

SIDE = 8  # of the linear model's pictures


# ------------------------------------------------------------------------------------------------ encoding


@pytest.mark.parametrize("bits", [1, 7, 8, 12, 48, 100, 1024])
def test_codes_and_logits(bits: int, linear: Any) -> None:
    encoder = Encoder(linear.write(bits))
    pixels = linear.pictures(21)
    codes, logits = encoder.run(pixels)
    assert codes.dtype == np.uint8 and logits.dtype == np.float32
    assert np.array_equal(logits, linear.logits(pixels, bits))
    assert np.array_equal(codes, linear.codes(pixels, bits))
    assert np.array_equal(encoder.encode(pixels), codes) and np.array_equal(encoder.logits(pixels), logits)


@pytest.mark.parametrize("batch_size", [1, 3, 8, 64, None])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9])
def test_any_number_in_batches_of_any_size(n: int, batch_size: int | None, linear: Any) -> None:
    encoder = Encoder(linear.write(), batch_size=batch_size)
    assert np.array_equal(encoder.encode(linear.pictures(n)), linear.codes(linear.pictures(n), 12))
    assert encoder.encode(linear.pictures(n)).shape == (n, 2)


def test_a_zero_logit_is_a_one(linear: Any) -> None:
    grey = np.full((1, SIDE, SIDE, 3), 128, np.uint8)
    encoder = Encoder(linear.write(12))
    assert (encoder.logits(grey) == 0).all() and encoder.encode(grey).tolist() == [[255, 15]]


def test_what_it_says_of_itself(linear: Any) -> None:
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


def test_calling_it_with_pictures_of_every_kind(linear: Any, tmp_path: Path) -> None:
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


def test_calling_it_with_something_else(linear: Any, tmp_path: Path) -> None:
    encoder = Encoder(linear.write())
    with pytest.raises(UnreadableImage, match="gone"):
        encoder([tmp_path / "gone.jpg"])
    for wrong in (np.zeros((4, 4, 3), np.float32), np.zeros((4, 4), np.uint8), 3):
        with pytest.raises(TypeError, match="an image must be"):
            encoder([wrong])  # type: ignore[list-item]


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
def test_wrong_pixels_are_refused(pixels: Any, linear: Any) -> None:
    with pytest.raises(TypeError, match=r"expected preprocessed pictures uint8 \[n, 8, 8, 3\], not"):
        Encoder(linear.write()).encode(pixels)


def test_views_are_taken_as_they_look(linear: Any) -> None:
    encoder, pixels = Encoder(linear.write()), linear.pictures(20)
    for view in (pixels[::2], pixels[:, ::-1], np.asfortranarray(pixels), pixels[..., ::-1]):
        assert np.array_equal(encoder.encode(view), linear.codes(view, 12))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_pictures_take_the_parallel_way(threads: int, linear: Any) -> None:
    many = linear.pictures(200)
    encoder = Encoder(linear.write(48), threads=threads)
    crops = np.stack([encoder.pixels(picture) for picture in many])
    assert np.array_equal(encoder(many), linear.codes(crops, 48))


def test_the_current_folder_may_change(linear: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = linear.pictures(40)
    monkeypatch.chdir(tmp_path)
    encoder = Encoder(linear.write(48).name, threads=2)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    crops = np.stack([encoder.pixels(picture) for picture in many])
    assert np.array_equal(encoder(many), linear.codes(crops, 48))
    assert encoder.path == str(linear.path)


def test_threads_share_one_encoder(linear: Any) -> None:
    encoder, wrong = Encoder(linear.write(48)), []

    def work(seed: int) -> None:
        pixels = linear.pictures(50, seed)
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


def test_the_file_can_be_moved(linear: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    moved = linear.write().rename(tmp_path / "elsewhere" / "other name.onnx")
    assert np.array_equal(Encoder(moved).encode(linear.pictures(2)), linear.codes(linear.pictures(2), 12))


def test_a_file_that_is_replaced_meanwhile_is_noticed(linear: Any) -> None:
    path = linear.write(12)
    encoder = Encoder(path, threads=2)
    linear.write(13)
    with pytest.raises(IdcwhError, match="was replaced"):
        encoder.parallel()


# ------------------------------------------------------------------------------------------------ refusals


def test_weights_in_another_file_are_refused(linear: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save_model(linear.proto(12), path, save_as_external_data=True, location="m.data", size_threshold=0)
    assert (tmp_path / "m.data").stat().st_size > 1000
    for options in ({}, {"preprocess": linear.info(12).preprocess}):
        with pytest.raises(IdcwhError, match=r"m\.onnx: some of its weights are in another file, m\.data, "):
            Encoder(path, **options)


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "folder.onnx").mkdir()
    no_model = "not an ONNX model"
    cases = {"gone.onnx": "No such", "folder.onnx": "directory", "text.onnx": no_model, "empty.onnx": no_model}
    for name, cause in cases.items():
        with pytest.raises(IdcwhError, match=cause) as error:
            Encoder(tmp_path / name)
        assert str(error.value).startswith(str(tmp_path / name)) and "\n" not in str(error.value)


def test_a_model_of_a_later_onnx(linear: Any) -> None:
    path = linear.write()
    made = onnx.load(path)
    made.ir_version = 99
    path.write_bytes(made.SerializeToString())
    with pytest.raises(IdcwhError, match=r"not an ONNX model that ONNX Runtime .* can run \(.*IR version: 99"):
        Encoder(path)


def test_a_truncated_model(linear: Any) -> None:
    path = linear.write()
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(IdcwhError, match=r"model\.onnx: "):
        Encoder(path)


@pytest.mark.parametrize(
    ("meta", "complaint"),
    [
        ({"idcwh_format": None}, "without idcwh metadata"),
        ({"idcwh_format": "2"}, "format 2; this version of idcwh reads format 1"),
        ({"idcwh_bit_order": "big"}, "idcwh_bit_order is 'big'; expected 'little'"),
        ({"idcwh_bit_order": None}, "idcwh_bit_order is None; expected 'little'"),
        ({"idcwh_threshold": "> 0"}, "idcwh_threshold"),
        ({"idcwh_threshold": None}, "idcwh_threshold is None; expected '>= 0'"),
        ({"idcwh_bits": "twelve"}, "idcwh_bits is 'twelve'"),
        ({"idcwh_bits": "0"}, "from 1 to 65535"),
        ({"idcwh_bits": "65536"}, "idcwh_bits is '65536'; expected a whole number from 1 to 65535"),
        ({"idcwh_bits": None}, "idcwh_bits"),
        ({"idcwh_bits": "13"}, r"logits is tensor\(float\)"),
        ({"idcwh_bits": "17"}, r"codes is tensor\(uint8\)"),
        ({"idcwh_preprocess": "{"}, "idcwh_preprocess is missing or not JSON"),
        ({"idcwh_preprocess": '{"resize": 8, "crop": 9, "interpolation": "box"}'}, "crop <= resize"),
        ({"idcwh_preprocess": '{"resize": 9, "crop": 9, "interpolation": "box"}'}, r"image is tensor\(uint8\)"),
        ({"idcwh_preprocess": "[" * 100_000}, "idcwh_preprocess is missing or not JSON"),
        ({"idcwh_bits": "9" * 5000}, "idcwh_bits is '9+'; expected a whole number from 1 to 65535"),
        ({"idcwh_classes": "{}"}, "idcwh_classes is a dict; expected a list"),
        ({"idcwh_classes": "[1, 2]"}, "idcwh_classes has an entry that is a int; expected a list of texts"),
        ({"idcwh_backbone": '{"name": ["a"]}'}, "idcwh_backbone has a name that is a list; expected a text"),
        ({"idcwh_method": None}, "idcwh_method is missing"),
        ({"idcwh_precision": "int4"}, "idcwh_precision is 'int4'"),
        ({"idcwh_verified": "yes"}, "idcwh_verified is missing or not JSON"),
    ],
)
def test_metadata_that_does_not_hold(meta: dict[str, str | None], complaint: str, linear: Any) -> None:
    with pytest.raises(IdcwhError, match=complaint) as error:
        Encoder(linear.write(12, meta=meta))
    assert "model.onnx: " in str(error.value) and "\n" not in str(error.value)


def test_a_frozen_batch_size_is_refused(linear: Any) -> None:
    with pytest.raises(IdcwhError, match="exactly 1 images at a time"):
        Encoder(linear.write(batch=1))


def test_another_input_type_is_refused(linear: Any) -> None:
    with pytest.raises(IdcwhError, match=r"image is tensor\(float\)"):
        Encoder(linear.write(image_type=onnx.TensorProto.FLOAT))


def test_other_outputs_are_refused(linear: Any, tmp_path: Path) -> None:
    made = linear.proto(12)
    del made.graph.output[0]
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(
        IdcwhError, match=r"not packed codes: .*outputs codes and logits, not \['image'\] and \['logits'\]"
    ):
        Encoder(tmp_path / "m.onnx")


def test_a_sealed_model_that_was_changed_is_refused(linear: Any) -> None:
    path = linear.write()
    path.write_bytes(model_file.sealed(path.read_bytes()))
    assert Encoder(path).bits == 12
    changed = onnx.load(path)
    changed.graph.node[1].input.reverse()
    path.write_bytes(changed.SerializeToString())
    with pytest.raises(IdcwhError, match=r"model\.onnx: was changed after idcwh-export wrote it.*Encoder\(path"):
        Encoder(path)
    assert np.array_equal(  # -x in place of x
        Encoder(path, preprocess=Preprocess(SIDE + 2, SIDE)).logits(linear.pictures(3)),
        -linear.logits(linear.pictures(3), 12),
    )


def test_a_model_without_metadata_is_used_when_told_what_it_expects(linear: Any, tmp_path: Path) -> None:
    made = linear.proto(12)
    del made.metadata_props[:]
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(IdcwhError, match=r"without idcwh metadata.*Encoder\(path, preprocess=Preprocess\("):
        Encoder(tmp_path / "m.onnx")
    encoder = Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE))
    assert np.array_equal(encoder.encode(linear.pictures(5)), linear.codes(linear.pictures(5), 12))
    assert (encoder.bits, encoder.classes, encoder.info.precision) == (12, [], "unknown")
    assert Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE), bits=12).bits == 12
    with pytest.raises(IdcwhError, match=r"codes is tensor\(uint8\).*expected tensor\(uint8\) \['n', 3\]"):
        Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE), bits=17)
    with pytest.raises(IdcwhError, match=r"image is tensor\(uint8\).*expected"):
        Encoder(tmp_path / "m.onnx", preprocess=Preprocess(16, 16))


def test_an_unchanged_model_knows_better(linear: Any) -> None:
    path = linear.write()
    path.write_bytes(model_file.sealed(path.read_bytes()))
    assert Encoder(path, preprocess=Encoder(path).preprocess).info.precision == "fp32", "what it says itself"
    with pytest.raises(IdcwhError, match=r"expects resize 10, crop 8, bilinear, not resize 11.*leave --preprocess out"):
        Encoder(path, preprocess=Preprocess(SIDE + 3, SIDE))
    with pytest.raises(IdcwhError, match=r"model\.onnx: its codes have 12 bits, not 16"):
        Encoder(path, bits=16)


def test_encoder_given_a_model_pt_names_idcwh_export(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as file:  # as torch.save writes
        file.writestr("model/data.pkl", b"")
    with pytest.raises(IdcwhError, match=r"model\.pt: is a PyTorch file.*run idcwh-export .*model\.pt --onnx"):
        Encoder(tmp_path / "model.pt")


def test_logits_that_are_no_numbers_are_refused(linear: Any, tmp_path: Path) -> None:
    made = linear.proto(12)
    weights = made.graph.initializer[0]
    assert weights.data_type == onnx.TensorProto.FLOAT
    weights.CopyFrom(onnx.numpy_helper.from_array(np.full(tuple(weights.dims), np.nan, np.float32), weights.name))
    onnx.save(made, tmp_path / "nan.onnx")
    with pytest.raises(IdcwhError, match="its logits are not finite"):
        Encoder(tmp_path / "nan.onnx")


def test_arguments_of_the_wrong_kind(linear: Any) -> None:
    path = linear.write()
    assert Encoder(path, threads=np.int64(1), batch_size=np.int32(3)).batch_size == 3
    with pytest.raises(TypeError, match=r"expected a Preprocess\(resize, crop\), not tuple"):
        Encoder(path, preprocess=(8, 8))  # type: ignore[arg-type]
    encoder = Encoder(path)
    with pytest.raises(TypeError, match=r"must be uint8 \[h, w, 3\], not uint8 \[8, 9\]"):
        encoder(np.zeros((8, 9), np.uint8))
    with pytest.raises(TypeError, match=r"a path, the bytes of an image file, .* or an array, not int"):
        encoder([3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="interpolation must be one of"):
        Preprocess(8, 8, ["bilinear"])  # type: ignore[arg-type]


def test_codes_that_are_not_the_logits_packed_are_refused(linear: Any) -> None:
    path = linear.write()
    made = onnx.load(path)
    made.graph.node[4].op_type = "Less"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(IdcwhError, match="its codes are not its logits >= 0, packed"):
        Encoder(path)


@pytest.mark.parametrize(
    "options",
    [{"threads": 0}, {"batch_size": 0}, {"batch_size": 2.5}, {"device": "gpu"}, {"gpu_memory": 0}, {"gpu": -1}],
)
def test_wrong_options(options: dict[str, Any], linear: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Encoder(linear.write(), **options)
