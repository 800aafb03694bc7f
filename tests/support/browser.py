"""A browser for tests of the page: Chromium, whose console errors and policy violations fail a test."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
_REPORTS = """addEventListener("securitypolicyviolation",
    (event) => console.error(`policy: ${event.violatedDirective} blocks ${event.blockedURI}`))"""
_TRANSFER = """([name, type, text]) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name, { type }));
    return transfer;
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    """Starts Chromium. Skips the test if it or playwright is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing (extra dev)")
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        pytest.skip("Chromium is missing (Debian: chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])  # CI runs as root
        yield browser
        browser.close()


class Tab:
    """A tab with the page of a service. `errors` has console errors, exceptions and policy violations."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.address = f"{address}/"
        self.context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.add_init_script(_REPORTS)
        self.errors: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, query: str = "") -> Tab:
        """Loads the page and waits for its examples, or for the hits of a query."""
        self.page.goto(self.address + query)
        self.wait() if query else self.page.wait_for_selector("#example-grid .tile")
        return self

    def wait(self, selector: str = "#grid .tile:not(.skeleton)") -> None:
        """Waits until the search is over and an element is visible."""
        self.page.wait_for_selector("#content[aria-busy=false]")
        self.page.wait_for_selector(selector)

    def hits(self) -> list[tuple[int, str]]:
        """Returns distance and name of the tiles in order."""
        script = """tiles => tiles.map(tile => [Number(tile.querySelector(".distance-badge").textContent),
            tile.querySelector(".card").title])"""
        return [(distance, name) for distance, name in self.page.eval_on_selector_all("#grid .tile", script)]

    def text(self, selector: str) -> str:
        return str(self.page.text_content(selector))

    def transfer(self, event: str, path: Path, kind: str = "image/png") -> None:
        """Drops or pastes a file."""
        content = base64.b64encode(path.read_bytes()).decode()
        transfer = self.page.evaluate_handle(_TRANSFER, [path.name, kind, content])
        if event == "paste":
            made = "new ClipboardEvent('paste', { clipboardData: data, bubbles: true })"
            self.page.evaluate(f"(data) => document.body.dispatchEvent({made})", transfer)
        else:
            self.page.dispatch_event("body", event, {"dataTransfer": transfer})

    def slide(self, radius: int) -> None:
        """Moves the slider of the distance."""
        self.page.fill("#radius", str(radius))
        self.page.wait_for_url(re.compile(f"radius={radius}\\b"))
