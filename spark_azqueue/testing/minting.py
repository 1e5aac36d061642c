"""Message ids and pop receipts that look like the service's and are never repeated."""

from __future__ import annotations

import base64
import random

_TICKS = 10_000_000
_FROM_1601 = 11_644_473_600
# 12 constant bytes, then a Windows file time, as the service has it (documented sample:
# AgAAAAEAAAApAAAAGIw6Q29bzAE=). The service's receipts sometimes contain `+` and `/`, as base64
# does. Here, every receipt contains them, so that code that does not escape them fails.
_DEQUEUED = "AgAAAAMAAAAA+/AA"
_UPDATED = "AwAAAAMAAAAA+/AA"


class Minter:
    """A source of ids and receipts; the same `seed` gives the same ids. Not thread-safe."""

    def __init__(self, seed: int | str = 0) -> None:
        self._random = random.Random(seed)
        self._last_tick = 0

    def message_id(self) -> str:
        """Return a GUID as text (36 characters)."""
        digits = f"{self._random.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def receipt(self, now: float, *, updated: bool = False) -> str:
        """Return a new pop receipt: base64 text with `+`, `/` and `=` in it.

        28 characters, or 32 if `updated`: those of the service are longer after an update, too.
        """
        tick = max(self._last_tick + 1, int((now + _FROM_1601) * _TICKS))
        self._last_tick = tick
        changing = tick.to_bytes(8, "little")
        if updated:
            return _UPDATED + base64.b64encode(changing + b"\x01\0\0").decode("ascii")
        return _DEQUEUED + base64.b64encode(changing).decode("ascii")
