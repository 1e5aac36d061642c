"""Messages and leases, and the service's limits and naming rules."""

from __future__ import annotations

import math
import re
from typing import Annotated, NamedTuple, TypeAlias

from .encoding import unwritable, utf8_size
from .message_fields import Field, Form, declared_in

MAX_PER_REQUEST = 32
"""Maximum number of messages that the service returns for one request."""

MAX_DEQUEUE_COUNT = 2**31 - 1
"""Maximum dequeue count that is parsed, because the column `dequeue_count` is an int."""

UNKNOWN_TIME = 0
"""Value for a time that is not readable in the service's answer. In a row, this time is null."""

LAST_US = 2_000_000
"""Two seconds, in microseconds: the last second of a message's lifetime, and one more second
because the service rounds times.
"""


class QueueRef(NamedTuple):
    """A queue. The name of a queue is unique only within its account.

    Both fields are plain names.
    """

    account: str
    name: str


class Message(NamedTuple):
    """A message as returned by a dequeue or a peek.

    Times are microseconds since 1970 UTC (the service sends whole seconds).

    `intact` is False if the answer was damaged inside this message; `text` then counts as
    undecodable. If the only damage is a character that XML cannot contain, the text is complete
    (see `is_whole`). Otherwise, `text` has only the part that could be recovered, times may be
    UNKNOWN_TIME, and the dequeue count may be 0. An answer may lack the fields that have a default.
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
        """Key of this message: its queue and id."""
        return MessageKey(self.queue, self.message_id)

    @property
    def is_whole(self) -> bool:
        """True if the text is complete, although it may have a character that XML cannot
        contain."""
        return self.intact or bool(unwritable(self.text))

    @property
    def size(self) -> int:
        """Size of the stored text, in bytes."""
        return utf8_size(self.text)

    def is_in_its_last(self, answered_at: int | None) -> bool:
        """Return True if the message is about to expire. A transaction may have abandoned such a
        message.

        Returns False if a time is unknown. answered_at: `Date` header of the answer that contained
        the message, in microseconds since 1970; None if unknown.
        """
        if answered_at is None or self.expiration_time == UNKNOWN_TIME:
            return False
        return self.expiration_time - answered_at <= LAST_US


def delay_not_below_ttl(delay_s: int, ttl_s: int | None) -> str | None:
    """Return why the service would refuse this delay with this time to live; None if the service
    accepts both.

    "Put Message" requires that the delay is shorter than the time to live. Both are in seconds.
    ttl_s: None for the service's default, 7 days.
    """
    ttl = WEEK_S if ttl_s is None else ttl_s
    if ttl == NEVER_EXPIRES or delay_s < ttl:
        return None
    return f"the delay of {delay_s} s is not below the time to live of {ttl} s"


class VisibleAt(NamedTuple):
    """Time at which a message becomes visible, in seconds since 1970."""

    moment: float


Delay: TypeAlias = int | VisibleAt
"""When a message becomes visible: a number of seconds after the request, or a point in time."""


def seconds_of(delay: Delay, now: float) -> int:
    """Return the delay of a request that is sent now: whole seconds, rounded up, at most 7 days."""
    if isinstance(delay, int):
        return delay
    return min(max(0, math.ceil(delay.moment - now)), MAX_VISIBILITY_S)


MIN_VISIBILITY_S = 1


MAX_VISIBILITY_S = 7 * 24 * 3600
"""Maximum visibility timeout of a dequeue, in seconds (REST reference, "Get Messages")."""


class MessageKey(NamedTuple):
    """Key of a message. An id is unique only within its queue."""

    queue: QueueRef
    message_id: str


class Lease(NamedTuple):
    """The right to delete or update one message.

    A renewal or another dequeue makes a new receipt, and this receipt becomes stale. The ledger has
    the newest receipt. An offset, which is used after a restart, has the receipt that was the
    newest when the offset was written.
    """

    queue: QueueRef
    message_id: str
    pop_receipt: Annotated[str, Field(Form.RECEIPT, "PopReceipt")]

    @property
    def key(self) -> MessageKey:
        """Key of the leased message."""
        return MessageKey(self.queue, self.message_id)


class Received(NamedTuple):
    """A dequeued message and its lease."""

    message: Message
    lease: Lease


FIELDS = declared_in(Message, Lease)
"""Fields of a received message."""


WEEK_S = 7 * 24 * 3600


NEVER_EXPIRES = -1

ENDLESS_US = 250_000_000_000_000_000
"""A time in the year 9892, in microseconds since 1970. A message with a later expiry never expires.

The service sends the end of the year 9999 as the expiry of a message that never expires.
"""


_QUEUE_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9])*\Z")


def queue_name(value: str) -> str:
    """Return the name without outer spaces, if it is legal (REST reference, "Naming queues and
    metadata").

    Raises ValueError with the rules.
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
"""Maximum number of leases in a micro-batch (the highest `maxMessagesPerTrigger`)."""

MOST_IN_A_PLAN = 100 * MOST_IN_A_BATCH
"""Maximum number of messages in a batch with leaseOn=executors, if no option sets a limit."""


def container_name(value: str) -> str:
    """Return the name without outer spaces, if it is legal for a container. Queue names have the
    same rules.

    Raises ValueError with the rules.
    """
    try:
        return queue_name(value)
    except ValueError as error:
        raise ValueError(str(error).replace("queue name", "container name")) from None
