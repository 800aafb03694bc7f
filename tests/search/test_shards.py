"""Images in tar files, which Python's tarfile and GNU tar write."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idcwh_search.errors import CorruptFileError, IdcwhError, InvalidInputError, NotSupportedError
from idcwh_search.images import tar
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess, load_image
from support.errors import raises

SMALL = Preprocess(20, 16)


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    rng = np.random.default_rng(number)
    Image.fromarray(rng.integers(0, 256, (30, 24 + number, 3), np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def write(path: Path, files: dict[str, bytes], format: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=format) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_image_in_an_archive_equals_the_file(tmp_path, format):
    long = f"{'d' * 90}/{'n' * 60}.png"  # longer than the name field of a header, short enough for ustar's prefix
    files = {"0.png": png(0), "cat/Käthe 日本.png": png(1), long: png(2), "0.cls": b"7", "notes.txt": b"-"}
    archive = write(tmp_path / "a.tar", files, format)
    images = [f"{archive}/{name}" for name in files if name.endswith(".png")]
    assert list_images(archive) == images
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda path: load_image(path, SMALL), images * 20))
    for i, pixels in enumerate(result):
        (tmp_path / "outside.png").write_bytes(png(i % 3))
        np.testing.assert_array_equal(pixels, load_image(tmp_path / "outside.png", SMALL))


def test_archive_of_gnu_tar_lists_its_members(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.jpg").write_bytes(png(i))
    (tmp_path / "link.jpg").symlink_to("0.jpg")
    with (tmp_path / "hole.png").open("wb") as file:
        file.truncate(1 << 20)
    names = ["0.jpg", "1.jpg", "link.jpg", "hole.png"]
    subprocess.run(["tar", "--sparse", "-cf", "b.TAR", *names], cwd=tmp_path, check=True)
    subprocess.run(["tar", "-rf", "b.TAR", "2.jpg"], cwd=tmp_path, check=True)
    assert [Path(path).name for path in list_images(tmp_path / "b.TAR")] == [*names, "2.jpg"]
    with raises(UnreadableImage, path=tmp_path / "b.TAR" / "hole.png", problem="sparse"):
        load_image(tmp_path / "b.TAR" / "hole.png", SMALL)


def test_member_names_are_those_after_unpacking(tmp_path):
    """The oracle is GNU tar, which unpacks each archive."""
    (tmp_path / "in" / "cat").mkdir(parents=True)
    for i, name in enumerate(["0.png", "cat/1.png"]):
        (tmp_path / "in" / name).write_bytes(png(i))
    subprocess.run(["tar", "-cf", "dot.tar", "-C", "in", "."], cwd=tmp_path, check=True)
    write(tmp_path / "odd.tar", {"a//b.png": png(2), "/abs/z.png": png(3), "./x/./y.png": png(4)})
    for name in ("dot", "odd"):
        (tmp_path / name).mkdir()
        subprocess.run(["tar", "-xf", f"{name}.tar", "-C", name], cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
        unpacked = sorted(str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*.png"))
        archive = str(tmp_path / f"{name}.tar")
        assert sorted(list_images(archive)) == [f"{archive}/{member}" for member in unpacked]
        for member in unpacked:
            expected = (tmp_path / name / member).read_bytes()
            for spelling in (member, f"./{member}", f"/{member}"):
                assert tar.read(f"{archive}/{spelling}").read() == expected
                assert tar.stat(f"{archive}/{spelling}") is not None
            assert tar.relative(f"{archive}/./{member}", tmp_path) == f"{name}.tar/{member}"


def test_member_outside_the_archive_is_unreadable(tmp_path):
    archive = write(tmp_path / "a.tar", {"../y.png": png(0), "a/../../z.png": png(1), "a/../b.png": png(2)})
    assert list_images(archive) == [f"{archive}/../y.png", f"{archive}/../z.png", f"{archive}/b.png"]
    assert load_image(f"{archive}/b.png", SMALL).shape == (16, 16, 3)
    for name in ("y.png", "z.png"):
        (tmp_path / name).write_bytes(png(0))
        assert tar.relative(f"{archive}/../{name}", tmp_path) == f"a.tar/../{name}"
        with raises(UnreadableImage, path=f"{archive}/../{name}"):
            load_image(f"{archive}/../{name}", SMALL)


def test_link_in_an_archive_is_listed_and_unreadable(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.png").write_bytes(png(0))
    (folder / "1.png").hardlink_to(folder / "0.png")
    (folder / "2.png").symlink_to("0.png")
    (folder / "3.png").symlink_to("3.png")
    archive, names = tmp_path / "a.tar", ["0.png", "1.png", "2.png", "3.png"]
    subprocess.run(["tar", "-cf", archive, *names], cwd=folder, check=True)
    assert list_images(archive) == [f"{archive}/{name}" for name in names]
    assert load_image(archive / "0.png", SMALL).shape == (16, 16, 3)
    for name in names[1:]:
        assert tar.stat(archive / name) is None and tar.exists(archive / name)
        with raises(UnreadableImage, path=archive / name, problem="link"):
            load_image(archive / name, SMALL)


def test_archive_with_a_corrupt_header_raises(tmp_path):
    content = bytearray(write(tmp_path / "a.tar", {f"{i}.png": png(i) for i in range(4)}).read_bytes())
    content[content.index(b"2.png")] ^= 1
    (tmp_path / "a.tar").write_bytes(content)
    with raises(CorruptFileError, path=tmp_path / "a.tar", problem="no header at byte "):
        list_images(tmp_path / "a.tar")


def test_repeated_member_name_is_the_last_one(tmp_path):
    for content, how in (("1", "-cf"), ("2", "-rf")):
        (tmp_path / "x.png").write_text(content)
        subprocess.run(["tar", how, "a.tar", "x.png"], cwd=tmp_path, check=True)
    assert list_images(tmp_path / "a.tar") == [f"{tmp_path}/a.tar/x.png"]
    assert tar.read(tmp_path / "a.tar" / "x.png").read() == b"2"


def test_archive_beside_images_is_listed_in_place(tmp_path):
    write(tmp_path / "b.tar", {"z.png": png(0), "a.png": png(1), ".hidden.png": png(1)})
    (tmp_path / "a.png").write_bytes(png(2))
    (tmp_path / "c.png").write_bytes(png(2))
    expected = ["a.png", "b.tar/z.png", "b.tar/a.png", "c.png"]
    assert [path[len(str(tmp_path)) + 1 :] for path in list_images(tmp_path)] == expected
    (tmp_path / "list.txt").write_text("c.png\nb.tar\nb.tar/a.png\n")
    expected = ["c.png", "b.tar/z.png", "b.tar/a.png", "b.tar/a.png"]
    assert [path[len(str(tmp_path)) + 1 :] for path in list_images(tmp_path / "list.txt")] == expected
    assert list_images(f"{tmp_path}/b.tar/a.png") == [f"{tmp_path}/b.tar/a.png"]


def test_label_is_the_text_of_the_cls_file(tmp_path):
    texts = {"x/1.cls": b" cat\n", "2.cls": b"dog", "x/3.cls": b"", "x/4.cls": bytes(5000)}
    images = dict.fromkeys(("x/1.left.png", "x/2.png", "x/3.png", "x/4.png"), b"")
    archive = write(tmp_path / "a.tar", {**images, **texts})
    assert tar.label(f"{archive}/x/1.left.png") == "cat"
    for name in ("x/2.png", "x/3.png", "x/4.png"):
        assert tar.label(f"{archive}/{name}") is None


def test_changed_archive_is_read_again(tmp_path):
    archive = write(tmp_path / "a.tar", {"0.png": png(0)})
    before = tar.stat(f"{archive}/0.png")
    assert before == tar.stat(f"{archive}/0.png") and tar.stat(f"{archive}/1.png") is None
    write(archive, {"x.png": png(2), "0.png": png(1)})
    assert tar.stat(f"{archive}/0.png") != before
    size = archive.stat().st_size
    write(archive, {"y.png": png(1), "0.png": png(2)})  # the same size
    os.utime(archive, ns=(1, 1))
    assert archive.stat().st_size == size
    assert tar.exists(f"{archive}/y.png") and not tar.exists(f"{archive}/x.png")
    with raises(UnreadableImage, path=f"{archive}/9.png"):
        load_image(f"{archive}/9.png", SMALL)


def test_archive_cut_anywhere_raises_or_gives_whole_images(tmp_path):
    whole = write(tmp_path / "whole.tar", {f"{i}.png": png(i) for i in range(4)}).read_bytes()
    cut, refused = tmp_path / "cut.tar", 0
    names = {f"{cut}/{i}.png" for i in range(4)}
    for size in range(0, 4 * 3000, 137):
        cut.write_bytes(whole[:size])
        try:
            result = list_images(cut)
        except IdcwhError as error:
            refused += 1
            assert error.path == str(cut)
        else:
            assert set(result) <= names
            for path in result:
                np.testing.assert_array_equal(
                    load_image(path, SMALL), load_image(f"{tmp_path}/whole.tar/{path[-5:]}", SMALL)
                )
    assert refused > 50
    for content in (b"", b"no tar", bytes(100)):
        cut.write_bytes(content)
        with raises(CorruptFileError, path=cut):
            list_images(cut)
        with raises(UnreadableImage, path=f"{cut}/0.png"):
            load_image(f"{cut}/0.png", SMALL)
    with raises(InvalidInputError, path=tmp_path / "none.tar"):
        list_images(write(tmp_path / "none.tar", {"a.txt": b""}))


@pytest.mark.parametrize("name", ["a.tar.gz", "a.TGZ", "a.tar.zst"])
def test_compressed_archive_is_not_supported(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x1f\x8b")
    with raises(NotSupportedError, path=tmp_path / name):
        list_images(tmp_path / name)


@pytest.mark.parametrize("url", ["https://example.com/a.jpg", "s3://bucket/a.tar", "HTTP://x/y.png"])
def test_url_is_not_supported(tmp_path, url):
    with raises(NotSupportedError, path=url):
        list_images(url)
    (tmp_path / "list.txt").write_text(f"a.jpg\n{url}\n")
    with raises(NotSupportedError, path=f"{tmp_path}/list.txt:2", found=url):
        list_images(tmp_path / "list.txt")


def test_folder_named_like_an_archive_is_a_folder(tmp_path):
    (tmp_path / "x.tar").mkdir()
    (tmp_path / "x.tar" / "a.png").write_bytes(png(0))
    assert list_images(tmp_path / "x.tar") == [f"{tmp_path}/x.tar/a.png"]
    assert load_image(f"{tmp_path}/x.tar/a.png", SMALL).shape == (16, 16, 3)
