"""Interruption after the current step, so that the checkpoint is whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from idcwh_search._util.console import note


class GracefulStop:
    """While entered, SIGINT and SIGTERM set `asked`; a second one interrupts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> GracefulStop:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python does not allow handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        note("")  # below the terminal's own ^C
        note("stopping after this step; once more to stop at once, without saving")
