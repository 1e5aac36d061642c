"""One answer while it arrives: collects its own header lines and its body, and limits both."""

from __future__ import annotations

MOST_BODY_BYTES = 16 * 2**20
"""No answer of the service is larger. 32 messages of 64 KiB are at most 12 MiB, since XML may write
a byte as six (`&quot;`); their ids, receipts and times take less than 2 KiB a message."""

MOST_HEADER_BYTES = 64 * 2**10
"""The most header bytes of one answer, with those that precede it (a proxy's headers, 1xx)."""


class Incoming:
    """An answer as it arrives: its own header lines and its body. Both are bounded.

    libcurl passes on all headers: first those of a proxy's answer to CONNECT and of 1xx, last those
    after the body. Only the last ones before the body belong to the answer.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset for the next answer."""
        self.header_lines: list[bytes] = []
        self.body = bytearray()
        self.too_large = ""
        self._header_bytes = 0
        self._complete = False

    def header(self, line: bytes) -> int:
        """Take a header line. Returns its length, or -1 to make libcurl stop."""
        self._header_bytes += len(line)
        if self._header_bytes > MOST_HEADER_BYTES:
            self.too_large = f"the answer's headers are larger than {MOST_HEADER_BYTES:,} bytes"
            return -1
        if line.startswith(b"HTTP/") and not self.body:
            self.header_lines.clear()
            self._complete = False
        elif not line.strip():
            self._complete = True
        elif not self._complete:
            self.header_lines.append(line)
        return len(line)

    def write(self, data: bytes) -> int:
        """Take a part of the body. Returns its length, or -1 to make libcurl stop."""
        if len(self.body) + len(data) > MOST_BODY_BYTES:
            self.too_large = f"the answer is larger than {MOST_BODY_BYTES:,} bytes"
            return -1
        self.body += data
        return len(data)
