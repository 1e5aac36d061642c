"""What the demo shows in the terminal: lines, a progress bar, a table."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_LINE_EVERY_S = 5.0
"""Where there is no terminal to draw a bar in (a log file, a build server)."""

_BAR_WIDTH = 28


class Screen:
    """The only way to the terminal: what Spark, Java and Python say goes into `log_file`."""

    def __init__(self, log_file: Path) -> None:
        sys.stdout.flush()
        self._out = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors="replace")
        self._drawn = ""
        self._next_line = time.monotonic()
        with log_file.open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)

    def line(self, text: str = "") -> None:
        """Print a line, in place of the bar if there is one."""
        self._write((self._over(text) if self._drawn else text) + "\n")
        self._drawn = ""

    def progress(self, done: int, total: int, text: str, *, last: bool = False) -> None:
        """Show how far things are: a bar in a terminal, a line now and then elsewhere."""
        percent = f"{done * 100 // total:3}%"
        if not self._out.isatty():
            if last or time.monotonic() >= self._next_line:
                self._next_line = time.monotonic() + _LINE_EVERY_S
                self.line(f"  {percent}  {text}")
            return
        # A line that fills the terminal would wrap, and could not be drawn over.
        room = shutil.get_terminal_size().columns - 1
        width = max(0, min(_BAR_WIDTH, room - len(text) - 10))
        filled = width * done // total
        full, empty = ("█", "░") if self._can("█░") else ("#", ".")
        drawn = f"  {full * filled}{empty * (width - filled)} {percent}  {text}"[:room]
        self._write(self._over(drawn))
        self._drawn = drawn
        if last:
            self.line(drawn)

    def table(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Print rows of a name, a value and a remark."""
        rows = list(rows)
        name, value = (max(len(row[place]) for row in rows) for place in (0, 1))
        for row in rows:
            self.line(f"  {row[0]:<{name}}  {row[1]:>{value}}  {row[2]}".rstrip())

    def _over(self, text: str) -> str:
        return f"\r{text}{' ' * max(0, len(self._drawn) - len(text))}"

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _can(self, text: str) -> bool:
        try:
            text.encode(self._out.encoding)
        except UnicodeEncodeError:
            return False
        return True
