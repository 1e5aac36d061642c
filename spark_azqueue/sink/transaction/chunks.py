"""Packs what a task put hidden, and reads it back.

The messages travel in chunks of columns, compressed. What is read back is checked value by value:
whoever may write to the log's folder controls it, and ids and receipts become parts of URLs.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_azqueue.journal.codec import Damaged
from spark_azqueue.journal.frame import codec, unpacked
from spark_azqueue.journal.messages import joined, listed, numbers, read_numbers
from spark_azqueue.service.fields import MAX_ID, MAX_RECEIPT, is_message_id, is_receipt
from spark_azqueue.service.messages import Lease, QueueRef, is_queue_name

from .hidden import CHUNK_ROWS, LATEST, Chunk, Hidden

_LONGEST_NAME = 63


def chunks_of(hidden: Sequence[Hidden]) -> tuple[Chunk, ...]:
    """Pack these messages."""
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


def unpack(chunk: Chunk, account: str) -> list[Hidden]:
    """The messages again. account: of their queues. Raises Damaged."""
    count = chunk.rows
    with unpacked(chunk.data, chunk.size) as stream:
        (named,) = read_numbers("I", stream, 1)
        if not 0 < named <= count:
            raise Damaged("it names more queues than messages")
        names = listed(stream, named, "queues", is_queue_name, _LONGEST_NAME)
        places = read_numbers("I", stream, count)
        ids = listed(stream, count, "message ids", is_message_id, MAX_ID)
        receipts = listed(stream, count, "pop receipts", is_receipt, MAX_RECEIPT)
        due, expires = (read_numbers("q", stream, count) for _ in range(2))
    if any(place >= named for place in places):
        raise Damaged("a message is of a queue that it does not name")
    if any(not 0 <= time < LATEST for times in (due, expires) for time in times):
        raise Damaged("a time is not valid")
    queues = [QueueRef(account, name) for name in names]
    leases = map(Lease, (queues[place] for place in places), ids, receipts)
    return list(map(Hidden, leases, due, expires))
