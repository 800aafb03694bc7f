"""The report's pages, figures and means, compared with NumPy, scikit-learn, Pillow and an HTML parser."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from idcwh_reproduce import embedding, experiments, figures, grid, markup, report, tables
from idcwh_reproduce.experiments import Planned, Setup, Variant
from idcwh_reproduce.results import gather
from idcwh_search.codes import pack
from idcwh_search.datasets import LabelledImages
from idcwh_search.metrics.evaluate import evaluate
from idcwh_search.metrics.result import Evaluation
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import SplitOptions
from idcwh_train import recipes

SETUP = Setup("frozen", "timm:tf_efficientnet_lite0", True)


def outputs(bits: int, seed: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns outputs h of ten classes around random corners."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(10), 12)
    corners = np.random.default_rng(bits).choice([-1.0, 1.0], (10, bits))
    return (corners[labels] + rng.normal(0, noise, (len(labels), bits))).astype(np.float32), labels


def make_experiment(
    out: Path, method: str, bits: int, seed: int, noise: float, variant: Variant | None = None, failed: str = "",
    recipe: str = "frozen", protocol: dict[str, Any] | None = None, **more: Any,
) -> Evaluation:  # fmt: skip
    """Writes an experiment's files like a run. protocol: differences from that of cifar10-mini."""
    given = {"backbone": SETUP.backbone, "freeze": True, "method": method, "bits": bits, "seed": seed}
    experiment = Planned(SETUP, method, (bits,), seed, variant, recipes.options(recipe, {**given, **more}))
    h, labels = outputs(bits, seed, noise)
    result = evaluate(pack(h[::3]), labels[::3], pack(h), labels, bits=bits)
    (out / "experiments").mkdir(parents=True, exist_ok=True)
    if seed == 0 and not failed:
        experiments.write_logits(
            out / "experiments", experiment, h=h, labels=labels, classes=np.array([f"class {c}" for c in range(10)])
        )
    content = {
        "status": "failed" if failed else "done", "reason": failed or None, "record": {}, "unreadable": {},
        "evaluations": {} if failed else {str(bits): result.to_dict()},
        "dataset": {"spec": "x", "images": 120, "sha256": "0" * 64},
        "protocol": {"name": "cifar10-mini", "seed": seed, "sizes": tables.TABLES["cifar10-mini"].sizes[0],
                     "sha256": {"query": "0" * 64}, **(protocol or {})},
        "seconds": {"training": 1.5, "total": 2.0}, "resumed": False, "versions": {"torch": "2"},
        "machine": {"cpu": "A <CPU>", "family": "1/2", "cores": 2, "flags": ["avx2"], "gpu": None},
        "revision": None, "command": "idcwh-reproduce cifar10-mini | tee 'a & b'", "finished_at": "",
    }  # fmt: skip
    experiments.write(out / "experiments", experiment, content)
    return result


class Page(HTMLParser):
    """A parser that collects images and fails if an end tag does not match the open tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images.append(dict(attrs)["src"])
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)
        assert not any(name in ("href", "src") and not str(value).startswith("data:") for name, value in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Experiments of two methods, two code lengths and two seeds, of a sweep and of the ablation. One failed."""
    out = tmp_path_factory.mktemp("experiments")
    for seed in (0, 1):
        for bits in (12, 48):
            make_experiment(out, "idcwh", bits, seed, 0.9)
            make_experiment(out, "idcwh-single", bits, seed, 1.1)
            for value in (0.5, 8.0):
                make_experiment(out, "idcwh", bits, seed, 1.0 + value / 20, Variant("sigma2", value))
            make_experiment(out, "idcwh", bits, seed, 1.3, Variant("without", "dropout"))
    make_experiment(out, "dcwh", 12, 0, 1.0)
    make_experiment(out, "dcwh", 12, 1, 1.0, failed="the loss is not <finite>")
    return out


@pytest.mark.slow
def test_report_has_figures_means_and_failures(folder):
    table = tables.TABLES["cifar10-mini"]
    md, page, _ = report.write(folder, table, None)
    text = md.read_text()
    links = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert {link.rsplit("-", 1)[1] for link in links} == {
        "lookup.png", "curves.png", "tsne.png", "sweeps.png", "ablation.png"
    }  # fmt: skip
    parsed = Page()
    parsed.feed(page.read_text())
    assert parsed.open == [] and len(parsed.images) == len(links)
    for link, data in zip(links, parsed.images, strict=True):
        embedded = base64.b64decode(data.removeprefix("data:image/png;base64,"))
        assert embedded == (folder / link).read_bytes()
        with Image.open(io.BytesIO(embedded)) as image:
            pixels = np.asarray(image.convert("L"))
        assert pixels.shape[0] > 300 and pixels.std() > 5
    shown = " ".join(parsed.text)
    assert "the loss is not <finite>" in shown and "A <CPU>" in shown and "tee 'a & b'" in shown

    both = [evaluate_again(folder, "idcwh", 48, seed) for seed in (0, 1)]
    mean, deviation = np.mean([e["map"] for e in both]), np.std([e["map"] for e in both], ddof=1)
    row = next(line for line in text.splitlines() if line.startswith("| IDCWH |"))
    assert f"{mean:.4f} ± {deviation:.4f}" in row
    assert f"paper 0.8586, {mean - 0.8586:+.4f}" in row
    assert f"ties {np.mean([e['map_optimistic'] - e['map_pessimistic'] for e in both]):.4f}" in row
    assert "1 seed, 1 failed" in next(line for line in text.splitlines() if line.startswith("| DCWH |"))
    assert "DPSH | not run" in text

    # only the best of each column is bold
    columns = {}
    for line in text.splitlines():
        if re.match(r"\| \S.* \| .*<sub>ties", line):
            _, *entries = (part.strip() for part in line.strip("| ").split(" | "))
            for column, entry in enumerate(entries):
                if result := re.match(r"(\**)(0\.\d+)", entry):
                    columns.setdefault(column, []).append((float(result[2]), bool(result[1])))
    assert len(columns) == 2
    for values in columns.values():
        assert [value for value, bold in values if bold] == [max(values)[0]]


def test_results_json_has_the_numbers_of_all_experiments(folder):
    numbers = report.write(folder, tables.TABLES["cifar10-mini"], None, figures=False)[2]
    result = json.loads(numbers.read_text())
    assert result["table"] == "cifar10-mini" and len(result["groups"]) == 1
    (group,) = result["groups"]
    assert group["machine"]["cpu"] == "A <CPU>" and group["command"] == "idcwh-reproduce cifar10-mini | tee 'a & b'"
    assert list(group["protocols"]) == ["0", "1"]
    assert len(group["experiments"]) == len(list((folder / "experiments").glob("*.json"))) == 22
    assert numbers.read_text().count("\n") < 22 + 20, "one line per experiment"
    for experiment in group["experiments"]:
        if experiment["method"] == "idcwh-single":
            (bits,) = experiment["numbers"]
            whole = evaluate_again(folder, "idcwh-single", int(bits), experiment["seed"])
            assert (
                experiment["numbers"][bits]["map"] == whole["map"]
                and experiment["numbers"][bits]["health"]["d_w"] == whole["health"]["d_w"]
            )
    failed = [experiment for experiment in group["experiments"] if experiment["status"] == "failed"]
    assert [experiment["reason"] for experiment in failed] == ["the loss is not <finite>"]


def evaluate_again(folder: Path, method: str, bits: int, seed: int) -> dict:
    name = f"{SETUP.slug}--{method}--{bits}bits--seed{seed}.json"
    return json.loads((folder / "experiments" / name).read_text())["evaluations"][str(bits)]


@pytest.mark.parametrize(
    ("of", "name", "reported"),
    [
        ("idcwh--12bits--seed1", "epochs", True),
        ("dcwh--12bits--seed0", "epochs", True),
        ("seed0--sigma2-1", "epochs", True),
        ("seed0--without-lr", "epochs", True),
        ("seed0--without-lr", "lr", False),  # the option that the variant changes
        ("seed0--without-recipe", "lr", True),
        ("*", "epochs", False),  # --set, which applies to all experiments
    ],
)
def test_settings_that_differ_are_reported(of, name, reported, tmp_path):
    def warned() -> bool:
        text = report.write(tmp_path, tables.TABLES["cifar10-mini"], None, figures=False)[0].read_text()
        paragraph = next((line for line in text.splitlines() if line.startswith("**Settings differ")), None)
        assert paragraph is None or f": {name}. " in paragraph
        return paragraph is not None

    for method, seed in (("idcwh", 0), ("idcwh", 1), ("dcwh", 0), ("csq", 0)):  # csq has a learning rate of its own
        make_experiment(tmp_path, method, 12, seed, 1.0)
    for variant in (Variant("sigma2", 1.0), Variant(grid.ABLATION, "lr")):
        make_experiment(tmp_path, "idcwh", 12, 0, 1.0, variant)
    make_experiment(
        tmp_path, "idcwh", 12, 0, 1.0, Variant(grid.ABLATION, grid.WHOLE), recipe="paper", epochs=80, min_steps=2800
    )
    assert not warned()
    for path in (tmp_path / "experiments").glob(f"*{of}.json" if of != "*" else "*.json"):
        content = json.loads(path.read_text())
        content["options"][name] = 3
        content.pop("crc32")
        path.write_text(json.dumps(content))
    assert warned() == reported


def test_difference_is_taken_seed_by_seed(tmp_path):
    """Seeds differ much more than the two rows of a seed."""
    base, row = {}, {}
    for seed, noise in ((0, 0.4), (1, 1.0), (2, 1.8)):
        base[seed] = make_experiment(tmp_path, "idcwh", 12, seed, noise).map
        row[seed] = make_experiment(tmp_path, "idcwh-single", 12, seed, noise + 0.05).map
    (result,) = gather(experiments.read_all(tmp_path / "experiments"))
    difference, deviation = result.runs("idcwh-single", 12).against(result.runs("idcwh", 12))
    pairs = np.array([row[seed] - base[seed] for seed in base])
    np.testing.assert_allclose([difference, deviation], [pairs.mean(), pairs.std(ddof=1)])
    assert deviation < 0.3 * result.runs("idcwh-single", 12).spread()[1]


def test_sweep_shows_the_seeds_that_all_values_have(tmp_path):
    """Three seeds of the table beside one seed of the sweep would distort the line."""
    alone = make_experiment(tmp_path, "idcwh", 12, 0, 0.4).map
    for seed, noise in ((1, 1.0), (2, 1.8)):
        make_experiment(tmp_path, "idcwh", 12, seed, noise)
    swept = {value: make_experiment(tmp_path, "idcwh", 12, 0, 0.3 + value / 10, Variant("sigma2", value)).map
             for value in (2.0, 8.0)}  # fmt: skip
    (result,) = gather(experiments.read_all(tmp_path / "experiments"))
    drawn = figures.sweeps(tables.TABLES["cifar10-mini"], result)
    line = next(line for line in drawn.axes[0].lines if len(line.get_xdata()) == 3)
    assert list(line.get_xdata()) == [2, 7, 8]  # the recipe's own value is 7
    np.testing.assert_allclose(list(line.get_ydata()), [swept[2.0], alone, swept[8.0]])


@pytest.mark.parametrize(
    ("protocol", "named"),
    [
        ({}, None),
        ({"name": "own"}, "own (1,000 queries, 5,000 training, 59,000 database)"),
        (
            {"sizes": {"query": 9, "train": 33, "database": 33}},
            "cifar10-mini (9 queries, 33 training, 33 database)",
        ),
        (  # --set database_without_train=true
            {"sizes": {"query": 1000, "train": 5000, "database": 54_000}},
            "cifar10-mini (1,000 queries, 5,000 training, 54,000 database)",
        ),
    ],
)
def test_other_protocol_is_reported_and_not_compared(protocol, named, tmp_path):
    make_experiment(tmp_path, "idcwh", 12, 0, 1.0)
    make_experiment(tmp_path, "idcwh", 48, 0, 1.0, protocol=protocol)
    text = report.write(tmp_path, tables.TABLES["cifar10-mini"], None, figures=False)[0].read_text()
    row = next(line for line in text.splitlines() if line.startswith("| IDCWH |"))
    assert "paper 0.8586" in row
    assert ("paper 0.8586, +" in row or "paper 0.8586, -" in row) == (named is None)
    warning = next((line for line in text.splitlines() if line.startswith("**Not the table's")), None)
    assert (warning is not None) == (named is not None)
    assert warning is None or (named in warning and "(1,000 queries, 5,000 training, 59,000 database)" in warning)


def sizes_of(made: protocols.Split) -> dict[str, int]:
    return {part: len(getattr(made, part)) for part in ("query", "train", "database")}


def test_table_sizes_are_those_of_the_protocols():
    rng = np.random.default_rng(0)
    for name, table in tables.TABLES.items():
        classes = {"cifar100": 100, "coco": 80}.get(name, 10)
        n = 123_287 if name == "coco" else 60_000
        labels = np.arange(n) % classes
        if name == "coco":
            of_none = rng.permutation(n)[: n - 122_218]
            multi_label = np.zeros((n, classes), bool)
            multi_label[np.arange(n), labels] = True
            multi_label[of_none] = False
            labels = multi_label
        marks = ["test"] * 10_000 + ["train"] * (n - 10_000)
        data = LabelledImages(
            keys=[str(i) for i in range(n)], labels=labels, classes=[f"c{c}" for c in range(classes)],
            images=np.zeros((n, 1, 1, 3), np.uint8), split=marks, spec="x",
        )  # fmt: skip
        result = protocols.split(data, SplitOptions(name))
        assert table.sizes[0] == sizes_of(result)
        if name == "coco":  # exactly as in the paper
            without = protocols.split(data, SplitOptions(name, database_without_train=True))
            assert table.sizes[1:] == (sizes_of(without),)


def row_of(text: str, title: str) -> list[str]:
    """Returns the entries of a row of a table, without the small print."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {title}"))
    return [entry.strip().partition("<br>")[0] for entry in line.strip("| ").split(" | ")][1:]


def test_ablation_of_equal_values_has_the_same(tmp_path):
    """At 12 bits the recipe's sigma2 is 7, the paper's 4. Smoothing differs at every length."""

    def ablation() -> dict[str, list[str]]:
        text = report.write(tmp_path, tables.TABLES["cifar10-mini"], None, figures=False)[0].read_text()
        part = text[text.index("### Ablation") :]
        titles = {"single": "no centers similarity", "sigma2": "the paper's σ²", "smoothing": "no label smoothing",
                  "whole": "all of the paper's settings"}  # fmt: skip
        return {name: row_of(part, title) for name, title in titles.items() if f"| {title}" in part}

    paper = {"sigma2": 4.0}  # set at 24 bits, where it is the paper's value
    for bits, given in ((12, {}), (24, {"method_options": paper}), (48, {})):
        make_experiment(tmp_path, "idcwh", bits, 0, 1.0, **given)
    make_experiment(tmp_path, "idcwh-single", 12, 0, 1.0)
    make_experiment(tmp_path, "idcwh", 12, 0, 1.0, Variant(grid.ABLATION, "sigma2"), method_options=paper)
    make_experiment(
        tmp_path, "idcwh", 12, 0, 1.0, Variant(grid.ABLATION, "smoothing"), method_options={"smoothing": 0.0}
    )
    for bits in (12, 24, 48):
        make_experiment(
            tmp_path,
            "idcwh",
            bits,
            0,
            1.0,
            Variant(grid.ABLATION, grid.WHOLE),
            recipe="paper",
            epochs=80,
            min_steps=2800,
        )
    result = ablation()
    assert result["single"][1:] == ["not run", "not run"]
    assert result["sigma2"][1:] == ["the same", "not run"]
    assert result["smoothing"][1:] == ["not run", "not run"]
    assert all(re.fullmatch(r"0\.\d{4}", entry) for entry in (result["sigma2"][0], *result["whole"]))

    # without the last row, and with a seed of other options
    for path in (tmp_path / "experiments").glob("*without-recipe*"):
        path.unlink()
    assert ablation()["sigma2"][1:] == ["the same", "not run"]
    make_experiment(tmp_path, "idcwh", 24, 1, 1.0)
    assert ablation()["sigma2"][1:] == ["not run", "not run"]

    # an earlier version trained it too, so its number is shown
    next((tmp_path / "experiments").glob("*24bits--seed1.json")).unlink()
    make_experiment(tmp_path, "idcwh", 24, 0, 1.0, Variant(grid.ABLATION, "sigma2"), method_options=paper)
    assert re.fullmatch(r"0\.\d{4}", ablation()["sigma2"][1])


def test_ablation_of_equal_recipes_has_the_same(tmp_path):
    make_experiment(tmp_path, "idcwh", 12, 0, 1.0)
    make_experiment(tmp_path, "idcwh", 48, 0, 1.0, recipe="paper", epochs=80, min_steps=2800)
    make_experiment(tmp_path, "idcwh", 24, 0, 1.0, recipe="paper", epochs=80, min_steps=2800, lr=0.5)
    make_experiment(
        tmp_path, "idcwh", 12, 0, 1.0, Variant(grid.ABLATION, grid.WHOLE), recipe="paper", epochs=80, min_steps=2800
    )
    text = report.write(tmp_path, tables.TABLES["cifar10-mini"], None, figures=False)[0].read_text()
    part = text[text.index("### Ablation") :]
    assert row_of(part, "all of the paper's settings")[1:] == ["not run", "the same"]


def test_evaluation_from_json_is_unchanged():
    h, labels = outputs(12, 0, 1.0)
    result = evaluate(pack(h[::3]), labels[::3], pack(h), labels, bits=12)
    text = json.dumps(result.to_dict(), allow_nan=False)
    again = Evaluation.from_dict(json.loads(text))
    assert json.dumps(again.to_dict(), allow_nan=False) == text
    assert again.spread == result.spread and again.health.d_b == result.health.d_b
    np.testing.assert_array_equal(again.ranking.n, result.ranking.n)
    one = evaluate(np.ones((3, 1), np.uint8), np.zeros(3, int), np.ones((3, 1), np.uint8), np.zeros(3, int), bits=1)
    assert one.to_dict()["health"]["bit_correlation"] is None
    assert np.isnan(Evaluation.from_dict(one.to_dict()).health.bit_correlation)


def test_joint_training_fills_a_column_per_length(tmp_path):
    result = make_experiment(tmp_path, "idcwh", 12, 0, 1.0)
    (path,) = (tmp_path / "experiments").glob("*.json")
    content = json.loads(path.read_text())
    content["bits"] = [12, 24]
    content.pop("crc32")
    h, labels = outputs(24, 0, 1.0)
    longer = evaluate(pack(h[::3]), labels[::3], pack(h), labels, bits=24)
    content["evaluations"]["24"] = {**longer.to_dict(), "map": 0.5}
    path.unlink()
    path.with_name(path.name.replace("12bits", "12+24bits")).write_text(json.dumps(content))
    text = report.write(tmp_path, tables.TABLES["cifar10-mini"], None, figures=False)[0].read_text()
    row = next(line for line in text.splitlines() if line.startswith("| IDCWH |"))
    assert f"| {result.map:.4f}<br>" in row and "| 0.5000<br>" in row


@pytest.mark.parametrize("value", ["<i>a & b</i>", "a|b", "*a* _b_ `c`", "`|`", "[a](b)", "\\*", "a\\", "# a", "&lt;"])
def test_markup_in_foreign_text_is_escaped(value, tmp_path):
    table = markup.table(["n", "v"], [[markup.text(value), markup.code(value)]])
    parsed = Page()
    parsed.feed(markup.page("t", [table, f"x {markup.text(value)}", f"y {markup.code(value)}"], tmp_path))
    assert parsed.open == []
    shown = [text for text in "".join(parsed.text).splitlines() if text.strip()]
    assert shown.count(value) == 2 and f"x {value}" in shown and f"y {value}" in shown


def test_distances_equal_loops_over_pairs():
    h, labels = outputs(16, 3, 0.7)
    d = np.linalg.norm(h.astype(np.float64)[:, None] - h, axis=2)
    within = [d[i, j] for i in range(len(h)) for j in range(i) if labels[i] == labels[j]]
    between = [d[i, j] for i in range(len(h)) for j in range(i) if labels[i] != labels[j]]
    assert figures.distances(h, labels) == pytest.approx((np.mean(within), np.mean(between)))
    assert np.isnan(figures.distances(h[:1], labels[:1])[0])


@pytest.mark.parametrize("constant", [False, True])
def test_embedding_keeps_classes_together(constant):
    from sklearn.neighbors import KNeighborsClassifier

    h, labels = outputs(24, 1, 0.4)
    x = (h >= 0).astype(np.float32)
    if constant:
        assert np.isfinite(figures.embed(np.ones_like(x), "hamming")).all()
        return
    xy = figures.embed(x, "hamming")
    assert xy.shape == (len(h), 2)
    assert KNeighborsClassifier(3).fit(xy[::2], labels[::2]).score(xy[1::2], labels[1::2]) > 0.9
    np.testing.assert_array_equal(figures.embed(x, "hamming"), xy)


def test_pick_returns_few_classes_and_single_labels():
    names = [f"c{i}" for i in range(30)]
    keys = [str(i) for i in range(6000)]
    labels = np.arange(6000) % 30
    images = np.zeros((6000, 1, 1, 3), np.uint8)
    single = LabelledImages(keys=keys, labels=labels, classes=names, images=images, split=[""] * 6000, spec="x")
    rows, result, classes = embedding.pick(single, np.arange(0, 6000, 1))
    assert len(classes) == 10 and len(rows) <= 2000 and len(np.unique(rows)) == len(rows)
    assert [classes[c] for c in result] == [names[labels[r]] for r in rows]
    assert set(np.bincount(result)) == {200}
    multi_label = np.zeros((6000, 30), bool)
    multi_label[np.arange(6000), labels] = True
    multi_label[::2, 0] = True  # images at even positions have two labels, or class 0 alone
    multi = LabelledImages(keys=keys, labels=multi_label, classes=names, images=images, split=[""] * 6000, spec="x")
    rows, result, classes = embedding.pick(multi, np.arange(6000))
    assert multi_label[rows].sum(axis=1).max() == 1 and len(classes) == 10
    assert [classes[c] for c in result] == [names[int(multi_label[r].argmax())] for r in rows]
    rows, result, classes = embedding.pick(multi, np.array([2]))
    assert len(rows) == len(result) == 0
