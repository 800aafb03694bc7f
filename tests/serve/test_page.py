"""The page of idcwh-serve in Chromium, with a server process. Pillow and NumPy compute the expected hits."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import index
from support.browser import Tab, chromium
from support.commands import IMAGES
from support.models import codes_by_hand, write_model
from support.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.browser]

LABELS = ("bird", "cat", "ship")
EACH = 50
QUERY = "?key=cat/copy%200.png"
MARKUP = "<img src=x onerror=alert(1)>.png"
MANY = 10_050


class Collection:
    """Images in class folders, among them copies of the query, and the expected hits of an image."""

    def __init__(self, folder: Path) -> None:
        self.images, self.database = folder / "images", folder / "codes.bin"
        for label in LABELS:
            (self.images / label).mkdir(parents=True)
            for source in sorted((IMAGES / "train" / label).iterdir())[:EACH]:
                shutil.copy(source, self.images / label)
        self.query = min((IMAGES / "test" / "cat").iterdir())
        for name in ("cat/copy 0.png", "cat/copy 1.png", "cat/copy 2.png", f"bird/{MARKUP}"):
            shutil.copy(self.query, self.images / name)
        model = write_model(folder / "model.onnx")
        arguments = ["build", "--model", model, "--images", self.images, "--db", self.database]
        assert index.main([str(argument) for argument in arguments]) == 0
        with ih.Database.open(self.database) as database:
            self.keys = [str(key) for key in database.keys()]  # noqa: SIM118
        self.codes = codes_by_hand([self.images / key for key in self.keys])

    def expected(self, path: Path, label: str = "", radius: int = 99) -> list[tuple[int, str]]:
        """Returns distance and key of the items, ordered by (distance, id)."""
        distances = np.unpackbits(self.codes ^ codes_by_hand([path]), axis=1).sum(axis=1)
        hits = [(int(distances[i]), self.keys[i]) for i in np.argsort(distances, kind="stable")]
        return [hit for hit in hits if hit[0] <= radius and hit[1].startswith(label)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return Collection(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def address(browser: Any, collection: Collection) -> Iterator[str]:
    with Server("--db", collection.database, "--images", collection.images) as server:
        yield server.url


@pytest.fixture(scope="module")
def large_address(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service without model and images, with more items than one answer has."""
    path = tmp_path_factory.mktemp("large") / "codes.bin"
    with ih.Database.create(path, bits=64) as database:
        database.add(np.random.default_rng(1).integers(0, 256, (MANY, 8), np.uint8))
    with Server("--db", path) as server:
        yield server.url


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Callable[..., Tab]]:
    """Opens tabs. None of them may have errors at the end."""
    tabs = []

    def make(address: str, **options: Any) -> Tab:
        tabs.append(Tab(browser, address, **options))
        return tabs[-1]

    yield make
    for tab in tabs:
        tab.context.close()
    assert [error for tab in tabs for error in tab.errors] == []


@pytest.fixture
def tab(open_tab: Callable[..., Tab], address: str) -> Tab:
    return open_tab(address)


@pytest.mark.parametrize("how", ["drop", "paste", "pick"])
def test_page_image_shows_nearest(tab: Tab, collection: Collection, how: str) -> None:
    tab.open()
    if how == "pick":
        tab.page.set_input_files("#file", collection.query)
    else:
        tab.transfer(how, collection.query)
    tab.wait()
    expected = collection.expected(collection.query)
    assert tab.hits() == expected[: len(tab.hits())] and len(tab.hits()) >= 100
    assert tab.text("#count") == f"{len(expected)} images"
    code = codes_by_hand([collection.query]).tobytes().hex()
    assert parse_qs(urlsplit(tab.page.url).query) == {"code": [code]}
    tab.page.wait_for_function("() => document.querySelector('#preview img').naturalWidth === 32")


def test_page_drag_shows_where_to_drop(tab: Tab, collection: Collection) -> None:
    tab.open().transfer("dragenter", collection.query)
    assert tab.page.is_visible("#dropping")
    tab.transfer("dragleave", collection.query)
    assert not tab.page.is_visible("#dropping")


def test_page_click_searches_by_hit_and_back_returns(tab: Tab, collection: Collection) -> None:
    tab.open()
    tab.page.locator("#example-grid .card").first.click()
    tab.wait()
    visited = [tab.hits()]
    for number in (5, 7):  # the second is a result of a result
        name = tab.hits()[number][1]
        tab.page.locator("#grid .card").nth(number).click()
        tab.wait()
        tab.page.wait_for_url(lambda url, name=name: parse_qs(urlsplit(url).query).get("key") == [name])
        tab.wait(".tile.own")
        expected = collection.expected(collection.images / name)
        assert tab.hits() == expected[: len(tab.hits())]
        visited.append(tab.hits())
    for hits in (visited[1], visited[0]):
        tab.page.go_back()
        tab.page.wait_for_function("(key) => document.querySelector('#grid .card')?.title === key", arg=hits[0][1])
        assert tab.hits() == hits
    tab.page.go_back()
    tab.page.wait_for_selector("#start:not([hidden])")
    tab.page.go_forward()
    tab.wait()
    assert tab.hits() == visited[0]


def test_page_slider_limits_distance(tab: Tab, collection: Collection) -> None:
    tab.open(QUERY)
    for radius in (5, 8, 6):
        tab.slide(radius)
        expected = collection.expected(collection.query, radius=radius)
        assert tab.hits() == expected[: len(tab.hits())] and len(tab.hits()) >= min(len(expected), 100)
        assert tab.text("#count") == f"{len(expected)} images within {radius} bits"
        assert tab.text("#radius-text") == f"at most {radius} bits"
    bars = tab.page.get_attribute("#histogram .inside", "d") or ""
    assert bars.count("M") == len({distance for distance, _ in expected})


def test_page_label_limits_hits(tab: Tab, collection: Collection) -> None:
    tab.open(QUERY)
    tab.page.check("#label-list [value=ship]")
    tab.page.wait_for_url("**&label=ship")
    tab.wait()
    assert tab.hits() == collection.expected(collection.query, "ship")
    tab.page.locator(".chip").click()
    tab.page.wait_for_function(
        f"() => document.getElementById('count').textContent === '{len(collection.keys)} images'"
    )


def test_page_link_reproduces_view(
    tab: Tab, open_tab: Callable[..., Tab], address: str, collection: Collection
) -> None:
    tab.open().transfer("drop", collection.query)
    tab.wait()
    tab.page.check("#label-list [value=cat]")
    tab.page.wait_for_url("**&label=cat")
    tab.wait()
    tab.slide(6)
    tab.page.click("#share")
    link = tab.page.evaluate("navigator.clipboard.readText()")
    other = open_tab(address).open(link.removeprefix(tab.address))
    assert other.hits() == tab.hits() == collection.expected(collection.query, "cat", 6)
    assert other.page.is_visible("#preview .pattern")  # the image itself is not part of a link
    tab.page.reload()
    tab.wait()
    assert tab.page.is_visible("#preview img")


def test_page_keyboard_moves_searches_returns(tab: Tab) -> None:
    tab.open(QUERY)
    press, page = tab.page.keyboard.press, tab.page
    focused = "[...document.querySelectorAll('#grid .card')].indexOf(document.activeElement)"
    columns = page.evaluate(
        "getComputedStyle(document.querySelector('#grid .part')).gridTemplateColumns.split(' ').length"
    )
    for key, position in [("ArrowRight", 0), ("ArrowRight", 1), ("ArrowDown", 1 + columns), ("ArrowLeft", columns)]:
        press(key)
        assert page.evaluate(focused) == position
    name = tab.hits()[columns][1]
    press("Space")
    assert page.is_visible("#detail") and tab.text("#detail-facts").count(name) == 1
    press("ArrowRight")
    assert tab.hits()[columns + 1][1] in tab.text("#detail-facts")
    press("Escape")
    assert not page.is_visible("#detail")
    page.wait_for_function(f"() => {focused} === {columns + 1}")
    name = tab.hits()[columns + 1][1]
    press("s")
    page.wait_for_function("(key) => document.getElementById('query-name').title === key", arg=name)
    tab.wait()
    page.wait_for_function(f"() => {focused} === 0")
    press("ArrowRight")
    name = tab.hits()[1][1]
    press("Enter")
    page.wait_for_function("(key) => document.getElementById('query-name').title === key", arg=name)
    tab.wait()
    press("Escape")
    page.wait_for_function("(key) => document.getElementById('query-name').title !== key", arg=name)
    press("?")
    assert page.is_visible("#help-dialog")
    press("Escape")
    press("/")
    page.keyboard.type("#3")
    press("Enter")
    page.wait_for_url("**key=*")
    tab.wait(".tile.own")


def test_page_groups_open_and_close(tab: Tab) -> None:
    tab.open(QUERY)
    ungrouped = tab.hits()
    tab.page.check("#group")
    tab.page.select_option("#group-radius", "0")
    tab.page.wait_for_url("**group=0**")
    count = tab.page.locator("#grid .count").first
    assert count.text_content() == "×4" and [distance for distance, _ in tab.hits()].count(0) == 1
    count.click()
    assert tab.hits()[:5] == ungrouped[:5] and count.get_attribute("aria-expanded") == "true"
    count.click()
    assert tab.hits()[1] == ungrouped[4]
    tab.page.reload()
    tab.wait()
    assert tab.hits()[1] == ungrouped[4]


def test_page_names_are_text(tab: Tab) -> None:
    tab.open(QUERY)
    assert (0, f"bird/{MARKUP}") in tab.hits()
    assert tab.page.locator(".caption img, .facts img").count() == 0


SIZES = pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])


@pytest.fixture
def check(tab: Tab) -> Callable[[str], None]:
    """Checks the tab with axe, and that it is not wider than the screen."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def run(state: str) -> None:
        found = axe.run(tab.page).response["violations"]
        assert [(state, one["id"], one["nodes"][0]["html"]) for one in found] == []
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state

    return run


def resize(tab: Tab, scheme: str, width: int) -> None:
    tab.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    tab.page.set_viewport_size({"width": width, "height": 800})


@SIZES
def test_page_is_accessible(tab: Tab, check: Callable[[str], None], scheme: str, width: int) -> None:
    resize(tab, scheme, width)
    tab.open()
    check("start")
    tab.open(f"{QUERY}&group=0&label=cat&label=bird&radius=7")
    tab.page.evaluate("document.getElementById('refine').open = true")
    check("results")
    tab.page.locator("#grid .card").nth(1).focus()
    tab.page.keyboard.press("Space")
    check("details")
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("?")
    check("help")
    tab.page.goto(tab.address + f"{QUERY}&label=ship&radius=0")
    tab.page.wait_for_selector("#notice:not([hidden])")
    check("empty")


@SIZES
def test_page_failures_are_accessible(tab: Tab, check: Callable[[str], None], scheme: str, width: int) -> None:
    resize(tab, scheme, width)
    tab.page.route("**/v1/**", lambda route: route.fulfill(status=401, json={"status": 401}))
    tab.page.goto(tab.address)
    tab.page.wait_for_selector("#key-dialog[open]")
    check("key")
    tab.page.fill("#key", "wrong")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("#key-wrong:not([hidden])")
    check("wrong key")
    tab.page.click("#key-cancel")
    tab.page.wait_for_selector("#notice:not([hidden])")
    check("no key")
    tab.page.unroute("**/v1/**")
    for status, answer in ((0, lambda route: route.abort()), (429, lambda route: route.fulfill(status=429))):
        tab.page.route("**/v1/search", answer)
        tab.page.goto(tab.address + QUERY)
        tab.page.wait_for_selector("#notice .wait")
        check(f"status {status}")
        tab.page.unroute("**/v1/search")
    tab.errors.clear()


def test_page_theme_is_kept(tab: Tab) -> None:
    tab.open()
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = tab.page.evaluate(background)
    tab.page.click("#theme")
    dark = tab.page.evaluate(background)
    tab.open()
    assert tab.page.evaluate(background) == dark != light
    assert tab.page.get_attribute("#theme", "aria-pressed") == "true"


def test_page_policy_blocks_inline_script(tab: Tab) -> None:
    tab.open()
    script = "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))"
    with tab.page.expect_console_message(lambda message: "policy: script-src" in message.text):
        tab.page.evaluate(script)
    assert tab.page.evaluate("window.ran") is None
    tab.errors.clear()


def test_page_ten_thousand_hits_are_reached(open_tab: Callable[..., Tab], large_address: str) -> None:
    tab = open_tab(large_address).open("?id=0")
    tiles = "document.querySelectorAll('#grid .tile').length"
    assert tab.page.evaluate(tiles) < 1000
    tab.page.wait_for_function(
        f"() => {{ scrollTo(0, document.body.scrollHeight); return {tiles} >= 10000; }}", timeout=300_000
    )
    assert tab.page.evaluate(tiles) == 10_000
    assert tab.text("#end") == "The nearest 10,000 of 10,050 images are shown."
    distances = [distance for distance, _ in tab.hits()]
    assert distances == sorted(distances)
    style = "getComputedStyle(document.querySelector('#grid .part')).contentVisibility"
    assert tab.page.evaluate(style) == "auto"


def test_page_without_model_offers_no_upload(open_tab: Callable[..., Tab], large_address: str) -> None:
    tab = open_tab(large_address).open()
    assert not tab.page.is_visible("#drop") and not tab.page.is_visible("#pick")
    assert tab.page.locator("#example-grid .pattern").count() > 0


def test_page_requires_key_and_keeps_it(open_tab: Callable[..., Tab], collection: Collection, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("open sesame\n")
    arguments = ("--db", collection.database, "--images", collection.images, "--read-key-file", tmp_path / "keys")
    with Server(*arguments) as server:
        tab = open_tab(server.url)
        tab.page.goto(server.url)
        for key in ("wrong", "open sesame"):
            tab.page.wait_for_selector("#key-dialog[open]")
            tab.page.fill("#key", key)
            tab.page.keyboard.press("Enter")
            if key == "wrong":
                tab.page.wait_for_selector("#key-wrong:not([hidden])")
        loaded = "() => document.querySelector('#example-grid img')?.naturalWidth === 32"
        tab.page.wait_for_function(loaded)
        tab.page.reload()
        tab.page.wait_for_function(loaded)
        assert not tab.page.is_visible("#key-dialog")
    assert {error for error in tab.errors if "401" in error} == set(tab.errors) != set()
    tab.errors.clear()


def test_page_key_refused_explains_itself(tab: Tab) -> None:
    tab.page.route("**/v1/**", lambda route: route.fulfill(status=401, json={"status": 401}))
    tab.page.goto(tab.address)
    tab.page.click("#key-cancel")
    assert tab.text("#notice :is(h1, h2)") == "A key is required"
    tab.page.unroute("**/v1/**")
    tab.page.click("#notice .primary")
    tab.page.wait_for_selector("#example-grid .tile")
    tab.errors.clear()


@pytest.mark.parametrize("status", [429, 0])
def test_page_overload_is_tried_again(tab: Tab, collection: Collection, status: int) -> None:
    answers = []

    def answer(route: Any) -> None:
        answers.append(route)
        if len(answers) > 1:
            route.continue_()
        elif status:
            route.fulfill(status=status, json={"detail": "too many requests wait"}, headers={"Retry-After": "1"})
        else:
            route.abort()

    tab.open()
    tab.page.route("**/v1/search", answer)
    tab.transfer("drop", collection.query)
    notice = "document.querySelector('#notice:not([hidden]) .wait')?.textContent.startsWith('Next attempt in')"
    tab.page.wait_for_function(f"() => {notice}")
    tab.wait()
    assert len(answers) == 2 and tab.hits()[0][0] == 0
    tab.errors.clear()


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("?key=missing.png", "No such item"),
        ("?code=zz", "The query is invalid"),
        (f"{QUERY}&label=ship&radius=0", "No image within 0 bits"),
        (f"{QUERY}&label=unknown", "No image has this label"),
    ],
)
def test_page_without_hits_has_reason(tab: Tab, query: str, title: str) -> None:
    tab.page.goto(tab.address + query)
    tab.page.wait_for_selector("#notice:not([hidden])")
    assert tab.text("#notice :is(h1, h2)") == title and tab.page.locator("#grid .tile").count() == 0
    tab.page.locator("#notice .button").last.click()
    tab.page.wait_for_function(
        "() => !document.querySelector('#start').hidden || document.querySelector('#grid .card')"
    )
    tab.errors.clear()


def test_page_other_file_is_refused(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "thesis.png").write_text("no image")
    (tmp_path / "thesis.txt").write_text("no image")
    for name, kind in (("thesis.png", "image/png"), ("thesis.txt", "text/plain")):
        tab.open().transfer("drop", tmp_path / name, kind)
        tab.page.wait_for_selector("#notice:not([hidden])")
        assert tab.text("#notice :is(h1, h2)") == "This file cannot be read as an image"
    tab.errors.clear()
