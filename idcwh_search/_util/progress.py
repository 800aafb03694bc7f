"""Progress of long work on stderr: a bar on a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .wording import plural

SECONDS_BETWEEN_LINES = 30.0


def bar(note: Callable[[str], None], quiet: bool, **options: Any) -> Any:
    """Returns a tqdm bar where stderr is a terminal, else `Lines`. Both count with `update` and end with the block.

    Args:
        note: writes a line.
        quiet: shows nothing.
        options: of tqdm; desc, total, initial and unit (a singular noun) are those of `Lines`, too.
    """
    noun = options.pop("unit")
    if sys.stderr is None or not sys.stderr.isatty() or quiet:
        return Lines(
            (lambda _: None) if quiet else note, options["desc"], options["total"], noun, options.get("initial", 0)
        )
    from tqdm import tqdm

    return tqdm(file=sys.stderr, dynamic_ncols=True, unit=f" {plural(noun)}", **options)


class Lines:
    """Progress as lines of text, one every SECONDS_BETWEEN_LINES: counts, rate, and an estimate of the time left."""

    disable = True  # as of a tqdm bar that does not show

    def __init__(self, note: Callable[[str], None], desc: str, total: int, noun: str, initial: int = 0) -> None:
        self.n, self.total = initial, total
        self._note, self._desc, self._nouns, self._initial = note, desc, plural(noun), initial
        self._more: dict[str, Any] = {}
        self._started = self._said = time.monotonic()

    def update(self, n: int = 1) -> None:
        """Counts `n` more."""
        self.n += n
        now = time.monotonic()
        if now - self._said >= SECONDS_BETWEEN_LINES and self.n < self.total:
            self._said = now
            self._note(self._line(now - self._started))

    def set_postfix(self, ordered: dict[str, Any] | None = None, refresh: bool = True, **more: Any) -> None:
        """Sets what stands at the end of a line."""
        self._more = {**(ordered or {}), **more}

    def _line(self, seconds: float) -> str:
        rate = (self.n - self._initial) / seconds
        left = f", {duration((self.total - self.n) / rate)} left" if rate else ""
        more = "".join(f", {name} {value}" for name, value in self._more.items())
        done = f"{self.n:,} of {self.total:,} {self._nouns} ({100 * self.n / self.total:.0f} %)"
        return f"{self._desc}: {done}, {rate:.3g} {self._nouns}/s{left}{more}"

    def close(self) -> None:
        """Does nothing: a line that was written stays."""

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def duration(seconds: float) -> str:
    """Returns a time for people, such as "40 s", "12 min" or "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
