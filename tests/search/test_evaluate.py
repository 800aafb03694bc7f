"""idcwh-eval: files of codes, models on a protocol, tables, JSON, plots, and errors of one line."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli.evaluate import main
from idcwh_search.datasets import training_images
from idcwh_search.encoder import model_file

SIDE, BITS = 8, 8
CLASSES = ("blue", "green", "red")
# The logits of an image of one colour have few bits and coarse steps, so that codes tie.
WEIGHTS = np.random.default_rng(4).integers(-3, 4, (3, BITS)).astype(np.float32)
BIAS = np.random.default_rng(5).integers(-90, 90, BITS).astype(np.float32)


# ------------------------------------------------------------------------------------------------- files of codes


def arrays(bits=12, seed=0, nq=20, n=300, classes=3):
    rng = np.random.default_rng([seed, bits])
    labels = rng.integers(0, classes, nq + n)
    codes = rng.integers(0, 2, (classes, bits))[labels] ^ (rng.random((nq + n, bits)) < 0.1)
    codes = np.packbits(codes.astype(bool), axis=1, bitorder="little")
    return {
        "query_codes": codes[:nq],
        "query_labels": labels[:nq],
        "database_codes": codes[nq:],
        "database_labels": labels[nq:],
        "bits": bits,
    }


@pytest.fixture
def codes(tmp_path):
    """Writes arrays as an .npz file. `changes` replaces arrays, and None removes one."""

    def write(name="codes.npz", bits=12, **changes):
        content = {k: v for k, v in {**arrays(bits), **changes}.items() if v is not None}
        np.savez(tmp_path / name, **content)
        return str(tmp_path / name)

    return write


def expected(bits=12, **options):
    return ih.evaluate(*(v for k, v in arrays(bits).items() if k != "bits"), bits=bits, **options)


def test_eval_prints_two_files_side_by_side(codes, commands):
    names = ["--name", "IDCWH 12", "--name", "IDCWH 24"]
    out, _ = commands(main, "--codes", codes(), "--codes", codes("long.npz", bits=24), *names)
    short, long = expected(12), expected(24)
    lines = {line[:38].strip(): line.split()[-2:] for line in out.splitlines()[1:]}
    assert out.splitlines()[0].split() == ["IDCWH", "12", "IDCWH", "24"]
    assert lines["bits"] == ["12", "24"]
    for label, value in (
        ("MAP (tie-aware)", lambda e: e.map),
        ("optimistic - pessimistic", lambda e: e.spread),
        ("ranked, ties by id", lambda e: e.map_ranked),
        ("MAP@100, by hits in the top K", lambda e: e.map_at[100].retrieved),
        ("P@H<=2", lambda e: e.precision_within),
        ("within-class distance d_w", lambda e: e.health.d_w),
    ):
        digits = 2 if "distance" in label else 4
        assert lines[label] == [f"{value(e):.{digits}f}" for e in (short, long)]
    assert "MAP@1000" not in out  # the database has 300


def test_eval_json_equals_evaluate(codes, commands):
    path = codes()
    out, err = commands(main, "--codes", path, "--json", "--top", "7", "50", "--radius", "1")
    content = json.loads(out)
    assert err == ""
    assert set(content) == {"data", "protocol", "skipped", "left_out", "evaluations", "plots"}
    assert (content["data"], content["protocol"], content["skipped"], content["plots"]) == (None, None, [], [])
    (entry,) = content["evaluations"]
    assert (entry.pop("name"), entry.pop("codes")) == ("codes.npz", path)
    assert entry == expected(at=(7, 50), radius=1).to_dict()


def test_eval_columns_are_named_by_the_end_of_paths(codes, tmp_path, commands):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    out, _ = commands(main, "--codes", codes("a/x.npz"), "--codes", codes("b/x.npz"), "--json")
    assert [e["name"] for e in json.loads(out)["evaluations"]] == ["a/x.npz", "b/x.npz"]


def test_eval_counts_queries_without_relevant_items(codes, commands):
    labels = np.eye(3, dtype=bool)
    a = arrays()
    queries = labels[a["query_labels"]]
    queries[:4] = False
    path = codes(query_labels=queries, database_labels=labels[a["database_labels"]])
    out, _ = commands(main, "--codes", path)
    assert [line.split()[-1] for line in out.splitlines() if "without a relevant" in line] == ["4"]


def test_eval_leave_one_out_of_codes_needs_no_queries(codes, commands):
    path = codes(query_codes=None, query_labels=None)
    (entry,) = commands.json(main, "--codes", path, "--leave-one-out", "--top", "7")["evaluations"]
    a = arrays()
    r = ih.evaluate(a["database_codes"], a["database_labels"], bits=12, at=(7,), leave_one_out=True)
    assert {name: entry[name] for name in r.to_dict()} == r.to_dict()
    assert "without the query itself" in commands(main, "--codes", path, "--leave-one-out").out


@pytest.mark.slow
def test_eval_plots_are_images(codes, tmp_path, commands):
    folder = tmp_path / "new" / "plots"
    out, _ = commands(main, "--codes", codes(), "--codes", codes("b.npz", bits=24), "--plots", folder, "--json")
    written = json.loads(out)["plots"]
    assert sorted(written) == sorted(str(p) for p in folder.iterdir()) and len(written) == 5
    for path in written:
        with Image.open(path) as image:
            image.load()
            assert image.format == "PNG" and min(image.size) >= 300
            grey = np.asarray(image.convert("L"))
            assert grey.std() > 10 and (grey < 100).mean() > 0.001  # dark lines on white


def test_eval_plots_collapsed_codes_and_one_class(codes, tmp_path, commands):
    a = arrays()
    same = {k: np.zeros_like(v) for k, v in a.items() if k != "bits"}
    _, err = commands(main, "--codes", codes(**same), "--plots", tmp_path / "p")
    assert "warning: codes.npz: " in err
    assert len(list((tmp_path / "p").iterdir())) == 5


def test_eval_without_matplotlib_names_the_extra(codes, tmp_path, commands, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    line = commands.fails(main, "--codes", codes(), "--plots", tmp_path / "p")
    assert "idcwh[bench]" in line and not (tmp_path / "p").exists()
    commands(main, "--codes", codes())


def test_eval_wrong_usage_names_the_option(codes, commands):
    path = codes()
    model = ["--model", "m.onnx"]
    for argv, option in (
        ([], "--model"),
        (["--codes", path, "--top", "0"], "--top"),
        (["--codes", path, "--radius", "-1"], "--radius"),
        (["--codes", path, "--radius", "24.5"], "--radius"),
        (["--codes", path, "--name", "a", "--name", "b"], "--name"),
        (["--codes", path, "--codes", path, "--name", "a", "--name", "a"], "--name"),
        (["--codes", path, "--codes", path], path),
        (["--codes", path, "--data", "x"], "--data"),
        (["--codes", path, "--save-codes", "x.npz"], "--save-codes"),
        (model, "--data"),
        ([*model, "--data", "x", "--protocol", "nonsense"], "nonsense"),
        ([*model, "--data", "x", "--query", "2", "--query-per-class", "2"], "--query-per-class: "),
        ([*model, "--data", "x", "--protocol", "coco", "--query-per-class", "2"], "--query-per-class: "),
    ):
        assert option in commands.fails(main, *argv, status=2), argv


def test_eval_errors_name_the_file_of_codes(codes, tmp_path, commands):
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "padding.npz", **{**arrays(16), "bits": 11})
    for path in (tmp_path / "none.npz", tmp_path / "text.npz", tmp_path / "padding.npz", tmp_path):
        assert commands.fails(main, "--codes", path).startswith(f"error: {path}: ")


def test_eval_plots_in_a_file_fails(codes, tmp_path, commands):
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in commands.fails(main, "--codes", codes(), "--plots", file)
    assert str(file) in commands.fails(main, "--codes", codes(), "--plots", file / "sub")


# ------------------------------------------------------------------------------------------- models on a protocol


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model.onnx without a network: logits are an affine function of the mean colour."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper, numpy_helper

    from idcwh_search.encoder.metadata import ModelInfo
    from idcwh_search.images.preprocess import Preprocess

    constants = {
        "weights": WEIGHTS,
        "bias": BIAS,
        "zero": np.float32(0),
        "powers": (2.0 ** np.arange(8)).astype(np.float32)[:, None],
        "middle": np.array([1, 2], np.int64),
    }
    nodes = [
        helper.make_node("Cast", ["image"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels", "middle"], ["colour"], keepdims=0),
        helper.make_node("MatMul", ["colour", "weights"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["logits"]),
        helper.make_node("GreaterOrEqual", ["logits", "zero"], ["bits"]),
        helper.make_node("Cast", ["bits"], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["ones", "powers"], ["bytes"]),
        helper.make_node("Cast", ["bytes"], ["codes"], to=TensorProto.UINT8),
    ]
    graph = helper.make_graph(
        nodes,
        "colour",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", SIDE, SIDE, 3])],
        [
            helper.make_tensor_value_info("codes", TensorProto.UINT8, ["n", 1]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", BITS]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    info = ModelInfo(BITS, Preprocess(resize=SIDE, crop=SIDE), list(CLASSES), {}, {}, "")
    helper.set_model_props(content, info.to_metadata())
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(content, path)
    return path


@pytest.fixture
def images(tmp_path):
    """A folder of images of one colour, 12 per class and near the colour of the class, and the colour of each image."""
    rng = np.random.default_rng(1)
    folder, colours = tmp_path / "images", {}
    for c, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for i in range(12):
            colour = np.clip(rng.normal(0, 45, 3) + 190 * np.eye(3)[2 - c] + 30, 0, 255).astype(np.uint8)
            Image.new("RGB", (13, 9), tuple(colour.tolist())).save(folder / name / f"{i:02d}.png")
            colours[f"{name}/{i:02d}.png"] = colour
    return folder, colours


def numpy_codes(colours, keys):
    logits = np.array([colours[key] for key in keys], np.float32) @ WEIGHTS + BIAS
    return np.packbits(logits >= 0, axis=1, bitorder="little")


def split_of(folder, seed=0, **options):
    from idcwh_search import datasets
    from idcwh_search.splits import protocols

    dataset = datasets.load(str(folder))
    return dataset, protocols.split(dataset, protocols.SplitOptions("per-class", **options), seed=seed)


def test_eval_of_a_model_on_a_folder_equals_numpy(model, images, commands):
    folder, colours = images
    out, err = commands(main, "--model", model, "--data", folder, "--query-per-class", "2", "--train-per-class", "3",
                   "--seed", "5", "--json", "--device", "cpu")  # fmt: skip
    dataset, split = split_of(folder, seed=5, query_per_class=2, train_per_class=3)
    assert len(split.query) == 6 and len(split.database) == 30
    query, database = ([dataset.keys[i] for i in rows] for rows in (split.query, split.database))
    r = ih.evaluate(
        numpy_codes(colours, query), dataset.labels[split.query],
        numpy_codes(colours, database), dataset.labels[split.database], bits=BITS, at=(10,),
    )  # fmt: skip
    assert 0.4 < r.map < 1  # in between, so that the comparison is meaningful
    content = json.loads(out)
    (entry,) = content["evaluations"]
    assert {
        k: v for k, v in entry.items() if k not in ("name", "model", "fingerprint", "device", "queries_trained_on")
    } == r.to_dict()
    assert content["protocol"]["training_in_database"] == content["protocol"]["training"] == 9
    assert content["protocol"]["sha256"] == split.sha256()
    assert "on cpu" in err and "36 images" in err


def test_eval_leave_one_out_of_a_model_equals_numpy(model, images, tmp_path, commands):
    folder, colours = images
    saved = tmp_path / "codes.npz"
    given = ("--model", model, "--data", folder, "--device", "cpu", "--leave-one-out", "--top", "10")
    content = commands.json(main, *given, "--save-codes", saved)
    dataset, _ = split_of(folder, query_per_class=2)
    r = ih.evaluate(numpy_codes(colours, dataset.keys), dataset.labels, bits=BITS, at=(10,), leave_one_out=True)
    (entry,) = content["evaluations"]
    assert content["protocol"] is None
    assert {name: entry[name] for name in r.to_dict()} == r.to_dict()
    (again,) = commands.json(main, "--codes", saved, "--leave-one-out", "--top", "10")["evaluations"]
    assert again["map"] == entry["map"]
    out, err = commands(main, *given)
    assert "leave-one-out among 36 images" in out and "protocol" not in err


@pytest.mark.parametrize("option", ["--protocol own", "--query-per-class 2", "--save-protocol split.json"])
def test_eval_leave_one_out_with_a_protocol_is_usage(option, model, images, commands):
    given = ("--model", model, "--data", images[0], "--leave-one-out", *option.split())
    assert option.split()[0] in commands.fails(main, *given, status=2)


def test_eval_of_multi_label_images_and_none(model, images, commands):
    """A manifest of multi-label images. One query and one database image have no label."""
    folder, colours = images
    keys = sorted(colours)
    rng = np.random.default_rng(7)
    labels = [[c for c in "abcd" if rng.random() < 0.5] or ["a"] for _ in keys]
    parts = ["test" if i % 6 == 0 else "train" for i in range(len(keys))]
    labels[0] = labels[1] = []
    rows = [{"path": k, "labels": x, "split": s} for k, x, s in zip(keys, labels, parts, strict=True)]
    manifest = folder / "set.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out, _ = commands(main, "--model", model, "--data", manifest, "--json")

    matrix = np.array([[c in x for c in "abcd"] for x in labels])
    query = np.array(parts) == "test"
    codes = numpy_codes(colours, keys)
    r = ih.evaluate(codes[query], matrix[query], codes[~query], matrix[~query], bits=BITS, at=(10,))
    (entry,) = json.loads(out)["evaluations"]
    assert entry["queries_without_relevant"] == r.queries_without_relevant == 1
    assert {k: entry[k] for k in r.to_dict()} == r.to_dict()


def test_eval_of_saved_codes_and_protocol_is_equal(model, images, tmp_path, commands):
    folder, _ = images
    codes, protocol = tmp_path / "codes.npz", tmp_path / "split.json"
    first, _ = commands(main, "--model", model, "--data", folder, "--query-per-class", "3", "--json",
                   "--save-codes", codes, "--save-protocol", protocol)  # fmt: skip
    again, _ = commands(main, "--codes", codes, "--model", model, "--data", folder, "--protocol", protocol, "--json")
    (a,), b = json.loads(first)["evaluations"], json.loads(again)["evaluations"]
    assert [e["map"] for e in b] == [a["map"]] * 2 and b[0]["health"] == b[1]["health"] == a["health"]
    assert json.loads(again)["protocol"]["sha256"] == json.loads(first)["protocol"]["sha256"]
    assert b[1]["fingerprint"] == a["fingerprint"] and b[0]["codes"] == str(codes)


def test_eval_skips_names_and_counts_unreadable_images(model, images, commands):
    folder, _ = images
    _, split = split_of(folder, query_per_class=2)
    paths = sorted(folder.rglob("*.png"))
    (paths[split.query[0]]).write_text("no image")
    (paths[split.database[0]]).write_bytes(b"")
    (paths[split.database[1]]).write_bytes(paths[split.database[1]].read_bytes()[:40])
    bad = {p.relative_to(folder).as_posix() for p in (paths[split.query[0]], *(paths[i] for i in split.database[:2]))}
    twice = ["--model", model, "--model", model, "--name", "a", "--name", "b"]
    argv = [*twice, "--data", folder, "--query-per-class", "2"]
    out, err = commands(main, *argv, "--json", status=3)
    content = json.loads(out)
    assert {s["key"] for s in content["skipped"]} == bad and all(s["reason"] for s in content["skipped"])
    assert [(e["queries"], e["database"]) for e in content["evaluations"]] == [(5, 28), (5, 28)]
    assert all(err.count(f"skipped {key}: ") == 1 for key in bad)
    out, _ = commands(main, *argv, status=3)
    assert "3 images could not be read" in out and "of which 30 are also training" in out


def test_eval_errors_name_the_model_or_the_data(model, images, tmp_path, commands):
    folder, _ = images
    argv = ["--data", folder, "--query-per-class", "2"]
    text = tmp_path / "text.onnx"
    text.write_text("hello")
    (tmp_path / "empty").mkdir()
    saved = tmp_path / "split.json"
    commands(main, "--model", model, *argv, "--save-protocol", saved)
    (folder / "red" / "new.png").write_bytes((folder / "red" / "00.png").read_bytes())
    for wrong, named in (
        (["--model", tmp_path / "none.onnx", *argv], tmp_path / "none.onnx"),
        (["--model", model, "--model", text, *argv], text),
        (["--model", model, "--data", tmp_path / "nowhere"], tmp_path / "nowhere"),
        (["--model", model, "--data", tmp_path / "empty"], tmp_path / "empty"),
        (["--model", model, "--data", folder, "--query-per-class", "99"], 99),
        (["--model", model, "--data", folder, "--protocol", "cifar10-mini"], "cifar10-mini"),
        (["--model", model, "--data", folder, "--protocol", saved], saved),
        (["--model", model, *argv, "--save-codes", tmp_path / "no" / "x.npz"], tmp_path / "no" / "x.npz"),
        (["--model", model, *argv, "--device", "cuda"], "cuda"),
    ):
        if wrong[-1] == "cuda" and has_gpu():
            continue
        assert str(named) in commands.fails(main, *wrong), wrong
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "images", "split.json", "text.onnx"]


def test_eval_without_queries_is_wrong_usage(model, images, tmp_path, commands):
    folder, _ = images
    data = ["--model", model, "--data", folder]
    assert "--query-per-class" in commands.fails(main, *data, "--query-per-class", "0", status=2)


def trained_on(model, target, folder, per_class):
    """Returns the model with a record of the training images of a split of a folder."""
    dataset, split = split_of(folder, query_per_class=per_class)
    recorded = training_images.record(dataset, split.train)
    lines = {"idcwh_training_images": json.dumps(recorded)}
    target.write_bytes(model_file.with_metadata(model.read_bytes(), lines))
    return target, set(split.train.tolist())


def test_eval_on_training_images_warns_with_counts(model, images, tmp_path, commands):
    folder, _ = images
    path, trained = trained_on(model, tmp_path / "trained.onnx", folder, 2)
    _, err = commands(main, "--model", path, "--data", folder, "--query-per-class", "2")
    assert "warning" not in err and "training image" not in err
    out, err = commands(main, "--model", path, "--data", folder, "--query-per-class", "5", "--seed", "1", "--json")
    asked = split_of(folder, query_per_class=5, seed=1)[1].query.tolist()
    seen = len(trained & set(asked))
    assert 0 < seen < len(asked)
    assert "warning" in err and f"{seen} of {len(asked)} queries" in err and f"{len(trained)} training images" in err
    assert json.loads(out)["evaluations"][0]["queries_trained_on"] == seen


def test_eval_reports_unknown_training_images(model, images, tmp_path, commands):
    folder, _ = images
    _, err = commands(main, "--model", model, "--data", folder, "--query-per-class", "2")
    assert "training images" in err
    path, trained = trained_on(model, tmp_path / "trained.onnx", folder, 2)
    for n, file in enumerate(sorted(folder.rglob("*.png"))):
        file.rename(file.with_name(f"renamed{n}.png"))
    _, err = commands(main, "--model", path, "--data", folder, "--query-per-class", "2")
    assert f"none of its {len(trained)} training images" in err


def has_gpu():
    from idcwh_search.encoder import device

    return "cuda" in device.usable()


def test_eval_without_a_readable_query_fails(model, images, commands):
    folder, _ = images
    _, split = split_of(folder, query_per_class=1)
    paths = sorted(folder.rglob("*.png"))
    for i in split.query:
        paths[i].write_text("no image")
    assert "3 query images" in commands.fails(main, "--model", model, "--data", folder, "--query-per-class", "1")


def test_eval_does_not_import_torch(codes):
    program = (
        "import sys; from idcwh_search.cli.evaluate import main; main(sys.argv[1:]); "
        "assert not {'torch', 'onnxruntime', 'matplotlib', 'PIL'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, "--codes", codes()], check=True, capture_output=True)
