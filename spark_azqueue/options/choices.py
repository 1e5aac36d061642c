"""The options' enumerations."""

from __future__ import annotations

import enum


class Side(enum.Flag):
    """Which side an option is for."""

    SOURCE = enum.auto()
    SINK = enum.auto()
    BOTH = SOURCE | SINK


class OnUndecodable(str, enum.Enum):
    """What to do with a message whose text does not decode."""

    FAIL = "fail"
    POISON = "poison"
    PERMISSIVE = "permissive"


class PoisonFormat(str, enum.Enum):
    """What is put into a poison queue for a message."""

    COPY = "copy"
    ENVELOPE = "envelope"


class LargeBody(str, enum.Enum):
    """What to do with a body that is too large for a message."""

    FAIL = "fail"
    BLOB = "blob"


class QueuePriority(str, enum.Enum):
    """How one stream shares its batches among several queues."""

    FAIR = "fair"
    STRICT = "strict"


class IsolationLevel(str, enum.Enum):
    """Whether the source reads what a transaction of a sink may have abandoned."""

    READ_UNCOMMITTED = "readUncommitted"
    READ_COMMITTED = "readCommitted"


class DeleteAfter(str, enum.Enum):
    """When a source with a write-ahead log deletes the messages of a batch."""

    COMMIT = "commit"
    LOG = "log"


class LeaseOn(str, enum.Enum):
    """Where a source's messages are dequeued, stored and deleted."""

    DRIVER = "driver"
    EXECUTORS = "executors"


class LogStart(str, enum.Enum):
    """With which batch of a write-ahead log a new checkpoint begins."""

    EARLIEST = "earliest"
    AFTER_COMMITTED = "afterCommitted"


class Operation(str, enum.Enum):
    """What the sink does with a row."""

    ENQUEUE = "enqueue"
    UPDATE = "update"
    DELETE = "delete"


class MessageFormat(str, enum.Enum):
    """What the sink makes of a row's body."""

    TEXT = "text"
    CLOUD_EVENTS = "cloudevents"


class OnRowError(str, enum.Enum):
    """What the sink does with a row that cannot be sent."""

    FAIL = "fail"
    QUEUE = "queue"


class OnStaleReceipt(str, enum.Enum):
    """What the sink does if a row's pop receipt is no longer valid."""

    IGNORE = "ignore"
    FAIL = "fail"
