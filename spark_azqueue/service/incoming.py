"""One answer while it arrives over libcurl: its own header lines and its body, both bounded."""

from __future__ import annotations

import re

MOST_HEADER_BYTES = 64 * 2**10
"""The most header bytes of one answer, with those that precede it (a proxy's headers, 1xx)."""

_STATUS = re.compile(rb"HTTP/\S+ +(\d{3})\b")


class Incoming:
    """An answer as it arrives. Its `header` and `write` are for libcurl.

    libcurl passes on all headers: first those of a proxy's answer to CONNECT and of 1xx, last those
    after the body. Only the last ones before the body belong to the answer.
    """

    def __init__(self, most_bytes: int, most_of_error: int | None = None) -> None:
        """most_bytes: of a body. most_of_error: the same for a status that is none of success."""
        self._most = most_bytes
        self._most_of_error = most_bytes if most_of_error is None else most_of_error
        self.clear()

    def clear(self) -> None:
        """Reset for the next answer."""
        self.status_line = b""
        self.header_lines: list[bytes] = []
        self.body = bytearray()
        self.too_large = ""
        """Says what was larger than allowed, if anything was."""
        self.excess = False
        """The body was: none of it is kept."""
        self._header_bytes = 0
        self._complete = False

    @property
    def status(self) -> int:
        """The HTTP status; 0 if none has come, or none that can be read."""
        found = _STATUS.match(self.status_line)
        return int(found[1]) if found else 0

    @property
    def succeeded(self) -> bool:
        """True if the status is one of success."""
        return 200 <= self.status < 300

    @property
    def most(self) -> int:
        """The most bytes that the body may have."""
        if self._most == self._most_of_error:
            return self._most
        return self._most if self.succeeded else self._most_of_error

    def header(self, line: bytes) -> int:
        """Take a header line. Returns its length, or -1 to make libcurl stop."""
        self._header_bytes += len(line)
        if self._header_bytes > MOST_HEADER_BYTES:
            self.too_large = f"the answer's headers are larger than {MOST_HEADER_BYTES:,} bytes"
            return -1
        if line.startswith(b"HTTP/") and not self.body:
            self.status_line = line
            self.header_lines.clear()
            self._complete = False
        elif not line.strip():
            self._complete = True
        elif not self._complete:
            self.header_lines.append(line)
        return len(line)

    def write(self, data: bytes) -> int:
        """Take a part of the body. Returns its length, or -1 to make libcurl stop."""
        if len(self.body) + len(data) > self.most:
            self.too_large = f"the answer is larger than {self.most:,} bytes"
            self.excess = True
            self.body.clear()
            return -1
        self.body += data
        return len(data)
