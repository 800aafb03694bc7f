"""The codes and logits of idcwh::Encoder, which equal those of Python's Encoder bit for bit."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.database import provenance
from idcwh_search.encoder import model_file
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.errors import CorruptFileError, IdcwhError
from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess
from support.c_abi import CppError
from support.errors import raises

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "demo" / "cifar10" / "test"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
INVALID, SYSTEM, CORRUPT = 1, 5, 6  # idcwh_status


@contextlib.contextmanager
def fails(status: int, path: Path | None = None, value: str = "") -> Iterator[None]:
    """Passes if the block fails with this status, and a line that names the path and the value."""
    with pytest.raises(CppError) as caught:
        yield
    text = str(caught.value)
    assert caught.value.status == status and "\n" not in text
    assert (path is None or text.startswith(f"{path}: ")) and value in text


@pytest.fixture(params=[1, 12, 100])
def model(request, exported, tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(exported[request.param])
    return path


def test_cpp_encoder_of_pixels_equals_python(cpp_with_encoder, model: Path, images: np.ndarray) -> None:
    ours, python = cpp_with_encoder.encoder(model), Encoder(model, device="cpu", threads=1)
    assert ours.fingerprint == python.fingerprint and ours.bits == python.bits
    assert json.loads(cpp_with_encoder.text("idcwh_preprocess_to_json", ours.preprocess)) == python.preprocess.to_dict()
    assert json.loads(ours.text("metadata", b"idcwh_classes")) == python.classes
    for n in (0, 1, 3, 8, len(images)):
        codes, logits = ours.encode(images[:n])
        expected_codes, expected_logits = python.run(images[:n])
        assert np.array_equal(codes, expected_codes)
        assert np.array_equal(logits.view(np.uint32), expected_logits.view(np.uint32))
    ours.close()


def test_cpp_encoder_of_images_of_any_size_equals_python(cpp_with_encoder, model: Path) -> None:
    """Starts from decoded files, so preprocessing and model run together. The number of images is no multiple of the
    batch.
    """
    ours, python = cpp_with_encoder.encoder(model, batch_size=4), Encoder(model, device="cpu", threads=1, batch_size=4)
    rng = np.random.default_rng(0)
    images = [Image.open(path).convert("RGB") for path in list_images(IMAGES)[:30:3]]
    images = [image.resize(tuple(map(int, rng.integers(20, 200, 2)))) for image in images]
    arrays = [np.asarray(image) for image in images]
    codes, logits = ours.encode_images(arrays)
    expected = python.run(np.stack([python.pixels(image) for image in images]))
    assert np.array_equal(codes, expected[0]) and np.array_equal(logits, expected[1])
    assert np.array_equal(codes, python(images))
    ours.close()


def test_cpp_encoder_is_shared_by_threads(cpp_with_encoder, model: Path, images: np.ndarray) -> None:
    ours = cpp_with_encoder.encoder(model, threads=2)
    expected = Encoder(model, device="cpu", threads=2).encode(images)
    wrong = []

    def work() -> None:
        wrong.extend(i for i in range(10) if not np.array_equal(ours.encode(images)[0], expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    ours.close()


def changed(path: Path, edit) -> Path:  # type: ignore[no-untyped-def]
    model = onnx.load(path)
    edit(model, {entry.key: entry for entry in model.metadata_props})
    onnx.save(model, path)
    return path


EDITS = {
    "no metadata": lambda model, meta: model.ClearField("metadata_props"),
    "another format": lambda model, meta: setattr(meta["idcwh_format"], "value", "2"),
    "another bit order": lambda model, meta: setattr(meta["idcwh_bit_order"], "value", "big"),
    "bits not a whole number": lambda model, meta: setattr(meta["idcwh_bits"], "value", "12.0"),
    "no bits": lambda model, meta: setattr(meta["idcwh_bits"], "value", "0"),
    "other bits": lambda model, meta: setattr(meta["idcwh_bits"], "value", "13"),
    "another crop": lambda model, meta: setattr(meta["idcwh_preprocess"], "value", '{"resize": 9, "crop": 9}'),
    "no JSON": lambda model, meta: setattr(meta["idcwh_preprocess"], "value", "{"),
    "classes not a list": lambda model, meta: setattr(meta["idcwh_classes"], "value", "{}"),
    "another precision": lambda model, meta: model.metadata_props.add(key="idcwh_precision", value="fp8"),
    "a fixed batch size": lambda model, meta: freeze(model),
    "another input": lambda model, meta: rename(model, "image"),
    "another output": lambda model, meta: rename(model, "codes"),
    "codes of other bits": lambda model, meta: invert(model),
}


def invert(model: onnx.ModelProto) -> None:
    """Inverts every bit of the codes."""
    rename(model, "codes", only_nodes=True)
    zeros = onnx.numpy_helper.from_array(np.array(255, np.uint8), "all_ones")
    model.graph.initializer.append(zeros)
    model.graph.node.append(onnx.helper.make_node("Sub", ["all_ones", "renamed"], ["codes"]))


def freeze(model: onnx.ModelProto) -> None:
    """Fixes the batch size at one image, like an exporter without dynamic shapes."""
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1


def rename(model: onnx.ModelProto, name: str, only_nodes: bool = False) -> None:
    for value in (*model.graph.input, *model.graph.output):
        if value.name == name and not only_nodes:
            value.name = "renamed"
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["renamed" if one == name else one for one in names]


@pytest.mark.parametrize("what", EDITS)
def test_cpp_encoder_raises_the_errors_of_python(cpp_with_encoder, exported, tmp_path: Path, what: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(exported[12])
    changed(path, EDITS[what])
    with pytest.raises(IdcwhError):
        Encoder(path, device="cpu")
    with fails(CORRUPT, path):
        cpp_with_encoder.encoder(path)


def test_cpp_encoder_of_a_changed_model_fails(cpp_with_encoder, exported, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    whole = model_file.with_checksum(exported[12])
    path.write_bytes(whole)
    assert cpp_with_encoder.encoder(path).fingerprint == Encoder(path, device="cpu").fingerprint
    for corrupt in (whole[:500] + b"\0" + whole[501:], whole[:-1] + b"g", whole + b"\0"):
        path.write_bytes(corrupt)
        with raises(CorruptFileError, path=path):
            Encoder(path, device="cpu")
        with fails(CORRUPT, path):
            cpp_with_encoder.encoder(path)


def test_cpp_encoder_without_metadata_takes_preprocessing(
    cpp_with_encoder, exported, images: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(exported[100])
    changed(path, EDITS["no metadata"])
    side = images.shape[1]
    handle = cpp_with_encoder.preprocess_handle(json.dumps(Preprocess(side, side).to_dict()))
    python = Encoder(path, device="cpu", threads=1, preprocess=Preprocess(side, side))
    for bits in (0, 100):
        ours = cpp_with_encoder.encoder(path, preprocess=handle, bits=bits)
        assert ours.bits == python.bits == 100
        assert np.array_equal(ours.encode(images)[0], python.encode(images))
    with fails(CORRUPT, path, "logits"):
        cpp_with_encoder.encoder(path, preprocess=handle, bits=101)
    with fails(CORRUPT, path, "image"):
        cpp_with_encoder.encoder(
            path, preprocess=cpp_with_encoder.preprocess_handle(json.dumps(Preprocess().to_dict()))
        )


def test_cpp_encoder_of_another_file_fails(cpp_with_encoder, exported, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for content in (b"", b"no model", exported[12][:-2000], exported[12][:100]):
        path.write_bytes(content)
        with fails(CORRUPT, path):
            cpp_with_encoder.encoder(path)
    path.write_bytes(b"PK\3\4" + bytes(26) + b"model/data.pkl")  # as torch.save writes
    with fails(CORRUPT, path, "idcwh-export"):
        cpp_with_encoder.encoder(path)
    with fails(SYSTEM, tmp_path / "missing.onnx"):
        cpp_with_encoder.encoder(tmp_path / "missing.onnx")


def test_manifest_of_cpp_equals_that_of_python(cpp_with_encoder, exported, tmp_path: Path) -> None:
    """C++ and Python write the same manifest, and each accepts the other's database."""
    path, other = tmp_path / "models" / "model.onnx", tmp_path / "other.onnx"
    path.parent.mkdir()
    path.write_bytes(exported[12])
    other.write_bytes(exported[100])
    database, images = tmp_path / "codes.bin", tmp_path / "images" / "all"
    ours, python = cpp_with_encoder.encoder(path), Encoder(path, device="cpu")
    written = json.loads(ours.text("manifest", os.fsencode(database), os.fsencode(images)))
    assert written == provenance.describe(database, python, images)
    assert "images" not in json.loads(ours.text("manifest", os.fsencode(database), None))

    ih.Database.create(database, 12, written).close()
    with ih.Database.open(database) as db:
        assert provenance.open_encoder(db, None, device="cpu").fingerprint == ours.fingerprint
        ours.check_manifest(json.dumps(db.manifest))
    stranger = cpp_with_encoder.encoder(other)
    with pytest.raises(CppError, match=f"{stranger.fingerprint}.*{ours.fingerprint}"):
        stranger.check_manifest(json.dumps(written))
    ours.close()
    stranger.close()


def test_cpp_encoder_with_null_pointers_fails(cpp_with_encoder, model: Path) -> None:
    ours = cpp_with_encoder.encoder(model)
    for name, arguments in {
        "idcwh_encoder_open": (None, None, ctypes.byref(ctypes.c_void_p())),
        "idcwh_encoder_metadata": (ours._handle, None, None, ctypes.c_size_t(0), None),
        "idcwh_encoder_encode": (ours._handle, None, ctypes.c_size_t(1), None, None),
        "idcwh_encoder_encode_images": (ours._handle, None, ctypes.c_size_t(1), None, None),
        "idcwh_encoder_check_manifest": (ours._handle, None),
        "idcwh_preprocess_run": (ours.preprocess, None, None),
        "idcwh_preprocess_from_json": (None, ctypes.byref(ctypes.c_void_p())),
    }.items():
        with fails(INVALID):
            cpp_with_encoder.call(name, *arguments)
    ours.close()


def example_service(folder: Path, *options: str) -> Path:
    """Compiles csrc/examples/image_service.cpp into the folder."""
    program, library = folder / "service", ih.get_library_dir()
    source = REPOSITORY / "csrc" / "examples" / "image_service.cpp"
    link = [f"-I{ih.get_include()}", f"-L{library}", "-lidcwh_encoder", "-lidcwh", f"-Wl,-rpath,{library}"]
    command = [COMPILER, "-std=c++20", source, *link, *options, "-o", program]
    subprocess.run(command, check=True)  # type: ignore[arg-type]
    return program


def has_libjpeg() -> bool:
    """Returns true if the compiler finds the headers of libjpeg (Debian: libjpeg-dev)."""
    if COMPILER is None:
        return False
    command = [COMPILER, "-x", "c++", "-fsyntax-only", "-"]
    code = b"#include <cstdio>\n#include <jpeglib.h>\n"
    return subprocess.run(command, input=code, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_libjpeg(), reason="no libjpeg (Debian: libjpeg-dev)")
def test_example_service_with_rotated_jpeg_equals_python(cpp_with_encoder, exported, tmp_path: Path) -> None:
    """All orientations of EXIF, in both byte orders, and invalid values."""
    (tmp_path / "model.onnx").write_bytes(exported[100])
    program = example_service(tmp_path, "-DWITH_JPEG", "-ljpeg")
    # The decoders of Pillow and of this machine agree on low frequencies.
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (5, 4, 3), np.uint8)).resize((48, 64), Image.Resampling.BICUBIC)
    names = []
    for order, mark in (("<", b"II"), (">", b"MM")):
        for value in range(10):
            entries = struct.pack(f"{order}HHHIHHHHIHHI", 2, 0x010F, 3, 1, 7, 0, 0x0112, 3, 1, value, 0, 0)
            exif = b"Exif\0\0" + mark + struct.pack(f"{order}HI", 42, 8) + entries
            names.append(f"{mark.decode()}{value}.jpg")
            image.save(tmp_path / names[-1], quality=95, exif=exif)
    image.save(tmp_path / "none.jpg", quality=95)
    data = (tmp_path / "none.jpg").read_bytes()
    (tmp_path / "short.jpg").write_bytes(data[: len(data) // 2])
    names.append("none.jpg")

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([program, *arguments], input=stdin, capture_output=True, cwd=tmp_path, check=False)

    done = run("model.onnx", "build", "codes.bin", *names, "short.jpg")
    assert done.returncode == 3 and b"skipped short.jpg: JPEG is corrupt" in done.stderr
    codes = Encoder(tmp_path / "model.onnx", device="cpu")([tmp_path / name for name in names])
    assert len(np.unique(codes, axis=0)) > 4  # the code depends on the orientation
    with ih.Database.open(tmp_path / "codes.bin") as db:
        assert np.array_equal(db.get(np.arange(len(names))), codes)
    answer = run("model.onnx", "ask", "codes.bin", "2", stdin=(tmp_path / "II6.jpg").read_bytes())
    assert answer.stdout.decode().split("\n")[:2] == ["0 6 II6.jpg", "0 16 MM6.jpg"]


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_example_service_answers_equal_python(cpp_with_encoder, exported, tmp_path: Path) -> None:
    """A C++ program makes a database of images. Its results equal Python's for the same images."""
    path, database = tmp_path / "model.onnx", tmp_path / "codes.bin"
    path.write_bytes(exported[12])
    program = example_service(tmp_path)

    images = [Image.open(name).convert("RGB").resize((40 + i, 60)) for i, name in enumerate(list_images(IMAGES)[:80:4])]
    for i, image in enumerate(images):
        image.save(tmp_path / f"{i}.ppm")
    (tmp_path / "corrupt.ppm").write_bytes((tmp_path / "0.ppm").read_bytes()[:-1])
    names = [f"{i}.ppm" for i in range(len(images))]

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([program, *arguments], input=stdin, capture_output=True, cwd=tmp_path)

    done = run("model.onnx", "build", "codes.bin", *names, "corrupt.ppm", "missing.ppm")
    assert done.returncode == 3 and b"skipped corrupt.ppm: PPM is truncated" in done.stderr

    python = Encoder(path, device="cpu")
    codes = python(images)
    with ih.Database.open(database) as db:
        assert db.keys(np.arange(len(images))) == names
        assert np.array_equal(db.get(np.arange(len(images))), codes)
        assert provenance.open_encoder(db, None, device="cpu").fingerprint == python.fingerprint
        expected = db.search(codes[3:5], k=4)
    asked = b"".join((tmp_path / f"{i}.ppm").read_bytes() for i in (3, 4))
    answers = run("model.onnx", "ask", "codes.bin", "4", stdin=asked).stdout.decode().split("\n\n")
    assert len(answers) == 3 and answers[2] == ""
    for answer, distances, ids in zip(answers, *expected, strict=False):
        assert answer == "\n".join(f"{d} {i} {i}.ppm" for d, i in zip(distances, ids, strict=True))

    (tmp_path / "model.onnx").write_bytes(exported[100])
    done = run("model.onnx", "ask", "codes.bin", "4", stdin=asked)
    assert done.returncode == 1 and python.fingerprint in done.stderr.decode()
    assert run("model.onnx", "ask", "missing.bin", stdin=asked).returncode == 1
