"""Receives an HTTP answer from libcurl, with limits on headers and body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MOST_HEADER_BYTES = 64 * 2**10
"""Maximum number of header bytes of one answer, including the headers of a proxy and of 1xx answers
before it.
"""

HEADERS_TOO_LARGE = f"the answer's headers are larger than {MOST_HEADER_BYTES:,} bytes"

_STATUS = re.compile(rb"HTTP/\S+ +(\d{3})\b")


class Answer(NamedTuple):
    """An HTTP answer. `sent_at`: monotonic time at which the request was sent.

    head: header lines of the answer. Status lines and headers of a proxy and of 1xx answers may
    precede them. repeated: True if libcurl sent the request twice, because the first connection was
    broken. took_s: seconds from request to answer, measured by libcurl.
    """

    status: int
    head: bytes
    body: bytes
    sent_at: float
    repeated: bool = False
    took_s: float = 0.0

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name.

        Parsed on each access, because most answers need no header.
        """
        fields = (line.decode("latin-1").partition(":") for line in lines_of(self.head))
        return {name.strip().lower(): value.strip() for name, colon, value in fields if colon}


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Result of a request that got no answer.

    `untrusted`: the server's certificate is not trusted.

    too_large: the part of the answer that exceeded its limit, or "". The service never sends so
    large an answer. sent: False if no byte of the request was sent. repeated, took_s: see `Answer`.
    """

    reason: str
    untrusted: bool
    too_large: bool = False
    sent: bool = True
    repeated: bool = False
    took_s: float = 0.0


class Incoming:
    """Collects an answer while it arrives. libcurl calls `header` and `write`.

    libcurl passes all headers to `header`: headers of a proxy's answer to CONNECT, headers of 1xx
    answers, headers of the answer itself, and the trailers after the body. The answer's own headers
    are the last headers before the body.
    """

    def __init__(self, most_bytes: int, most_of_error: int | None = None) -> None:
        """Prepare for the first answer. most_bytes: maximum size of a body. most_of_error: maximum
        size of the body of an answer with an error status.
        """
        self.bound(most_bytes, most_bytes if most_of_error is None else most_of_error)
        self.received = bytearray()
        """All header bytes, in order of arrival.

        The caller may pass `received.extend` to libcurl in place of `header`, which costs less per
        line. In this case only libcurl's own limit (300 KiB) applies, so the caller has to check
        the size.
        """
        self.body = bytearray()
        self.clear()

    def bound(self, most_bytes: int, most_of_error: int) -> None:
        """Set the maximum size of the next answer's body. See `__init__`."""
        self._most, self._most_of_error = most_bytes, most_of_error

    def clear(self) -> None:
        """Reset for the next answer."""
        self.received.clear()
        self.body.clear()
        self.too_large = ""
        """Name of the part of the answer that exceeded its limit, for errors; "" if no part did."""
        self.excess = False
        """True if the body exceeded its limit. Such a body is dropped."""
        self._before_body: int | None = None  # number of header bytes before the body

    @property
    def head(self) -> bytes:
        """All headers before the body, for `lines_of`."""
        return bytes(self.received[: self._before_body])

    @property
    def status(self) -> int:
        """The HTTP status, or 0 if no readable status has arrived."""
        found = _STATUS.match(next(iter(lines_of(self.head)), b""))
        return int(found[1]) if found else 0

    @property
    def succeeded(self) -> bool:
        """True for a success status."""
        return 200 <= self.status < 300

    @property
    def most(self) -> int:
        """Maximum size of the body in bytes."""
        if self._most == self._most_of_error:
            return self._most
        return self._most if self.succeeded else self._most_of_error

    def header(self, line: bytes) -> int:
        """Accept a header line. Returns the length of the line, or -1 to make libcurl stop."""
        if len(self.received) + len(line) > MOST_HEADER_BYTES:
            self.too_large = HEADERS_TOO_LARGE
            return -1
        self.received += line
        return len(line)

    def write(self, data: bytes) -> int:
        """Accept a part of the body. Returns the length of the part, or -1 to make libcurl stop."""
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
    """Return the status line and the header lines of the last answer in `head`."""
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
