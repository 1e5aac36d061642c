"""Names of the objects of a transaction log. Pure values.

txn/<key>-<number>                     head of a record, put if absent: the moment of commit
txn/<key>-<number>-<run>               start of a run: <number> was the newest, or the run's first
txn/<key>-<number>-<nonce>-p<part>     receipts of this record that do not fit into its head
txn/<key>-<number>-<nonce>-m<count>    mark: its first <count> messages need no publishing any more

Numbers have 19 digits, so names sort by number. A key identifies one writer: a query, or a
`txnAppId` with its queue. A nonce identifies one attempt to write a transaction.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import NamedTuple

from spark_azqueue.journal.codec import digest_of

FOLDER = "txn"

STREAMS = "s"
"""First letter of the key of a stream."""

_BATCHES = "t"

HIGHEST_TXN_VERSION = 2**63 - 1
"""Highest number: `txnVersion` is a long, as in Delta."""


class ObjectKind(enum.Enum):
    """Kind of an object."""

    RECORD = ""
    START = "-run"
    PART = "-p"
    MARK = "-m"


class RecordName(NamedTuple):
    """Parts of an object's name. tag: run of a start object, or nonce of a part or mark. amount:
    last number in the name."""

    name: str
    kind: ObjectKind
    key: str
    number: int
    tag: str = ""
    amount: int = 0


_NAME = re.compile(
    FOLDER + r"/([st][0-9a-f]{32})-([0-9]{19})(?:-([0-9a-f]{32})(?:-([pm])([0-9]{6,12}))?)?"
)


class Transaction(NamedTuple):
    """Identity of a transaction: the key of its writer, and its number. A number is written
    once."""

    key: str
    number: int

    @property
    def is_batch_of_stream(self) -> bool:
        """False for a batch write."""
        return self.key.startswith(STREAMS)

    def __str__(self) -> str:
        return f"{self.key}-{self.number:019d}"


def stream_key(query_id: str) -> str:
    """Return the key of a query. query_id: the query's UUID from Spark. Raises ValueError if the id
    is not a UUID."""
    digits = query_id.replace("-", "").lower()
    if not re.fullmatch(r"[0-9a-f]{32}", digits):
        raise ValueError(f"{query_id!r} is no id of a query")
    return STREAMS + digits


def batch_key(account: str, queue: str | None, app_id: str) -> str:
    """Return the key of batch writes.

    The key contains the queue, so writes of one batch to two queues are two transactions.
    """
    whole = "\n".join((account, queue or "", app_id))
    return _BATCHES + digest_of(whole.encode())


def record(transaction: Transaction) -> str:
    """Name of a record's head."""
    return f"{FOLDER}/{transaction}"


def start(key: str, newest: int, run: str) -> str:
    """Name of the start object of a run."""
    return f"{FOLDER}/{key}-{newest:019d}-{run}"


def part(transaction: Transaction, nonce: str, number: int) -> str:
    """Name of a part of a record."""
    return f"{FOLDER}/{transaction}-{nonce}-p{number:06d}"


def progress_mark(transaction: Transaction, nonce: str, count: int) -> str:
    """Name of a mark of how many messages need no publishing any more."""
    return f"{FOLDER}/{transaction}-{nonce}-m{count:012d}"


def as_record_name(name: str) -> RecordName | None:
    """Parse the name of an object. Returns None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    key, number, tag, letter, count = found.groups()
    kind = ObjectKind(f"-{letter}") if letter else ObjectKind.START if tag else ObjectKind.RECORD
    return RecordName(name, kind, key, int(number), tag or "", int(count or 0))


def all_parsed(listed: Iterable[str]) -> tuple[RecordName, ...]:
    """Parse the names in a listing. Names of other objects are left out."""
    return tuple(filter(None, map(as_record_name, listed)))


def records_in(listed: Iterable[RecordName]) -> dict[str, list[int]]:
    """Return the recorded numbers of each key, ascending."""
    found: dict[str, list[int]] = {}
    for each in listed:
        if each.kind is ObjectKind.RECORD:
            found.setdefault(each.key, []).append(each.number)
    return {key: sorted(numbers) for key, numbers in found.items()}


def starts_in(listed: Iterable[RecordName]) -> dict[tuple[str, str], int]:
    """Return, for each run, the newest number when the run began.

    If a run wrote several start objects, the lowest number is returned.
    """
    found: dict[tuple[str, str], int] = {}
    for each in listed:
        if each.kind is ObjectKind.START:
            run = each.key, each.tag
            found[run] = min(each.number, found.get(run, each.number))
    return found


def marked_in(listed: Iterable[RecordName], transaction: Transaction, nonce: str, most: int) -> int:
    """Return how many messages of this record need no publishing any more.

    most: number of messages of the record.
    """
    mark = (ObjectKind.MARK, *transaction, nonce)
    return max(
        (
            each.amount
            for each in listed
            if (each.kind, each.key, each.number, each.tag) == mark and each.amount <= most
        ),
        default=0,
    )
