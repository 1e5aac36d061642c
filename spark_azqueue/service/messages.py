"""Messages and leases; the service's limits and naming rules."""

from __future__ import annotations

import math
import re
from typing import Annotated, NamedTuple, TypeAlias

from .encoding import unwritable, utf8_size
from .message_fields import Field, Form, declared_in

MAX_PER_REQUEST = 32
"""The most messages that the service returns for one request."""

MAX_DEQUEUE_COUNT = 2**31 - 1
"""The column `dequeue_count` is an int."""

UNKNOWN_TIME = 0
"""A time that could not be read from the service's answer; null in a row."""

LAST_US = 2_000_000
"""Microseconds: the last second of a life, and one since the service writes whole seconds."""


class QueueRef(NamedTuple):
    """Which queue: a name is unique within its account only. Both are plain names."""

    account: str
    name: str


class Message(NamedTuple):
    """A message as returned by a dequeue or a peek.

    Times are microseconds since 1970 UTC (the service gives whole seconds). `intact` is False if
    the reply was damaged inside this message. Then `text` counts as undecodable. If it has a
    character that XML cannot hold, that is all of the damage, see `is_whole`. Otherwise it is only
    what could be recovered, times may be UNKNOWN_TIME, and the dequeue count may be 0.

    An answer need not have a field with a default.
    """

    queue: Annotated[QueueRef, Field(Form.QUEUE)]
    message_id: Annotated[str, Field(Form.ID, "MessageId")]
    text: Annotated[str, Field(Form.TEXT, "MessageText", column="body")]
    insertion_time: Annotated[int, Field(Form.TIME, "InsertionTime")]
    expiration_time: Annotated[int, Field(Form.TIME, "ExpirationTime")]
    dequeue_count: Annotated[int, Field(Form.COUNT, "DequeueCount")]
    next_visible_time: Annotated[int | None, Field(Form.MAYBE_TIME, "TimeNextVisible")] = None
    intact: Annotated[bool, Field(Form.FLAG, column=None)] = True

    @property
    def key(self) -> MessageKey:
        """Which message this is, whatever its text and receipt are."""
        return MessageKey(self.queue, self.message_id)

    @property
    def is_whole(self) -> bool:
        """True if the text is as it was received, though no XML can hold it."""
        return self.intact or bool(unwritable(self.text))

    @property
    def size(self) -> int:
        """Bytes of the text as stored."""
        return utf8_size(self.text)

    def is_in_its_last(self, answered_at: int | None) -> bool:
        """True if it is about to expire: a transaction may have abandoned it. False without proof.

        answered_at: the `Date` of the answer with the message, microseconds since 1970, if known.
        """
        if answered_at is None or self.expiration_time == UNKNOWN_TIME:
            return False
        return self.expiration_time - answered_at <= LAST_US


def delay_not_below_ttl(delay_s: int, ttl_s: int | None) -> str | None:
    """Say why the service would refuse this pair, or None ("Put Message": delay < time to live).

    Both in seconds. ttl_s None: the service's default, 7 days.
    """
    ttl = WEEK_S if ttl_s is None else ttl_s
    if ttl == NEVER_EXPIRES or delay_s < ttl:
        return None
    return f"the delay of {delay_s} s is not below the time to live of {ttl} s"


class VisibleAt(NamedTuple):
    """A delay that ends at this moment, in seconds since 1970, whenever the request is sent."""

    moment: float


Delay: TypeAlias = int | VisibleAt
"""Until a message is visible: seconds from the request on, or until a moment."""


def seconds_of(delay: Delay, now: float) -> int:
    """The delay of a request that is sent now: whole seconds, never too few, 7 days at most."""
    if isinstance(delay, int):
        return delay
    return min(max(0, math.ceil(delay.moment - now)), MAX_VISIBILITY_S)


MIN_VISIBILITY_S = 1


MAX_VISIBILITY_S = 7 * 24 * 3600
"""Bounds of the visibility timeout at a dequeue (REST reference, "Get Messages")."""


class MessageKey(NamedTuple):
    """Which message: an id is unique within its queue only."""

    queue: QueueRef
    message_id: str


class Lease(NamedTuple):
    """The right to delete or update one message.

    A renewal or another dequeue makes a new receipt and invalidates this one. The newest is in the
    ledger; an offset has that of its time, so it survives a restart.
    """

    queue: QueueRef
    message_id: str
    pop_receipt: Annotated[str, Field(Form.RECEIPT, "PopReceipt")]

    @property
    def key(self) -> MessageKey:
        """Which message it is a lease of."""
        return MessageKey(self.queue, self.message_id)


class Received(NamedTuple):
    """A message that is leased, and the lease of that time: what a dequeue gives."""

    message: Message
    lease: Lease


FIELDS = declared_in(Message, Lease)
"""What a message that is received has, each declared once."""


WEEK_S = 7 * 24 * 3600


NEVER_EXPIRES = -1

ENDLESS_US = 250_000_000_000_000_000
"""An expiry after this moment (of the year 9892, in microseconds) means never: such a message has
the end of the year 9999 as its time."""


_QUEUE_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9])*\Z")


def queue_name(value: str) -> str:
    """Return a legal queue name, stripped (REST reference, "Naming queues and metadata").

    Raises ValueError that says what is allowed.
    """
    name = value.strip()
    if not is_queue_name(name):
        raise ValueError(
            "a queue name: 3 to 63 characters, lower-case letters, digits and single hyphens,"
            " beginning and ending with a letter or digit"
        )
    return name


def is_queue_name(value: str) -> bool:
    """True for a legal queue name."""
    return 3 <= len(value) <= 63 and _QUEUE_NAME.match(value) is not None


MOST_IN_A_BATCH = 100_000
"""The most leases in a micro-batch (the highest `maxMessagesPerTrigger`)."""

MOST_IN_A_PLAN = 100 * MOST_IN_A_BATCH
"""The most messages of a batch with leaseOn=executors, if no option says so."""


def container_name(value: str) -> str:
    """Return a legal container name ("Naming containers"); the rules are those of queue names.

    Raises ValueError that says what is allowed.
    """
    try:
        return queue_name(value)
    except ValueError as error:
        raise ValueError(str(error).replace("queue name", "container name")) from None
