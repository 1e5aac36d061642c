"""One answer while it arrives: which header lines are its own, and how large it may become."""

from __future__ import annotations

MOST_BODY_BYTES = 16 * 2**20
"""No answer of the service is larger: 32 messages of 64 KiB, each byte of which XML may write as
six (`&quot;`), are 12 MiB; their ids, receipts and times take less than 2 KiB a message."""

MOST_HEADER_BYTES = 64 * 2**10
"""Of one answer, with everything that comes before it (a proxy's headers, 1xx)."""


class Incoming:
    """An answer as it arrives: its own header lines, and its body. Both are bounded.

    libcurl hands over all headers that come: those of a proxy's answer to CONNECT and of 1xx, which
    come first, and those after the body. Only the last ones before the body are the answer's.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget it: another one begins."""
        self.header_lines: list[bytes] = []
        self.body = bytearray()
        self.too_large = ""
        self._header_bytes = 0
        self._complete = False

    def header(self, line: bytes) -> int:
        """Take a line; any other number than its length makes libcurl break off."""
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
        """Take a part of the body; any other number than its length makes libcurl break off."""
        if len(self.body) + len(data) > MOST_BODY_BYTES:
            self.too_large = f"the answer is larger than {MOST_BODY_BYTES:,} bytes"
            return -1
        self.body += data
        return len(data)
