"""Ctrl-C, noted rather than thrown, so that the demo ends where everything can be put away."""

from __future__ import annotations

import os
import signal
from types import FrameType


class Interrupted(BaseException):
    """The user wants the demo to end."""


class Interrupt:
    """Notes Ctrl-C (or SIGTERM) from when it is made; a second one ends the process at once."""

    def __init__(self) -> None:
        self._signal = 0
        self._terminal = os.dup(1)
        signal.signal(signal.SIGINT, self._note)
        signal.signal(signal.SIGTERM, self._note)

    def check(self) -> None:
        """Raise Interrupted if the user wants the demo to end."""
        if self._signal:
            raise Interrupted

    @property
    def status(self) -> int:
        """The exit status that tells a shell of the signal."""
        return 128 + self._signal

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._signal:
            # Java and Azurite end by themselves as their pipes to this process close.
            os._exit(128 + number)
        self._signal = number
        os.write(self._terminal, b"\nStopping what runs (Ctrl-C again: at once)\n")
