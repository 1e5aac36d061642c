"""Transaction log: reads, writes and removes the objects of one folder.

This module makes no decisions: `listing.py` interprets a listing, and `commit.py` defines the order
of the steps.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark_azqueue.errors import LogDamaged, ServiceError
from spark_azqueue.journal.codec import HIGHEST, LATEST, Damaged, sealed, unsealed
from spark_azqueue.journal.frame import check_count, codec, unpacked
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.messages import check_once, joined, listed, numbers, read_numbers
from spark_azqueue.journal.refusals import vanished
from spark_azqueue.journal.store import LogStore, log_store
from spark_azqueue.options.transaction import TransactionConfig
from spark_azqueue.service.account import Account
from spark_azqueue.service.fields import MAX_ID, MAX_RECEIPT, is_message_id, is_receipt
from spark_azqueue.service.messages import Lease, QueueRef, is_queue_name
from spark_azqueue.service.names import TRANSACTIONS

from . import names
from .listing import Listing
from .names import Transaction
from .record import (
    CHUNK_AT_MOST,
    CHUNK_ROWS,
    PART_BYTES,
    RECORD_HEAD_AT_MOST,
    Chunk,
    Hidden,
    RecordHead,
    chunks_in,
)
from .refusals import foreign_queues

log = logging.getLogger(__name__)

_LONGEST_NAME = 63


def chunks_of(hidden: Sequence[Hidden]) -> tuple[Chunk, ...]:
    """Pack these messages into chunks."""
    return tuple(_packed(hidden[at : at + CHUNK_ROWS]) for at in range(0, len(hidden), CHUNK_ROWS))


def _packed(hidden: Sequence[Hidden]) -> Chunk:
    queues = list(dict.fromkeys(each.lease.queue.name for each in hidden))
    place = {name: number for number, name in enumerate(queues)}
    columns = (
        numbers("I", [len(queues)]),
        "\n".join(queues).encode("ascii"),
        numbers("I", [place[each.lease.queue.name] for each in hidden]),
        "\n".join([each.lease.message_id for each in hidden]).encode("ascii"),
        "\n".join([each.lease.pop_receipt for each in hidden]).encode("ascii"),
        numbers("q", [each.due for each in hidden]),
        numbers("q", [each.expires for each in hidden]),
    )
    raw = joined(columns)
    return Chunk(len(hidden), len(raw), codec().compress(raw, asbytes=True))


def unpack_chunk(chunk: Chunk, account: str) -> list[Hidden]:
    """Unpack the messages of a chunk. account: storage account of the queues. Raises Damaged."""
    count = chunk.rows
    check_count(count, chunk.data)
    with unpacked(chunk.data, chunk.size) as stream:
        (named,) = read_numbers("I", stream, 1)
        if not 0 < named <= count:
            raise Damaged("it names more queues than messages")
        names = listed(stream, named, "queues", is_queue_name, _LONGEST_NAME)
        places = read_numbers("I", stream, count)
        ids = listed(stream, count, "message ids", is_message_id, MAX_ID)
        check_once(places, ids)
        receipts = listed(stream, count, "pop receipts", is_receipt, MAX_RECEIPT)
        due, expires = (read_numbers("q", stream, count) for _ in range(2))
    if any(place >= named for place in places):
        raise Damaged("a message is of a queue that it does not name")
    if any(not 0 <= time < LATEST for times in (due, expires) for time in times):
        raise Damaged("a time is not valid")
    queues = [QueueRef(account, name) for name in names]
    leases = map(Lease, (queues[place] for place in places), ids, receipts)
    return list(map(Hidden, leases, due, expires))


_PART_AT_MOST = PART_BYTES + CHUNK_AT_MOST
_MARK_AT_MOST = 4_096

_READ_BELOW = 20
"""Maximum number of older records that are read before a removal.

Only older records that the newest record does not name as written are read.
"""


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """Head of a record, and the chunks that are stored in the head."""

    head: RecordHead
    inline: bytes


class TransactionLog(Journal):
    """Transaction log in one folder.

    Keeps only the id of the folder in memory; all other state is in the folder.
    """

    def __init__(
        self, store: LogStore, account: str, queues: Collection[str] | None = None
    ) -> None:
        """account: storage account of the queues. queues: names of the queues that messages may
        have; None for any queue of the account.

        Nothing is sent before the first method is called.
        """
        super().__init__(store, account, names.FOLDER)
        self._queues = queues

    @classmethod
    def of(
        cls,
        settings: TransactionConfig,
        account: Account,
        store: LogStore | None = None,
        within_s: float | None = None,
        queues: Collection[str] | None = None,
    ) -> TransactionLog:
        """Return the log that these options name.

        account: storage account of the queues. store: replaces the store that the options name.
        within_s: see `log_store`. queues: see `__init__`.
        """
        store = store or log_store(settings.place, settings.account, TRANSACTIONS, within_s)
        return cls(store, account.name, queues)

    def listing(self, prefix: str) -> Listing:
        """List the objects of all keys that begin with `prefix`."""
        return Listing.of(self.where, self.store.names(names.FOLDER, prefix))

    def record(self, transaction: Transaction) -> TransactionRecord | None:
        """Read the record of this transaction. Returns None if there is no record."""

        def parse(data: bytes) -> TransactionRecord:
            record = TransactionRecord(*RecordHead.from_bytes(data, transaction))
            if record.head.account != self.account:
                raise Damaged("it is of another account")
            return record

        return self.read(names.record(transaction), RECORD_HEAD_AT_MOST, parse)

    def begin(self, key: str, newest: int, run: str) -> None:
        """Write the start object of this run, with the newest number."""
        self.store.put_new(names.start(key, newest, run), sealed({"version": 1}))

    def put_parts(self, head: RecordHead, parts: Sequence[bytes]) -> None:
        """Store the parts of a record. Must be called before `put_head`."""
        for number, data in enumerate(parts):
            name = names.part(head.transaction, head.nonce, number)
            self.store.put_new(
                name, data
            )  # the name has the nonce, so an existing part is of this attempt

    def put_head(self, record: TransactionRecord) -> bool:
        """Record a transaction, which commits it. Returns False if the transaction was already
        recorded.

        Raises ServiceError. If the error's `may_have_taken_effect` is True, the record may exist,
        or may appear later.
        """
        name = names.record(record.head.transaction)
        return self.store.put_new(name, record.head.to_bytes(record.inline))

    def need_record(self, transaction: Transaction) -> TransactionRecord:
        """Return a record that a listing has just shown. Raises LogDamaged if the record is
        missing."""
        found = self.record(transaction)
        if found is None:
            raise vanished(self.store, names.record(transaction))
        return found

    def mark(self, head: RecordHead, count: int, notes: dict[str, Any]) -> None:
        """Mark that the first `count` messages need no publishing any more. notes: values for
        people."""
        value = {"version": 1, "nonce": head.nonce, "count": count, **notes}
        self.store.put_new(names.progress_mark(head.transaction, head.nonce, count), sealed(value))

    def last_show(self, head: RecordHead) -> dict[str, float]:
        """Return the notes of the final mark; {} without a final mark.

        The notes are for people. No decision may use them, because any program with write access to
        the folder may have changed them. Only notes that are numbers are returned.
        """
        data = self.store.get(
            names.progress_mark(head.transaction, head.nonce, head.rows), _MARK_AT_MOST
        )
        try:
            found = unsealed(data) if data else {}
        except Damaged:
            return {}
        if not isinstance(found, dict):
            return {}
        return {
            name: value
            for name, value in found.items()
            if type(value) in (int, float) and 0 <= value <= HIGHEST
        }

    def hidden(self, record: TransactionRecord, skip: int) -> Iterator[list[Hidden]]:
        """Yield the messages of a record, chunk by chunk, without the first `skip` messages.

        Raises LogDamaged for damage, and for a missing part. The caller must check whether another
        process has marked all messages in the meantime. In this case, a missing part is no damage.
        Raises LogConflict if a message is in a queue that the options do not name.
        """
        left = skip
        for part, refs in record.head.chunks_by_part():
            over = 0
            while over < len(refs) and refs[over].rows <= left:
                left -= refs[over].rows
                over += 1
            if over == len(refs):
                continue
            name = names.record(record.head.transaction)
            data = record.inline
            if part >= 0:
                name = names.part(record.head.transaction, record.head.nonce, part)
                data = self._part(name, sum(each.packed for each in refs))
            try:
                for chunk in chunks_in(refs, data, over):
                    hidden = unpack_chunk(chunk, self.account)
                    self._check_queues(record.head, hidden)
                    yield hidden[left:]
                    left = 0
            except Damaged as error:
                raise self.damaged(name, error) from None

    def queues(self, record: TransactionRecord, skip: int) -> set[str]:
        """Return the queues of the record's messages, without the first `skip` messages.

        Raises the errors of `hidden`.
        """
        return {each.lease.queue.name for chunk in self.hidden(record, skip) for each in chunk}

    def _check_queues(self, head: RecordHead, hidden: Sequence[Hidden]) -> None:
        """Raise LogConflict for queues that the options do not name.

        A program with write access to the folder could add any queue to a record.
        """
        if self._queues is None:
            return
        if foreign := sorted({each.lease.queue.name for each in hidden}.difference(self._queues)):
            raise foreign_queues(self.where, about(head), foreign)

    def check(self, record: TransactionRecord, skip: int) -> None:
        """Read all messages that `hidden` would yield. So errors are raised before any message is
        published."""
        for _ in self.hidden(record, skip):
            pass

    def _part(self, name: str, size: int) -> bytes:
        data = self.need(name, min(size, _PART_AT_MOST), bytes)
        if len(data) != size:
            raise self.damaged(name, "it has another size than its record says")
        return data

    def clean(self, head: RecordHead, listing: Listing) -> None:
        """Remove objects that are not needed after this record is published. listing: made before
        the publishing.

        Heads are removed first, because parts without a head are never read. If a record may be
        unfinished, all its objects are kept. If a removal fails, the next call repeats the removal.
        """
        try:
            over = listing.outlived_by(head, self.finished(listing, head))
        except ServiceError as error:
            log.warning("could not read an old record: %s", error)
            return
        own = {names.part(head.transaction, head.nonce, each.part) for each in head.chunks}
        listed = {each.name for each in listing.listed}
        self.remove([*over, *sorted(own & listed)])

    def finished(self, listing: Listing, head: RecordHead) -> set[int]:
        """Return the lower numbers whose records are finished, although this record does not name
        them as written.

        Only the highest of these records are read, so that many old records do not slow each batch.
        """
        found = set()
        for each in listing.not_written(head)[:_READ_BELOW]:
            try:
                record = self.record(each)
            except LogDamaged as error:
                log.warning("an old record stays: %s", error)
                continue
            if record and listing.is_finished(record.head):
                found.add(each.number)
        return found


def about(head: RecordHead) -> str:
    """Return a description of the transaction, for messages."""
    what = "batch" if head.transaction.key.startswith(names.STREAMS) else "txnVersion"
    who = "query" if head.transaction.key.startswith(names.STREAMS) else "txnAppId"
    return f"{what} {head.transaction.number} of {who} {json.dumps(head.about)}"
