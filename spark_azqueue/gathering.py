"""Makes one micro-batch: leases messages, asks the ledger about each, decodes, cuts partitions.

If anything goes wrong on the way, everything leased for the batch is given back. Ring: edge.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from . import arrow
from .arrow import Row
from .columns import Columns
from .config import SourceConfig
from .cutoff import Cutoff
from .errors import AzQueueError, UndecodableBody
from .leases import Lease
from .ledger import Fate, Ledger
from .messages import Message, decode
from .options import OnUndecodable
from .receiving import Receiver
from .retry import Retry
from .settling import Settler

log = logging.getLogger(__name__)

_GIVE_BACK_S = 3.0
"""For giving back what was leased in vain: the process may have only seconds left."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A gathered micro-batch. `oldest`: earliest insertion time, seconds since 1970."""

    leases: tuple[Lease, ...]
    partitions: list[bytes]
    oldest: int


class Gatherer:
    """Gathers one batch after another. `lock` guards the ledger (the settler reports into it)."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        receiver: Receiver,
        settler: Settler,
        ledger: Ledger,
        lock: threading.Lock,
    ) -> None:
        self._config = config
        self._columns = columns
        self._receiver = receiver
        self._settler = settler
        self._ledger = ledger
        self._lock = lock
        self.cutoff: Cutoff | None = None
        """Set for an availableNow run."""

    def gather(self, number: int, most: int) -> Batch | None:
        """Lease up to `most` messages as batch `number`; None where there are none.

        Raises ServiceError, or UndecodableBody with onUndecodable=fail: nothing stays leased then
        (as far as the service can still be reached).
        """
        unwanted: list[Lease] = []
        try:
            rows = [
                decoded(message, self._config) for message in self._lease(number, most, unwanted)
            ]
            partitions = arrow.partitions(rows, self._columns, self._config.messages_per_partition)
        except BaseException:
            self._give_back(number, unwanted)
            raise
        if unwanted:
            self._settler.release(unwanted)
        if not rows:
            return None
        with self._lock:
            leases = tuple(self._ledger.held(number))
        if self.cutoff:
            self.cutoff.gave_out(lease.message_id for lease in leases)
        oldest = min(row.message.insertion_time for row in rows) // 1_000_000
        return Batch(leases, partitions, oldest)

    def _lease(self, number: int, most: int, unwanted: list[Lease]) -> list[Message]:
        """Dequeue and sort: new messages are returned, copies dealt with, the rest `unwanted`."""
        new: list[Message] = []
        size = 0
        cutoff = self.cutoff
        if cutoff:
            cutoff.begin_look()

        def room() -> int:
            full = size >= self._config.max_bytes or (cutoff is not None and cutoff.reached)
            return 0 if full else most - len(new)

        for page in self._receiver.look(
            self._config.visibility_timeout, room, until_empty=cutoff is not None
        ):
            for message in page.messages:
                lease = Lease(message.queue, message.message_id, message.pop_receipt or "")
                if cutoff and not cutoff.wants(message):
                    unwanted.append(lease)
                    continue
                with self._lock:
                    fate = self._ledger.dequeued(message, number)
                    if fate is Fate.ROW and cutoff and cutoff.was_given_out(message):
                        self._ledger.drop(lease)
                        unwanted.append(lease)
                        continue
                if fate is Fate.ROW:
                    new.append(message)
                    size += message.size
                elif fate is Fate.DELETE:
                    self._settler.begin([lease])
        return new

    def _give_back(self, number: int, unwanted: list[Lease]) -> None:
        with self._lock:
            leases = self._ledger.forget(number)
        leases += unwanted
        leases += [
            Lease(orphan.queue, orphan.message_id, orphan.pop_receipt or "")
            for orphan in self._receiver.orphans
        ]
        try:
            self._settler.release(leases, Retry(_GIVE_BACK_S), timeout_s=_GIVE_BACK_S)
        except (AzQueueError, TimeoutError) as error:
            log.warning(
                "not all of %d leased messages could be given back (%s); they become visible"
                " again within %d s",
                len(leases),
                error,
                self._config.visibility_timeout,
            )


def decoded(message: Message, config: SourceConfig, *, leased: bool = True) -> Row:
    """The row of a message. Raises UndecodableBody with onUndecodable=fail."""
    try:
        if not message.intact:
            raise UndecodableBody("the service's answer was damaged within this message")
        return Row(message, decode(message.text, config.encoding, config.body_type))
    except UndecodableBody as error:
        if config.on_undecodable is OnUndecodable.PERMISSIVE:
            return Row(message, None, corrupt=message.text)
        back = " It is back in the queue, as is all that was leased with it." if leased else ""
        raise UndecodableBody(
            f"message {message.message_id} in queue '{message.queue}' cannot be decoded:"
            f" {error}.{back} Set messageEncoding to what the sender uses (now"
            f" {config.encoding.value}), or onUndecodable=permissive to get such messages as rows"
            " with _corrupt_record"
        ) from error
