"""An answer over libcurl: while it arrives, with bounded headers and body, and as a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MOST_HEADER_BYTES = 64 * 2**10
"""The most header bytes of one answer, with those that precede it (a proxy's headers, 1xx)."""

HEADERS_TOO_LARGE = f"the answer's headers are larger than {MOST_HEADER_BYTES:,} bytes"

_STATUS = re.compile(rb"HTTP/\S+ +(\d{3})\b")


class Answer(NamedTuple):
    """An HTTP answer. `sent_at`: monotonic time at which the request was sent.

    head: its header lines, perhaps with a status line and with those of earlier answers before it.

    repeated: libcurl has sent the request twice: on a kept connection that turned out to be dead,
    and then on another one.

    took_s: how long it took, as libcurl measured it.
    """

    status: int
    head: bytes
    body: bytes
    sent_at: float
    repeated: bool = False
    took_s: float = 0.0

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name. Parsed on each access, since most answers need none."""
        fields = (line.decode("latin-1").partition(":") for line in lines_of(self.head))
        return {name.strip().lower(): value.strip() for name, colon, value in fields if colon}


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer came. `untrusted`: because the server's certificate is not trusted.

    too_large: an answer came, but was cut off: the service never sends one as large.
    sent: False if no byte of the request was sent over any connection.
    repeated, took_s: as in `Answer`.
    """

    reason: str
    untrusted: bool
    too_large: bool = False
    sent: bool = True
    repeated: bool = False
    took_s: float = 0.0


class Incoming:
    """An answer as it arrives. Its `header` and `write` are for libcurl.

    libcurl passes on all headers: first those of a proxy's answer to CONNECT and of 1xx, last those
    after the body. Only the last ones before the body belong to the answer.
    """

    def __init__(self, most_bytes: int, most_of_error: int | None = None) -> None:
        """most_bytes: of a body. most_of_error: the same for an error status."""
        self.bound(most_bytes, most_bytes if most_of_error is None else most_of_error)
        self.received = bytearray()
        """All headers as they come. libcurl may be given `received.extend` in place of `header`:
        each line costs less. libcurl then bounds them (300 KiB), and `head` has to be looked at."""
        self.body = bytearray()
        self.clear()

    def bound(self, most_bytes: int, most_of_error: int) -> None:
        """Let the next answer have a body of so many bytes. See `__init__`."""
        self._most, self._most_of_error = most_bytes, most_of_error

    def clear(self) -> None:
        """Reset for the next answer."""
        self.received.clear()
        self.body.clear()
        self.too_large = ""
        """Says what was larger than allowed, if anything was."""
        self.excess = False
        """The body was: none of it is kept."""
        self._before_body: int | None = None  # header bytes that came before the body

    @property
    def head(self) -> bytes:
        """The headers that came before the body, for `lines_of`."""
        return bytes(self.received[: self._before_body])

    @property
    def status(self) -> int:
        """The HTTP status; 0 if none has come, or none that can be read."""
        found = _STATUS.match(next(iter(lines_of(self.head)), b""))
        return int(found[1]) if found else 0

    @property
    def succeeded(self) -> bool:
        """True for a success status."""
        return 200 <= self.status < 300

    @property
    def most(self) -> int:
        """The most bytes that the body may have."""
        if self._most == self._most_of_error:
            return self._most
        return self._most if self.succeeded else self._most_of_error

    def header(self, line: bytes) -> int:
        """Take a header line. Returns its length, or -1 to make libcurl stop."""
        if len(self.received) + len(line) > MOST_HEADER_BYTES:
            self.too_large = HEADERS_TOO_LARGE
            return -1
        self.received += line
        return len(line)

    def write(self, data: bytes) -> int:
        """Take a part of the body. Returns its length, or -1 to make libcurl stop."""
        if self._before_body is None:
            self._before_body = len(self.received)
        if len(self.body) + len(data) > self.most:
            self.too_large = f"the answer has more than the {self.most:,} bytes asked for"
            self.excess = True
            self.body.clear()
            return -1
        self.body += data
        return len(data)


def lines_of(head: bytes) -> list[bytes]:
    """The status line and the header lines of the last answer in `head`, as they came."""
    lines: list[bytes] = []
    complete = False
    for line in head.split(b"\n"):
        if line.startswith(b"HTTP/"):
            lines = [line]
            complete = False
        elif not line.strip():
            complete = True
        elif not complete:
            lines.append(line)
    return lines
