"""Faults on demand: which request fails, and how, decided by a script and its seed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

OPERATIONS = frozenset(
    (
        "dequeue",
        "delete",
        "update",
        "put",
        "peek",
        "properties",
        "create",
        "clear",
        "delete_queue",
        "set_metadata",
        "list",
    )
)
"""The operations a fault can be aimed at; `*` aims at all of them."""

KINDS = {
    "busy_503": "503 ServerBusy with Retry-After; no effect",
    "error_500": "500 OperationTimedOut; no effect",
    "reset": "the connection is reset, without an answer; no effect",
    "reply_lost": "the request takes effect, then the connection closes without an answer",
    "receipt_mismatch": "400 PopReceiptMismatch; no effect",
    "not_found": "404 MessageNotFound; no effect",
    "delivered_twice": "the messages are leased, and stay visible to the next dequeue as well",
    "slow": "the request takes effect at once, its answer comes `seconds` later",
    "forbidden": "403 AuthorizationPermissionMismatch; no effect",
    "unauthorized": "401 InvalidAuthenticationInfo; no effect",
    "broken_xml": "the messages are leased, and one body in the answer holds a raw U+0001",
}
"""What can go wrong, by name."""

_DEQUEUE = frozenset({"dequeue"})
_WITH_RECEIPT = frozenset({"delete", "update"})
_ONLY_FOR = {
    "delivered_twice": _DEQUEUE,
    "broken_xml": _DEQUEUE,
    "receipt_mismatch": _WITH_RECEIPT,
    "not_found": _WITH_RECEIPT,
}
_NEEDS_MESSAGES = frozenset({"delivered_twice", "broken_xml"})


@dataclass(frozen=True)
class Fault:
    """One line of a script: these requests go wrong in this way.

    `op` is one of `OPERATIONS` or `*`, `kind` one of `KINDS`, `queue` a queue's name (default:
    any). Of the requests that match, counted from 1, it hits the `nth`, or `every` so many, or
    each with the probability `rate`; with none of the three, all; in any case at most `times`.
    `seconds` is the delay of `slow` and the Retry-After of `busy_503`. A fault that spoils
    messages ("delivered_twice", "broken_xml") counts only dequeues that find some.

    Raises ValueError for what cannot be meant.
    """

    op: str
    kind: str
    nth: int | None = None
    every: int | None = None
    rate: float | None = None
    times: int | None = None
    queue: str | None = None
    seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.op != "*" and self.op not in OPERATIONS:
            raise ValueError(f"no operation {self.op!r}; there are {sorted(OPERATIONS)} and '*'")
        if self.kind not in KINDS:
            raise ValueError(f"no kind of fault {self.kind!r}; there are {sorted(KINDS)}")
        if self.op != "*" and self.op not in _ONLY_FOR.get(self.kind, OPERATIONS):
            raise ValueError(f"{self.kind} cannot happen to {self.op}")
        if sum(choice is not None for choice in (self.nth, self.every, self.rate)) > 1:
            raise ValueError("nth, every and rate exclude each other")
        if any(n is not None and n < 1 for n in (self.nth, self.every, self.times)):
            raise ValueError("nth, every and times count from 1")
        if self.rate is not None and not 0 <= self.rate <= 1:
            raise ValueError(f"rate is a probability, 0 to 1, not {self.rate}")
        if self.seconds < 0:
            raise ValueError(f"seconds cannot be negative: {self.seconds}")

    def matches(self, op: str, queue: str, *, finds_messages: bool) -> bool:
        """Tell whether a request is one of those this fault counts."""
        return (
            self.op in ("*", op)
            and op in _ONLY_FOR.get(self.kind, OPERATIONS)
            and self.queue in (None, queue)
            and (finds_messages or self.kind not in _NEEDS_MESSAGES)
        )


class Verdict(NamedTuple):
    """What is to happen to one request."""

    fault: Fault | None = None
    """The fault that hits it, never a "slow" one."""
    delay: float = 0.0
    """Seconds its answer is held back: the sum of the "slow" faults that hit it."""


class _Line:
    """A fault with its own counts and its own random numbers."""

    def __init__(self, fault: Fault, seed: str) -> None:
        self.fault = fault
        self._random = random.Random(seed)
        self._matched = 0
        self._hits = 0

    def due(self) -> bool:
        """Count one matching request; tell whether it is one to hit."""
        self._matched += 1
        fault = self.fault
        if fault.nth is not None:
            chosen = self._matched == fault.nth
        elif fault.every is not None:
            chosen = self._matched % fault.every == 0
        else:
            chosen = fault.rate is None or self._random.random() < fault.rate
        return chosen and (fault.times is None or self._hits < fault.times)

    def hit(self) -> None:
        self._hits += 1


class FaultScript:
    """Faults in force, to be changed while requests run. Thread-safe.

    Each fault draws from its own random numbers, made from `seed` and its place in the order of
    `add`; so the same requests in the same order meet the same faults.
    """

    def __init__(self, faults: Iterable[Fault] = (), *, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._seed = seed
        self._added = 0
        self._lines: list[_Line] = []
        self._injected: Counter[str] = Counter()
        self.add(*faults)

    def add(self, *faults: Fault) -> None:
        """Put faults in force, after those already there."""
        with self._lock:
            for fault in faults:
                self._lines.append(_Line(fault, f"{self._seed}/{self._added}"))
                self._added += 1

    def clear(self) -> None:
        """Lift all faults; what was counted stays."""
        with self._lock:
            self._lines.clear()

    @property
    def injected(self) -> Counter[str]:
        """How many requests each kind has hit, as a copy."""
        with self._lock:
            return self._injected.copy()

    def reset_counters(self) -> None:
        """Set `injected` back to nothing; the faults and their `nth` and `times` go on."""
        with self._lock:
            self._injected.clear()

    def judge(self, op: str, queue: str, *, finds_messages: bool) -> Verdict:
        """Say what happens to a request; `finds_messages`: a dequeue that has something to lease.

        Where several faults are due the first added wins, and the others miss their turn; only
        "slow" goes together with any other.
        """
        if not self._lines:
            return Verdict()
        chosen: Fault | None = None
        delay = 0.0
        with self._lock:
            for line in self._lines:
                fault = line.fault
                if not fault.matches(op, queue, finds_messages=finds_messages) or not line.due():
                    continue
                if fault.kind == "slow":
                    delay += fault.seconds
                elif chosen is None:
                    chosen = fault
                else:
                    continue
                line.hit()
                self._injected[fault.kind] += 1
        return Verdict(chosen, delay)
