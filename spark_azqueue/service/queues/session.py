"""What the flights of one client share: the account, who signs, the limits and the connections."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Any

from ..account import Account
from ..credentials import authority_for
from .http import Wire
from .limits import Limits


class Session:
    """Thread-safe; do not share between processes."""

    def __init__(self, account: Account, limits: Limits | None = None) -> None:
        """limits: those that all clients of the account in this process share, by default."""
        self.account = account
        self.limits = _limits_of(account) if limits is None else limits
        self.authority = authority_for(account)
        self.throttled = 0
        """How many answers so far said that the service is too busy (503 or 429)."""
        self._requests: Counter[str] = Counter()
        self._wires: deque[Wire[Any]] = deque()

    def wire(self) -> Wire[Any]:
        """Connections for one flight: kept ones, or new ones."""
        try:
            return self._wires.pop()  # most recently used first, so that idle ones can time out
        except IndexError:
            return Wire(self.account.url)

    def keep(self, wire: Wire[Any]) -> None:
        """Keep these connections for the next flight."""
        self._wires.append(wire)

    def note_throttled(self) -> None:
        """Count such an answer."""
        with _lock:  # held for a moment only
            self.throttled += 1

    def note_request(self, kind: str) -> None:
        """Count a request that is sent, a repeat too: the service bills each."""
        with _lock:
            self._requests[kind] += 1

    def requests(self) -> dict[str, int]:
        """How many requests of each kind were sent so far."""
        with _lock:
            return dict(self._requests)

    def close(self) -> None:
        """Close the connections. A later flight opens new ones."""
        while self._wires:
            self._wires.pop().close()


_limits: dict[str, Limits] = {}  # by the account's URL
_lock = threading.Lock()


def _limits_of(account: Account) -> Limits:
    """What this process has learned: a task of the sink goes on from what the last one learned."""
    with _lock:
        return _limits.setdefault(account.url, Limits())
