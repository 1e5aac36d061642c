"""Message ids and pop receipts that look like the service's and are never repeated.

What the service's receipts hold is recorded (tests/recorded): 12 bytes that stay the same, then the
time of the answer's `TimeNextVisible` as a Windows file time, to 100 ns; after an update four more.
So all messages of one dequeue have the same receipt.
"""

from __future__ import annotations

import base64
import random

_TICKS = 10_000_000
_FROM_1601 = 11_644_473_600
# The service's receipts sometimes contain `+` and `/`, as base64 does. Here, every receipt contains
# them (the service has `AAAA` in that place), so that code that does not escape them fails.
_DEQUEUED = "AgAAAAMAAAAA+/AA"
_UPDATED = "AwAAAAMAAAAA+/AA"


class Minter:
    """A source of ids and receipts; the same `seed` gives the same ids. Not thread-safe."""

    def __init__(self, seed: int | str = 0) -> None:
        self._random = random.Random(seed)
        self._minted = 0

    def message_id(self) -> str:
        """Return a GUID as text (36 characters)."""
        digits = f"{self._random.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def receipt(self, next_visible: float, *, updated: bool = False) -> str:
        """Return a new pop receipt: base64 text with `+`, `/` and `=` in it.

        next_visible: unix seconds. The receipt holds them; in place of their fraction it holds a
        number that does not come again, since a clock that stands still would repeat receipts.
        28 characters, or 32 if `updated`.
        """
        self._minted = (self._minted + 1) % _TICKS
        tick = (int(next_visible) + _FROM_1601) * _TICKS + self._minted
        changing = tick.to_bytes(8, "little")
        if updated:
            return _UPDATED + base64.b64encode(changing + b"\x01\0\0\0").decode("ascii")
        return _DEQUEUED + base64.b64encode(changing).decode("ascii")
