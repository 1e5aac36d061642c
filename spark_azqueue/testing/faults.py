"""Simulated faults. A script and a seed decide which requests fail, and how."""

from __future__ import annotations

import math
import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

OPERATIONS = frozenset(
    (
        *("dequeue", "delete", "update", "put", "peek", "properties", "create", "clear"),
        *("delete_queue", "set_metadata", "list"),
        *("put_blob", "get_blob", "list_blobs", "delete_blob"),
        *("create_container", "delete_container"),
    )
)
"""The operations to which a fault can apply; `*` means all of them."""

KINDS = {
    "busy_503": "503 ServerBusy; no effect",
    "busy_429": "429 TooManyRequests; no effect",
    "error_500": "500 OperationTimedOut; no effect",
    "reset": "the connection is reset, without an answer; no effect",
    "reply_lost": "the request takes effect, then the connection closes without an answer",
    "receipt_mismatch": "400 PopReceiptMismatch; no effect",
    "not_found": "404 MessageNotFound; no effect",
    "delivered_twice": "the messages are leased, and stay visible to the next dequeue as well",
    "late": "the connection closes without an answer; the blob appears `seconds` later",
    "being_deleted": "the queue is deleted; its name gets 409 QueueBeingDeleted for `seconds`",
    "slow": "the request takes effect at once, its answer comes `seconds` later",
    "forbidden": "403 AuthorizationPermissionMismatch; no effect",
    "unauthorized": "401 InvalidAuthenticationInfo; no effect",
    "broken_xml": "the messages are leased, and one body in the answer holds a raw U+0001",
}
"""The kinds of faults, with their effects."""

_DEQUEUE = frozenset({"dequeue"})
_WITH_RECEIPT = frozenset({"delete", "update"})
_ONLY_FOR = {
    "delivered_twice": _DEQUEUE,
    "broken_xml": _DEQUEUE,
    "receipt_mismatch": _WITH_RECEIPT,
    "not_found": _WITH_RECEIPT,
    "late": frozenset({"put_blob"}),
    "being_deleted": frozenset({"delete_queue"}),
}
_SECONDS = {"being_deleted": 40.0}
_NEEDS_MESSAGES = frozenset({"delivered_twice", "broken_xml"})


@dataclass(frozen=True)
class Fault:
    """A rule for requests that fail, and for the kind of failure.

    `op` is one of `OPERATIONS` or `*`, `kind` one of `KINDS`, `queue` a queue's name (default:
    any). The fault hits the `nth` matching request (from 1), or every `every`-th, or each with the
    probability `rate`, or all. `times`: maximum number of hits. `seconds`: duration of `slow` and
    `late` (default: 1) and `being_deleted` (default: 40, by the fake's clock), or the Retry-After
    of `busy_503` and `busy_429` (default: none). "delivered_twice" and "broken_xml" count only
    dequeues that find messages. Raises ValueError for invalid or contradictory values.
    """

    op: str
    kind: str
    nth: int | None = None
    every: int | None = None
    rate: float | None = None
    times: int | None = None
    queue: str | None = None
    seconds: float | None = None

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
        if self.seconds is not None and self.seconds < 0:
            raise ValueError(f"seconds cannot be negative: {self.seconds}")


def duration_of(fault: Fault) -> float:
    """Return the duration of a fault: its `seconds`, or the default of its kind."""
    return _SECONDS.get(fault.kind, 1.0) if fault.seconds is None else fault.seconds


def retry_after(fault: Fault | None) -> tuple[tuple[str, str], ...]:
    """Return the Retry-After header that a fault adds to the answer, in whole seconds; () for no
    header.
    """
    if fault is None or fault.seconds is None or fault.kind not in ("busy_503", "busy_429"):
        return ()
    return (("Retry-After", str(math.ceil(fault.seconds))),)


class FaultEffect(NamedTuple):
    """Combined effect of the faults on one request."""

    fault: Fault | None = None
    """The fault that hits the request. Never a fault of the kind "slow"."""
    delay: float = 0.0
    """Delay of the answer in seconds: the sum of the "slow" faults that hit the request."""


class _Line:
    """An active fault, with its own counters and random numbers."""

    def __init__(self, fault: Fault, seed: str) -> None:
        self.fault = fault
        self._random = random.Random(seed)
        self._matched = 0
        self._hits = 0

    def matches(self, op: str, queue: str, *, finds_messages: bool) -> bool:
        """Return True if the fault applies to this request, so that the request counts for `nth`
        and `every`."""
        fault = self.fault
        return (
            fault.op in ("*", op)
            and op in _ONLY_FOR.get(fault.kind, OPERATIONS)
            and fault.queue in (None, queue)
            and (finds_messages or fault.kind not in _NEEDS_MESSAGES)
        )

    def due(self) -> bool:
        """Count a matching request. Return True if the fault hits the request."""
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
    """The active faults. Faults can be changed while requests run. Thread-safe.

    If the requests and their order are the same, the faults are the same. `seed` determines the
    random numbers.
    """

    def __init__(self, faults: Iterable[Fault] = (), *, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._seed = seed
        self._added = 0
        self._lines: list[_Line] = []
        self._injected: Counter[str] = Counter()
        self.add(*faults)

    def add(self, *faults: Fault) -> None:
        """Add faults after the active ones."""
        with self._lock:
            for fault in faults:
                self._lines.append(_Line(fault, f"{self._seed}/{self._added}"))
                self._added += 1

    def clear(self) -> None:
        """Remove all faults. `injected` keeps its counts."""
        with self._lock:
            self._lines.clear()

    @property
    def injected(self) -> Counter[str]:
        """Number of requests that were hit by each kind of fault, as a copy."""
        with self._lock:
            return self._injected.copy()

    def reset_counters(self) -> None:
        """Reset `injected`. The faults and their counts for `nth` and `times` stay."""
        with self._lock:
            self._injected.clear()

    def judge(self, op: str, queue: str, *, finds_messages: bool) -> FaultEffect:
        """Return the faults for a request. finds_messages: True for a dequeue that can lease
        messages.

        If several faults are due, the fault that was added first applies. "slow" combines with any
        other fault.
        """
        if not self._lines:
            return FaultEffect()
        chosen: Fault | None = None
        delay = 0.0
        with self._lock:
            for line in self._lines:
                fault = line.fault
                if not line.matches(op, queue, finds_messages=finds_messages) or not line.due():
                    continue
                if fault.kind == "slow":
                    delay += duration_of(fault)
                elif chosen is None:
                    chosen = fault
                else:
                    continue
                line.hit()
                self._injected[fault.kind] += 1
        return FaultEffect(chosen, delay)
