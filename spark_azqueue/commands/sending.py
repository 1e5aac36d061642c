"""Puts texts into a queue, at least once. Needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple

from spark_azqueue.errors import AzQueueError, InvalidRow, ServiceError
from spark_azqueue.service.messages import MAX_PER_REQUEST, Lease, QueueRef
from spark_azqueue.service.queues.calls import Put
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import results_of
from spark_azqueue.service.retry import SEND
from spark_azqueue.service.wire.calls import Call

from .scan import End, ScanCounts, step_of
from .transfer import TransferResult, is_of_this_message

AT_ONCE = 1_000
"""Maximum number of messages in a group. All messages of a group must be acknowledged before
further lines are read.
"""


class Outgoing(NamedTuple):
    """A text to put. place: number of the line or batch of the text. Places never decrease.

    rows: the lines in the pack; None if the text is not a pack.
    """

    place: int
    text: str
    rows: Sequence[str] | None = None


Groups = Iterable[Sequence[Outgoing]]


@dataclass
class Sending:
    """One run. Used by one thread.

    stop: event that ends the run when the requests in flight are answered. watch: called when the
    tally has changed. kind: what `place` counts, such as "line". skips: True to skip messages that
    the service refuses. most: maximum number of concurrent requests.
    """

    client: QueueClient
    queue: QueueRef
    tally: ScanCounts
    stop: Event
    watch: Callable[[ScanCounts], object]
    kind: str
    delay_s: int = 0
    ttl_s: int | None = None
    rate: int | None = None
    skips: bool = False
    most: int | None = None
    first_left: int = field(default=0, init=False)
    """Place of the first message that was not acknowledged; 0 if all messages were acknowledged."""

    def run(self, groups: Groups) -> TransferResult:
        """Send the messages, one group after the other.

        An error ends the run, and is returned in the result.
        """
        why, error = End.DONE, None
        step = AT_ONCE if self.rate is None else step_of(self.rate)
        try:
            for group in groups:
                for start in range(0, len(group), step):
                    if not self.first_left:
                        self._send(group[start : start + step])
                if self.first_left:
                    break
        except AzQueueError as raised:
            why, error = End.FAILED, raised
        if self.stop.is_set() and not error:
            why = End.INTERRUPTED
        return TransferResult(self.tally, why, error)

    def _send(self, group: Sequence[Outgoing]) -> None:
        """Send these messages.

        Raises the first error that ends the run, after all requests have ended.
        """
        begun_at = time.monotonic()
        left = set(range(len(group)))
        fatal: list[Exception] = []

        def note(error: ServiceError) -> None:
            self.tally.maybe_twice += error.may_have_taken_effect

        def calls() -> Iterator[tuple[int, Call[Lease | None]]]:
            for index, each in enumerate(group):
                if self.stop.is_set() or fatal:
                    return
                yield index, Put(self.queue, each.text, self.delay_s, self.ttl_s)

        try:
            for index, result in results_of(
                self.client, calls(), SEND.noting(note), most=self.most or MAX_PER_REQUEST
            ):
                if not isinstance(result, Exception):
                    self.tally.done += 1
                    left.discard(index)
                    continue
                if isinstance(result, ServiceError):
                    note(result)
                if is_of_this_message(result):
                    self.tally.broken += 1
                    result = InvalidRow(
                        f"the message of {self.kind} {group[index].place:,} was refused: {result}"
                    )
                    if self.skips:
                        left.discard(index)
                        continue
                fatal.append(result)
        finally:
            if left:
                self.first_left = group[min(left)].place
            self.watch(self.tally)
        if fatal:
            raise fatal[0]
        if self.rate:
            self.stop.wait(max(0.0, len(group) / self.rate - (time.monotonic() - begun_at)))
