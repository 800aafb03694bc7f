"""Progress of long work on stderr: a bar on a terminal, otherwise a plain line every SECONDS_BETWEEN_LINES."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .wording import plural

SECONDS_BETWEEN_LINES = 30.0


def bar(note: Callable[[str], None], quiet: bool, **options: Any) -> Any:
    """Returns a tqdm bar if stderr is a terminal, otherwise `Lines`. Both are context managers with `update`.

    Args:
        note: function that writes a line.
        quiet: True to show nothing.
        options: options of tqdm. `Lines` uses desc, total, initial and unit (a singular noun).
    """
    noun = options.pop("unit")
    if sys.stderr is None or not sys.stderr.isatty() or quiet:
        return Lines(
            (lambda _: None) if quiet else note, options["desc"], options["total"], noun, options.get("initial", 0)
        )
    from tqdm import tqdm

    return tqdm(file=sys.stderr, dynamic_ncols=True, unit=f" {plural(noun)}", **options)


class Lines:
    """Progress as lines of text, one every SECONDS_BETWEEN_LINES.

    A line has counts, rate, and an estimate of the time left if the total is known.
    """

    disable = True  # as on a hidden tqdm bar

    def __init__(self, note: Callable[[str], None], desc: str, total: int | None, noun: str, initial: int = 0) -> None:
        self.n, self.total = initial, total
        self._note, self._desc, self._nouns, self._initial = note, desc, plural(noun), initial
        self._more: dict[str, Any] = {}
        self._started = self._last_line = time.monotonic()

    def update(self, n: int = 1) -> None:
        """Adds `n` to the count."""
        self.n += n
        now = time.monotonic()
        ended = self.total is not None and self.n >= self.total
        if now - self._last_line >= SECONDS_BETWEEN_LINES and not ended:
            self._last_line = now
            self._note(self._line(now - self._started))

    def set_postfix(self, ordered: dict[str, Any] | None = None, refresh: bool = True, **more: Any) -> None:
        """Sets the values at the end of a line, as on a tqdm bar."""
        self._more = {**(ordered or {}), **more}

    def _line(self, seconds: float) -> str:
        rate = (self.n - self._initial) / seconds
        more = "".join(f", {name} {value}" for name, value in self._more.items())
        if self.total is None:
            return f"{self._desc}: {self.n:,} {self._nouns}, {rate:.3g} {self._nouns}/s{more}"
        left = f", {duration((self.total - self.n) / rate)} left" if rate else ""
        done = f"{self.n:,} of {self.total:,} {self._nouns} ({100 * self.n / self.total:.0f} %)"
        return f"{self._desc}: {done}, {rate:.3g} {self._nouns}/s{left}{more}"

    def close(self) -> None:
        """Does nothing, because written lines stay."""

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def duration(seconds: float) -> str:
    """Returns a duration as text, such as "40 s", "12 min" or "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
