"""Pending deletes of a log: messages whose rows were delivered, and that may be dequeued again.
Pure values."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from spark_azqueue.service.fields import is_message_id
from spark_azqueue.service.messages import MessageKey

from .codec import LATEST, Coded, Damaged, queue, several

PENDING_AT_MOST = 50_000
"""Maximum number of pending deletes in a header or a list; the newest are kept.

A kill can leave pending deletes of two batches. If such a message still exists, it becomes visible
when its lease ends. So this limit is enough for several kills within the length of a lease.
"""


MESSAGE_BYTES = 192
"""Maximum size of a message in a list, in bytes: its queue (63), its id (64), a fingerprint, a
time, and punctuation."""

MESSAGE_VALUES = 5
"""Number of JSON values of a message in a list, including the JSON list around them."""

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def fingerprint(text: str) -> int:
    """Return a 64-bit hash that shows whether a message's text was updated.

    Every process computes the same hash, so a restarted query recognizes a message. The hash is
    never shown, and never used as a key.
    """
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class PendingDelete:
    """A message whose rows were delivered, and whose delete was not confirmed.

    fingerprint: hash of the message's text, see `fingerprint`. expires: expiry of the message in
    seconds since 1970; 0 if unknown.
    """

    key: MessageKey
    fingerprint: int
    expires: int

    def to_json(self) -> list[Any]:
        """Return plain values for JSON."""
        key = self.key
        return [key.queue.name, key.message_id, f"{self.fingerprint:016x}", self.expires]

    @classmethod
    def all_from_json(
        cls, value: object, account: str, most: int = PENDING_AT_MOST
    ) -> tuple[PendingDelete, ...]:
        """Read a list of pending deletes. account: storage account of the queues. Raises
        Damaged."""
        if not isinstance(value, list) or len(value) > most:
            raise Damaged("its pending deletes are missing or too many")
        return tuple(_pending(each, account) for each in value)


def _pending(value: object, account: str) -> PendingDelete:
    if not isinstance(value, list) or len(value) != 4:
        raise Damaged("one of its pending deletes is not valid")
    name, message_id, written, expires = value
    if not (
        isinstance(message_id, str)
        and is_message_id(message_id)
        and isinstance(written, str)
        and _FINGERPRINT.fullmatch(written)
        and type(expires) is int
        and 0 <= expires < LATEST
    ):
        raise Damaged("one of its pending deletes is not valid")
    return PendingDelete(MessageKey(queue(name, account), message_id), int(written, 16), expires)


def pending_deletes(most: int = PENDING_AT_MOST) -> Coded:
    """Encoding of a list of pending deletes; only the newest `most` are written."""
    return Coded(
        lambda found, name: PendingDelete.all_from_json(found.get(name), found["account"], most),
        lambda value: [each.to_json() for each in value[-most:]],
    )


def keys(most: int) -> Coded:
    """Encoding of at most `most` keys of messages."""
    return several(most, _key, lambda key: [key.queue.name, key.message_id])


def _key(value: object, account: str) -> MessageKey:
    if isinstance(value, list) and len(value) == 2:
        name, message_id = value
        if isinstance(message_id, str) and is_message_id(message_id):
            return MessageKey(queue(name, account), message_id)
    raise Damaged("one of its messages is not valid")
