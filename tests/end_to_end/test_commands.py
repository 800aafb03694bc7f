"""`idcwh-index` and `idcwh-search` with real files, ONNX Runtime and processes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import evaluate, index, search
from support.commands import IMAGES, Runner, program

Codes = Callable[[list[Path]], np.ndarray]


# building


def test_build_stores_the_codes_of_pillow_and_numpy(database: Path, images: Path, codes_by_hand: Codes) -> None:
    paths = sorted(images.rglob("*.png"), key=lambda p: p.parts)
    with ih.Database.open(database) as db:
        db.verify()
        np.testing.assert_array_equal(db.codes, codes_by_hand(paths))
        assert db.keys() == [str(p.relative_to(images)) for p in paths]
        assert db.labels() == [p.parent.name for p in paths]
        assert db.manifest["model"]["path"] == "model.onnx" and db.manifest["images"]["path"] == "images"


def test_build_names_and_counts_skipped_images(model: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    whole = next((images / "dog").glob("*.png")).read_bytes()
    (images / "cat" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (images / "cat" / "text.jpg").write_text("no image")
    (images / "cat" / "empty.png").touch()
    out, err = commands.build(model, images, tmp_path / "c.bin", "--json", status=3)
    summary = json.loads(out)
    assert summary["images"] == 6
    assert {Path(s["path"]).name for s in summary["skipped"]} == {"cut.png", "text.jpg", "empty.png"}
    assert all(name in err for name in ("cut.png", "text.jpg", "empty.png")) and "3 skipped" in err
    assert len(ih.Database.open(tmp_path / "c.bin")) == 6


def test_build_from_list_stdin_and_manifest_are_equal(
    model: Path, images: Path, tmp_path: Path, commands: Runner
) -> None:
    names = [str(p.relative_to(tmp_path)) for p in sorted(images.rglob("*.png"))][::-1]
    (tmp_path / "list.txt").write_text("\n".join(names))
    (tmp_path / "set.csv").write_text("path,label\n" + "\n".join(f"{name},{name[-5]}" for name in names))
    commands.build(model, tmp_path / "list.txt", tmp_path / "list.bin")
    commands.build(model, tmp_path / "set.csv", tmp_path / "set.bin")
    piped = subprocess.run(
        [*program("idcwh-index"), "build", "--model", model, "--images", "-", "--db", "stdin.bin"],
        input="\n".join(names), text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert piped.returncode == 0
    opened = {name: ih.Database.open(tmp_path / f"{name}.bin") for name in ("list", "set", "stdin")}
    assert opened["list"].keys() == opened["stdin"].keys() == opened["set"].keys() == names
    assert opened["list"].labels() == [None] * 6 and opened["set"].labels() == [name[-5] for name in names]
    np.testing.assert_array_equal(opened["list"].codes, opened["set"].codes)


def test_build_errors_name_the_path_and_write_nothing(
    model: Path, images: Path, tmp_path: Path, database: Path, commands: Runner
) -> None:
    (empty := tmp_path / "empty").mkdir()
    (unreadable := tmp_path / "unreadable").mkdir()
    (bad := unreadable / "x.png").touch()
    before = sorted(p.name for p in tmp_path.iterdir())
    db = tmp_path / "new.bin"
    for model_file, folder, target, *more, named in (
        (model, empty, db, empty),
        (model, tmp_path / "missing", db, tmp_path / "missing"),
        (model, unreadable, db, "--images"),
        (model, images, tmp_path / "no" / "c.bin", tmp_path / "no"),
        (model, images, tmp_path, tmp_path),
        (bad, images, db, bad),
        (model, images, db, "--device", "cuda", "cuda"),
    ):
        arguments = ("build", "--model", model_file, "--images", folder, "--db", target, *more)
        assert str(named) in commands.fails(index.main, *arguments), named
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_build_without_force_fails_before_the_model_is_read(
    model: Path, images: Path, database: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idcwh_search.encoder.encoder.Encoder", None)
    line = commands.fails(index.main, "build", "--model", model, "--images", images, "--db", database)
    assert str(database) in line and "--force" in line


def test_build_with_force_replaces(model: Path, images: Path, database: Path, commands: Runner) -> None:
    shutil.rmtree(images / "dog")
    commands.build(model, images, database, "--force")
    assert len(ih.Database.open(database)) == 3


def test_info_and_verify_print_items_and_labels(database: Path, commands: Runner) -> None:
    out = commands.json(index.main, "info", database)
    assert (out["items"], out["bits"], out["labels"]) == (6, 20, ["cat", "dog"])
    assert "cat, dog" in commands(index.main, "info", database).out
    assert commands(index.main, "verify", database).out.startswith(f"{database}: ")


# searching


def test_search_finds_the_nearest(database: Path, images: Path, codes_by_hand: Codes, commands: Runner) -> None:
    query = min((IMAGES / "test" / "cat").iterdir())
    paths = sorted(images.rglob("*.png"), key=lambda p: p.parts)
    distances = np.unpackbits(codes_by_hand(paths) ^ codes_by_hand([query]), axis=1).sum(axis=1)
    order = sorted(range(6), key=lambda i: (distances[i], i))
    expected = [(int(distances[i]), i, str(paths[i].relative_to(images)), paths[i].parent.name) for i in order]

    def hits(*more: object) -> list[dict]:
        (answer,) = commands.json(search.main, "--db", database, "--query", query, *more)["queries"]
        return answer["hits"]

    assert [(h["distance"], h["id"], h["key"], h["label"]) for h in hits()] == expected
    assert [h["rank"] for h in hits()] == [1, 2, 3, 4, 5, 6]
    assert len(hits("--top", 2)) == 2
    radius = expected[2][0]
    assert [h["id"] for h in hits("--radius", radius)] == [e[1] for e in expected if e[0] <= radius]
    assert len(hits("--radius", 99, "--top", 4)) == 4

    table = commands(search.main, "--db", database, "--query", query).out.splitlines()
    assert table[0].split() == ["rank", "distance", "key", "label"] and len(table) == 7
    assert table[1].split()[:2] == ["1", str(expected[0][0])] and table[1].endswith(expected[0][3])


def test_search_folder_list_and_codes_are_equal(
    database: Path, images: Path, tmp_path: Path, codes_by_hand: Codes, commands: Runner
) -> None:
    cats = sorted((images / "cat").iterdir(), key=lambda p: p.parts)
    common = ("--db", database)
    several = commands.json(search.main, *common, "--query", *cats[:2], "--query", cats[2])
    folder = commands.json(search.main, *common, "--query", images / "cat")
    assert [q["query"] for q in several["queries"]] == [q["query"] for q in folder["queries"]] == [str(c) for c in cats]
    assert [q["hits"][0]["distance"] for q in folder["queries"]] == [0, 0, 0]
    np.save(tmp_path / "q.npy", codes_by_hand(cats))
    (tmp_path / "model.onnx").unlink()  # codes need no model
    coded = commands.json(search.main, *common, "--query-codes", tmp_path / "q.npy")
    assert [q["hits"] for q in coded["queries"]] == [q["hits"] for q in folder["queries"]]


def test_search_skips_unreadable_queries(database: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    (bad := tmp_path / "bad.png").write_text("no image")
    good = min((images / "dog").iterdir())
    out, err = commands(search.main, "--db", database, "--query", bad, good, "--json", status=3)
    assert [q["query"] for q in json.loads(out)["queries"]] == [str(good)]
    assert json.loads(out)["skipped"][0]["path"] == str(bad) and str(bad) in err
    line = commands.fails(search.main, "--db", database, "--query", bad)
    assert line.startswith(f"error: {bad}: ")
    (tmp_path / "worse.png").touch()
    assert "--query" in commands.fails(search.main, "--db", database, "--query", bad, tmp_path / "worse.png")


def test_search_errors_name_the_path(database: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    query = min((images / "dog").iterdir())
    (tmp_path / "cut.bin").write_bytes(database.read_bytes()[:-1])
    np.save(tmp_path / "wide.npy", np.zeros((1, 8), np.uint8))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    for db, option, value, named in (
        (database, "--query", tmp_path / "nowhere.jpg", tmp_path / "nowhere.jpg"),
        (tmp_path / "nowhere.bin", "--query", query, tmp_path / "nowhere.bin"),
        (tmp_path / "cut.bin", "--query", query, tmp_path / "cut.bin"),
        (database, "--query-codes", tmp_path / "wide.npy", tmp_path / "wide.npy"),
        (database, "--query-codes", tmp_path / "objects.npy", tmp_path / "objects.npy"),
    ):
        line = commands.fails(search.main, "--db", db, option, value)
        assert str(named) in line and "allow_pickle" not in line
    (tmp_path / "model.onnx").unlink()
    assert "--model" in commands.fails(search.main, "--db", database, "--query", query)


def test_search_with_another_model_names_both(
    database: Path, images: Path, tmp_path: Path, make_model: Callable[..., Path], commands: Runner
) -> None:
    other = make_model(tmp_path / "other.onnx", seed=1)
    line = commands.fails(search.main, "--db", database, "--query", images, "--model", other)
    fingerprints = {ih.Encoder(tmp_path / "model.onnx").fingerprint, ih.Encoder(other).fingerprint}
    assert all(f in line for f in fingerprints) and len(fingerprints) == 2


def test_commands_keep_their_inputs(database: Path, model: Path, images: Path, commands: Runner) -> None:
    query = min((images / "dog").iterdir())
    before = {path: path.read_bytes() for path in (database, model, query)}
    for victim in before:
        arguments = ("--db", database, "--query", query, "--html", victim, "--model", model)
        assert str(victim) in commands.fails(search.main, *arguments)
    build = ("build", "--model", model, "--images", images, "--db", model, "--force")
    assert str(model) in commands.fails(index.main, *build)
    save = ("--model", model, "--data", images, "--save-codes", model)
    assert str(model) in commands.fails(evaluate.main, *save)
    assert {path: path.read_bytes() for path in before} == before


def test_search_checks_its_output_before_the_work(
    database: Path, images: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idcwh_search.cli.search.read_queries", None)
    page = images / "no" / "x.html"
    assert str(page) in commands.fails(search.main, "--db", database, "--query", images, "--html", page)


def test_build_terminated_leaves_nothing(model: Path, tmp_path: Path) -> None:
    for i in range(4):
        (tmp_path / "many").mkdir(exist_ok=True)
        shutil.copytree(IMAGES / "train", tmp_path / "many" / str(i))
    build = [*program("idcwh-index"), "build", "--model", model, "--images", tmp_path / "many"]
    process = subprocess.Popen([*build, "--db", tmp_path / "k.bin"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None and "4,000 images" in process.stderr.readline()
    time.sleep(0.1)
    process.terminate()
    assert process.wait(120) == 143
    assert not (tmp_path / "k.bin").exists() and not list(tmp_path.glob(".*.tmp"))


def test_database_and_model_move_together(database: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    (moved := tmp_path / "elsewhere").mkdir()
    for name in ("codes.bin", "model.onnx", "images"):
        shutil.move(tmp_path / name, moved)
    query = min((moved / "images" / "dog").iterdir())
    (answer,) = commands.json(search.main, "--db", moved / "codes.bin", "--query", query)["queries"]
    assert answer["hits"][0]["distance"] == 0


def test_html_page_holds_its_images(database: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    page = tmp_path / "hits.html"
    commands(search.main, "--db", database, "--query", images, "--html", page)
    text = page.read_text()
    assert text.count('class="query"') == 6 and text.count("data:image/jpeg;base64,") == 6  # each image once
    assert "http" not in text and "<script" not in text and "Käthe 日本.png" in text
    assert 'class="hit same"' in text and 'class="hit other"' in text
    (images / "dog").rename(tmp_path / "gone")
    commands(search.main, "--db", database, "--query", images / "cat", "--html", page)
    assert page.read_text().count("no image") == 9


def test_names_not_utf8_or_with_markup_are_kept(model: Path, tmp_path: Path, commands: Runner) -> None:
    (folder := tmp_path / "odd").mkdir()
    source = min((IMAGES / "test" / "dog").iterdir())
    names = {b"caf\xe9.png", b'<b>&".png', b"two\nlines.png"}
    for name in names:
        shutil.copy(source, os.path.join(os.fsencode(folder), name))  # noqa: PTH118
    commands.build(model, folder, tmp_path / "odd.bin")
    page = tmp_path / "odd.html"
    (answer,) = commands.json(search.main, "--db", tmp_path / "odd.bin", "--query", source, "--html", page)["queries"]
    assert {os.fsencode(hit["key"]) for hit in answer["hits"]} == names
    text = page.read_text(encoding="utf-8")
    assert '<b>&"' not in text and "&lt;b&gt;&amp;&quot;.png" in text
    search_it = [*program("idcwh-search"), "--db", tmp_path / "odd.bin", "--query", source]
    shown = subprocess.run(search_it, capture_output=True, check=True)
    assert b"caf\xe9.png" in shown.stdout and len(shown.stdout.splitlines()) == 4


def test_search_does_not_import_torch(database: Path, images: Path) -> None:
    script = (
        "import sys; from idcwh_search.cli import evaluate, index, search\n"
        "db, images = sys.argv[1:]\n"
        "assert search.main(['--db', db, '--query', images, '--html', db + '.html']) == 0\n"
        "assert 'onnxruntime' in sys.modules and not {'torch', 'torchvision', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, database, images], check=True, stdout=subprocess.DEVNULL)


def test_search_into_a_closed_pipe_succeeds(database: Path, images: Path) -> None:
    run = subprocess.run(
        f"{shlex.join(program('idcwh-search'))} --db {database} --query {images} | true; echo ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == "0" and "Traceback" not in run.stderr


@pytest.mark.parametrize("main", [search.main, index.main, evaluate.main])
def test_help_has_examples_and_version(main: Callable[[list[str]], int], commands: Runner) -> None:
    assert "examples:" in commands(main, "--help").out
    assert ih.__version__ in commands(main, "--version").out


def test_index_help_has_examples_that_parse(commands: Runner) -> None:
    names = ["build", "add", "remove", "merge", "compact", "info", "verify", "export", "import"]
    for command in ([], *([name] for name in names)):
        _, _, epilog = commands(index.main, *command, "--help").out.partition("\nexamples:\n")
        examples = [line for line in epilog.split("\n\n")[0].splitlines() if line]
        assert examples
        for line in examples:
            words = shlex.split(line.split("| ")[-1].split("  (")[0])
            assert words[0] == "idcwh-index" and words[1:2] == (command or words[1:2])
            index.parser().parse_args(words[1:])
