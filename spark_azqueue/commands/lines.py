"""Reads and checks the lines that `send` puts into a queue. Lines are read as they arrive."""

from __future__ import annotations

import argparse
import codecs
import json
import os
import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event

from spark_azqueue.commands.doctor.finding import say
from spark_azqueue.errors import AzQueueError, InvalidRow
from spark_azqueue.service.encoding import Encoding, encode

from .scan import ScanCounts
from .sending import Outgoing

_LINE_AT_MOST = 2**20
"""Maximum size of a line in bytes. A line of `export` is always smaller, even if every character is
escaped.
"""

_READ_BYTES = 2**18
_LOOKS_EVERY_S = 0.5
_NAMED_AT_MOST = 5


@dataclass
class LinesToSend:
    """Lines of a file or a stream, read as soon as they arrive. name: name of the file, for errors.

    as_row: raises ValueError if a line is not a row; None if lines need not be rows.
    """

    descriptor: int
    name: str
    encoding: Encoding
    found: argparse.Namespace
    as_row: Callable[[str], str] | None = None
    at: int = field(default=1, init=False)
    """Number of the first line that was not yielded yet."""

    def groups(self, stop: Event, tally: ScanCounts) -> Iterator[list[Outgoing]]:
        """Yield messages as lines arrive.

        Raises InvalidRow for a broken line, after all lines before it were yielded.
        """
        rest, number, is_read = b"", 0, False
        self.at = 1
        while not is_read:
            if stop.is_set():
                return
            if not select.select([self.descriptor], [], [], _LOOKS_EVERY_S)[0]:
                continue
            data = os.read(self.descriptor, _READ_BYTES)
            is_read = not data
            *lines, rest = (rest + data).split(b"\n")
            is_torn = is_read and bool(rest)
            if is_torn:
                lines.append(rest)
            rest = rest[: _LINE_AT_MOST + 1]
            group: list[Outgoing] = []
            broken: InvalidRow | None = None
            for place, line in enumerate(lines, 1):
                number += 1
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                if not (line.strip() or self.found.raw):
                    continue
                tally.looked += 1
                try:
                    is_whole = not (is_torn and place == len(lines))
                    group.append(Outgoing(number, self._text(line, is_whole=is_whole)))
                except (ValueError, RecursionError) as error:
                    broken = InvalidRow(
                        f"line {number:,} of {self.name} is no message: {_reason(error)}"
                    )
                    if not self.found.skip_broken:
                        break
                    pass_over(tally, broken)
            ends_here = broken and not self.found.skip_broken
            self.at = number if ends_here else number + 1
            if group:
                yield group
            if ends_here:
                assert broken
                raise InvalidRow(
                    f"{broken.sentence}. Neither this line nor later ones were sent: correct it, or"
                    " skip such lines with --skip-broken"
                )

    def _text(self, line: bytes, *, is_whole: bool) -> str:
        if len(line) > _LINE_AT_MOST:
            raise ValueError(f"it has more than {_LINE_AT_MOST:,} bytes")
        written = line.decode("utf-8")
        if self.as_row is not None:
            return self.as_row(written)
        if self.found.raw:
            if not is_whole:
                raise ValueError("it ends without a line break, so it may be torn: add one")
            return encode(written.removesuffix("\r"), self.encoding)
        fields = json.loads(written)
        if not isinstance(fields, dict):
            raise ValueError("it is no JSON object")
        if fields.get("intact") is False:
            raise ValueError("its text was damaged before it was exported")
        if isinstance(text := fields.get("text"), str):
            return encode(text, Encoding.NONE)
        if isinstance(body := fields.get("body"), str):
            return encode(body, self.encoding)
        raise ValueError("it has no 'text' and no 'body' that is a text")


def _reason(error: Exception) -> str:
    # the error's own text would name line 1
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON: {error.msg} at character {error.pos + 1:,}"
    return error.sentence if isinstance(error, AzQueueError) else str(error)


def pass_over(tally: ScanCounts, error: InvalidRow) -> None:
    """Count a message that cannot be sent. For the first few such messages, also print the
    reason."""
    tally.broken += 1
    if tally.broken <= _NAMED_AT_MOST:
        say(f"skipped: {error.sentence}", is_error=True)
