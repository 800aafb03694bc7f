"""idcwh-index and idcwh-search, run as a user runs them: real files, real ONNX Runtime, real processes."""

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

PICTURES = Path(__file__).resolve().parents[2] / "demo" / "cifar10"
Codes = Callable[[list[Path]], np.ndarray]


def program(module: str) -> list[str]:
    """A command in a process of its own, whether or not its script is on the PATH."""
    return [sys.executable, "-c", f"from idcwh_search.cli.{module} import main; raise SystemExit(main())"]


def build(model: Path, images: Path | str, db: Path, *more: str) -> int:
    return index.main(["build", "--model", str(model), "--images", str(images), "--db", str(db), *more])


def found(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    capsys.readouterr()
    assert search.main([str(a) for a in arguments] + ["--json"]) == 0
    return json.loads(capsys.readouterr().out)


def failure(capsys: pytest.CaptureFixture[str], command: Callable[[list[str]], int], *arguments: object) -> str:
    """The one line on stderr of a command that fails."""
    capsys.readouterr()
    assert command([str(a) for a in arguments]) == 1
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("skipped ")]
    assert out == "" and len(lines) >= 1 and lines[-1].startswith("error: ") and "Traceback" not in err
    return lines[-1]


# building


def test_build_stores_what_pillow_and_numpy_compute(database: Path, pictures: Path, codes_by_hand: Codes) -> None:
    paths = sorted(pictures.rglob("*.png"), key=lambda p: p.parts)
    with ih.Database.open(database) as db:
        db.verify()
        np.testing.assert_array_equal(db.codes, codes_by_hand(paths))
        assert db.keys() == [str(p.relative_to(pictures)) for p in paths]
        assert db.labels() == [p.parent.name for p in paths]
        assert db.manifest["model"]["path"] == "model.onnx" and db.manifest["images"]["path"] == "pictures"


def test_build_skips_bad_files_and_says_so(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (pictures / "dog").glob("*.png").__next__().read_bytes()
    (pictures / "cat" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (pictures / "cat" / "text.jpg").write_text("no picture")
    (pictures / "cat" / "empty.png").touch()
    assert build(model, pictures, tmp_path / "c.bin", "--json") == 3
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["images"] == 6 and {Path(s["path"]).name for s in summary["skipped"]} == {
        "cut.png",
        "text.jpg",
        "empty.png",
    }
    assert all(name in err for name in ("cut.png", "text.jpg", "empty.png")) and "3 skipped" in err
    assert len(ih.Database.open(tmp_path / "c.bin")) == 6


def test_build_from_a_list_from_stdin_and_from_a_manifest(
    model: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(p.relative_to(tmp_path)) for p in sorted(pictures.rglob("*.png"))][::-1]
    (tmp_path / "list.txt").write_text("\n".join(names))
    (tmp_path / "set.csv").write_text("path,label\n" + "\n".join(f"{name},{name[-5]}" for name in names))
    assert build(model, tmp_path / "list.txt", tmp_path / "list.bin") == 0
    assert build(model, tmp_path / "set.csv", tmp_path / "set.bin") == 0
    piped = subprocess.run(
        [*program("index"), "build", "--model", model, "--images", "-", "--db", "stdin.bin"],
        input="\n".join(names), text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert piped.returncode == 0
    opened = {name: ih.Database.open(tmp_path / f"{name}.bin") for name in ("list", "set", "stdin")}
    assert opened["list"].keys() == opened["stdin"].keys() == opened["set"].keys() == names
    assert opened["list"].labels() == [None] * 6 and opened["set"].labels() == [name[-5] for name in names]
    np.testing.assert_array_equal(opened["list"].codes, opened["set"].codes)


def test_build_refuses(
    model: Path, pictures: Path, tmp_path: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(p.name for p in tmp_path.iterdir())
    (empty := tmp_path / "empty").mkdir()
    db = tmp_path / "new.bin"
    common = ["build", "--model", model, "--db"]
    assert "no images" in failure(capsys, index.main, *common, db, "--images", empty)
    assert "not found" in failure(capsys, index.main, *common, db, "--images", tmp_path / "missing")
    with pytest.MonkeyPatch.context() as patch:  # at once: no model is loaded first
        patch.setattr("idcwh_search.encoder.encoder.Encoder", None)
        assert "--force" in failure(capsys, index.main, *common, database, "--images", pictures)
    assert "No such file" in failure(capsys, index.main, *common, tmp_path / "no" / "c.bin", "--images", pictures)
    assert "directory" in failure(capsys, index.main, *common, tmp_path, "--images", pictures)
    bad = tmp_path / "empty" / "x.png"
    bad.touch()
    assert "none of 1 image" in failure(capsys, index.main, *common, db, "--images", empty)
    assert str(bad) in failure(capsys, index.main, "build", "--model", bad, "--db", db, "--images", pictures)
    assert "cuda" in failure(capsys, index.main, *common, db, "--images", pictures, "--device", "cuda")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*before, "empty"])


def test_force_replaces(model: Path, pictures: Path, database: Path) -> None:
    shutil.rmtree(pictures / "dog")
    assert build(model, pictures, database, "--force") == 0
    assert len(ih.Database.open(database)) == 3


def test_info_and_verify(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert index.main(["info", str(database), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["items"], out["bits"], out["labels"]) == (6, 20, ["cat", "dog"])
    assert index.main(["info", str(database)]) == 0 and "cat, dog" in capsys.readouterr().out
    assert index.main(["verify", str(database)]) == 0 and "good (6 items)" in capsys.readouterr().out
    content = bytearray(database.read_bytes())
    content[content.index(ih.Database.open(database).codes.tobytes())] ^= 1
    database.write_bytes(content)
    assert str(database) in failure(capsys, index.main, "verify", database)


# searching


def test_search_finds_the_nearest(
    database: Path, pictures: Path, codes_by_hand: Codes, capsys: pytest.CaptureFixture[str]
) -> None:
    query = min((PICTURES / "test" / "cat").iterdir())
    paths = sorted(pictures.rglob("*.png"), key=lambda p: p.parts)
    distances = np.unpackbits(codes_by_hand(paths) ^ codes_by_hand([query]), axis=1).sum(axis=1)
    order = sorted(range(6), key=lambda i: (distances[i], i))
    expected = [(int(distances[i]), i, str(paths[i].relative_to(pictures)), paths[i].parent.name) for i in order]

    result = found(capsys, "--db", database, "--query", query)
    hits = [(h["distance"], h["id"], h["key"], h["label"]) for h in result["queries"][0]["hits"]]
    assert hits == expected and [h["rank"] for h in result["queries"][0]["hits"]] == [1, 2, 3, 4, 5, 6]
    assert len(found(capsys, "--db", database, "--query", query, "--top", 2)["queries"][0]["hits"]) == 2
    radius = expected[2][0]
    within = found(capsys, "--db", database, "--query", query, "--radius", radius)["queries"][0]["hits"]
    assert [h["id"] for h in within] == [e[1] for e in expected if e[0] <= radius]
    assert len(found(capsys, "--db", database, "--query", query, "--radius", 99, "--top", 4)["queries"][0]["hits"]) == 4

    assert search.main(["--db", str(database), "--query", str(query)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["rank", "distance", "key", "label"] and len(table) == 7
    assert table[1].split()[:2] == ["1", str(expected[0][0])] and table[1].endswith(expected[0][3])


def test_several_queries_a_folder_and_codes(
    database: Path, pictures: Path, tmp_path: Path, codes_by_hand: Codes, capsys: pytest.CaptureFixture[str]
) -> None:
    cats = sorted((pictures / "cat").iterdir(), key=lambda p: p.parts)
    several = found(capsys, "--db", database, "--query", *cats[:2], "--query", cats[2])
    folder = found(capsys, "--db", database, "--query", pictures / "cat")
    assert [q["query"] for q in several["queries"]] == [q["query"] for q in folder["queries"]] == [str(c) for c in cats]
    assert [q["hits"][0]["distance"] for q in folder["queries"]] == [0, 0, 0]
    np.save(tmp_path / "q.npy", codes_by_hand(cats))
    (tmp_path / "model.onnx").unlink()  # codes need no model
    coded = found(capsys, "--db", database, "--query-codes", tmp_path / "q.npy")
    assert [q["hits"] for q in coded["queries"]] == [q["hits"] for q in folder["queries"]]


def test_a_query_that_cannot_be_read_is_skipped(
    database: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.png").write_text("no picture")
    good = min((pictures / "dog").iterdir())
    assert search.main(["--db", str(database), "--query", str(tmp_path / "bad.png"), str(good), "--json"]) == 3
    out, err = capsys.readouterr()
    assert [q["query"] for q in json.loads(out)["queries"]] == [str(good)]
    assert json.loads(out)["skipped"][0]["path"] == str(tmp_path / "bad.png") and "bad.png" in err
    message = failure(capsys, search.main, "--db", database, "--query", tmp_path / "bad.png")
    assert message == f"error: {tmp_path / 'bad.png'}: not an image, or of a kind that is not decoded"
    (tmp_path / "worse.png").touch()
    bad = (tmp_path / "bad.png", tmp_path / "worse.png")
    assert "none of the 2 query images" in failure(capsys, search.main, "--db", database, "--query", *bad)


def test_search_refuses(
    database: Path, pictures: Path, tmp_path: Path, make_model: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    query = min((pictures / "dog").iterdir())
    other = make_model(tmp_path / "other.onnx", seed=1)
    message = failure(capsys, search.main, "--db", database, "--query", query, "--model", other)
    fingerprints = {ih.Encoder(tmp_path / "model.onnx").fingerprint, ih.Encoder(other).fingerprint}
    assert all(f in message for f in fingerprints) and len(fingerprints) == 2
    assert "not found" in failure(capsys, search.main, "--db", database, "--query", tmp_path / "nowhere.jpg")
    assert "No such file" in failure(capsys, search.main, "--db", tmp_path / "nowhere.bin", "--query", query)
    (tmp_path / "cut.bin").write_bytes(database.read_bytes()[:-1])
    assert "cut.bin" in failure(capsys, search.main, "--db", tmp_path / "cut.bin", "--query", query)
    np.save(tmp_path / "wide.npy", np.zeros((1, 8), np.uint8))
    assert "(1, 8)" in failure(capsys, search.main, "--db", database, "--query-codes", tmp_path / "wide.npy")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "text.npy").write_text("codes")
    for name, problem in (("objects", "holds Python objects"), ("text", "is not an array")):
        said = failure(capsys, search.main, "--db", database, "--query-codes", tmp_path / f"{name}.npy")
        assert f"{name}.npy: {problem}" in said and "expected packed codes" in said
        assert "allow_pickle" not in said
    (tmp_path / "model.onnx").unlink()
    assert "--model" in failure(capsys, search.main, "--db", database, "--query", query)
    for wrong in (["--top", "0"], ["--radius", "-1"], ["--top", "x"]):
        with pytest.raises(SystemExit) as stopped:
            search.main(["--db", str(database), "--query", str(query), *wrong])
        assert stopped.value.code == 2 and "expected a whole number" in capsys.readouterr().err


def test_no_command_overwrites_its_own_input(
    database: Path, model: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = min((pictures / "dog").iterdir())
    before = {path: path.read_bytes() for path in (database, model, query)}
    for victim in before:
        assert "input" in failure(
            capsys, search.main, "--db", database, "--query", query, "--html", victim, "--model", model
        )
    assert "input" in failure(
        capsys, index.main, "build", "--model", model, "--images", pictures, "--db", model, "--force"
    )
    assert "input" in failure(capsys, evaluate.main, "--model", model, "--data", pictures, "--save-codes", model)
    assert {path: path.read_bytes() for path in before} == before


def test_outputs_are_checked_before_the_work(
    database: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = pictures / "no" / "x.html"
    assert "writable" in failure(capsys, search.main, "--db", database, "--query", pictures, "--html", nowhere)
    assert "directory" in failure(capsys, search.main, "--db", database, "--query", pictures, "--html", "")
    assert search.main(["--db", str(database), "--query-codes", ""]) == 1


def test_a_killed_build_leaves_nothing(model: Path, tmp_path: Path) -> None:
    for i in range(4):
        (tmp_path / "many").mkdir(exist_ok=True)
        shutil.copytree(PICTURES / "train", tmp_path / "many" / str(i))
    command = [*program("index"), "build", "--model", model, "--images", tmp_path / "many", "--db", tmp_path / "k.bin"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None and "4,000 images" in process.stderr.readline()
    time.sleep(0.1)
    process.terminate()
    assert process.wait(20) == 143
    assert not (tmp_path / "k.bin").exists() and not list(tmp_path.glob(".*.tmp"))


def test_database_and_model_move_together(
    database: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (moved := tmp_path / "elsewhere").mkdir()
    for name in ("codes.bin", "model.onnx", "pictures"):
        shutil.move(tmp_path / name, moved)
    query = min((moved / "pictures" / "dog").iterdir())
    assert found(capsys, "--db", moved / "codes.bin", "--query", query)["queries"][0]["hits"][0]["distance"] == 0


def test_the_page_holds_everything(database: Path, pictures: Path, tmp_path: Path) -> None:
    page = tmp_path / "hits.html"
    assert search.main(["--db", str(database), "--query", str(pictures), "--html", str(page)]) == 0
    text = page.read_text()
    assert text.count('class="query"') == 6 and text.count("data:image/jpeg;base64,") == 6  # each picture once
    assert "http" not in text and "<script" not in text and "Käthe 日本.png" in text
    assert 'class="hit same"' in text and 'class="hit other"' in text
    (pictures / "dog").rename(tmp_path / "gone")
    assert search.main(["--db", str(database), "--query", str(pictures / "cat"), "--html", str(page)]) == 0
    assert page.read_text().count("no picture") == 9
    capable = [str(database), "--query", str(pictures), "--html", str(tmp_path / "no" / "hits.html")]
    assert search.main(["--db", *capable]) == 1


def test_names_that_are_no_text_or_hold_markup(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder := tmp_path / "odd").mkdir()
    source = min((PICTURES / "test" / "dog").iterdir())
    for name in (b"caf\xe9.png", b'<b>&".png', b"two\nlines.png"):
        shutil.copy(source, os.path.join(os.fsencode(folder), name))  # noqa: PTH118
    assert build(model, folder, tmp_path / "odd.bin") == 0
    page = tmp_path / "odd.html"
    hits = found(capsys, "--db", tmp_path / "odd.bin", "--query", source, "--html", page)["queries"][0]["hits"]
    assert {os.fsencode(h["key"]) for h in hits} == {b"caf\xe9.png", b'<b>&".png', b"two\nlines.png"}
    assert '<b>&"' not in page.read_text(encoding="utf-8") and "&lt;b&gt;&amp;&quot;.png" in page.read_text(
        encoding="utf-8"
    )
    shown = subprocess.run(
        [*program("search"), "--db", tmp_path / "odd.bin", "--query", source],
        capture_output=True, check=True,
    )  # fmt: skip
    assert b"caf\xe9.png" in shown.stdout and len(shown.stdout.splitlines()) == 4


def test_searching_never_imports_torch(database: Path, pictures: Path) -> None:
    script = (
        "import sys; from idcwh_search.cli import evaluate, index, search\n"
        "db, pictures = sys.argv[1:]\n"
        "assert search.main(['--db', db, '--query', pictures, '--html', db + '.html']) == 0\n"
        "assert 'onnxruntime' in sys.modules and not {'torch', 'torchvision', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, database, pictures], check=True, stdout=subprocess.DEVNULL)


def test_a_closed_pipe_is_no_error(database: Path, pictures: Path) -> None:
    command = shlex.join(program("search"))
    run = subprocess.run(
        f"{command} --db {database} --query {pictures} | true; echo ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == "0" and "Traceback" not in run.stderr


@pytest.mark.parametrize("module", ["search", "index", "evaluate"])
def test_help_has_examples_and_version(module: str) -> None:
    run = program(module)
    text = subprocess.run([*run, "--help"], capture_output=True, text=True, check=True).stdout
    assert (
        "examples" in text
        and ih.__version__ in subprocess.run([*run, "--version"], capture_output=True, text=True, check=True).stdout
    )


def test_index_help_has_examples_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    commands = ["build", "add", "remove", "compact", "info", "verify", "export", "import"]
    for command in ([], *([name] for name in commands)):
        with pytest.raises(SystemExit):
            index.parser().parse_args([*command, "--help"])
        _, _, epilog = capsys.readouterr().out.partition("\nexamples:\n")
        examples = [line for line in epilog.split("\n\n")[0].splitlines() if line]
        assert examples
        for line in examples:
            words = shlex.split(line.split("| ")[-1].split("  (")[0])
            assert words[0] == "idcwh-index" and words[1:2] == (command or words[1:2])
            index.parser().parse_args(words[1:])
