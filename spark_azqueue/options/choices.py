"""Enumerations of the values of options."""

from __future__ import annotations

import enum


class Side(enum.Flag):
    """The side of an option: source, sink or both."""

    SOURCE = enum.auto()
    SINK = enum.auto()
    BOTH = SOURCE | SINK


class OnUndecodable(str, enum.Enum):
    """Action for a message whose text does not decode."""

    FAIL = "fail"
    POISON = "poison"
    PERMISSIVE = "permissive"


class PoisonFormat(str, enum.Enum):
    """Format of a message in a poison queue."""

    COPY = "copy"
    ENVELOPE = "envelope"


class LargeBody(str, enum.Enum):
    """Action for a body that is too large for a message."""

    FAIL = "fail"
    BLOB = "blob"


class QueuePriority(str, enum.Enum):
    """How a stream's batches are divided among several queues."""

    FAIR = "fair"
    STRICT = "strict"


class IsolationLevel(str, enum.Enum):
    """Whether the source reads messages that a transaction of a sink may have abandoned."""

    READ_UNCOMMITTED = "readUncommitted"
    READ_COMMITTED = "readCommitted"


class DeleteAfter(str, enum.Enum):
    """Time at which a source with a write-ahead log deletes the messages of a batch."""

    COMMIT = "commit"
    LOG = "log"


class LeaseOn(str, enum.Enum):
    """Place where a source's messages are dequeued, stored and deleted."""

    DRIVER = "driver"
    EXECUTORS = "executors"


class LogStart(str, enum.Enum):
    """First batch of a write-ahead log for a new checkpoint."""

    EARLIEST = "earliest"
    AFTER_COMMITTED = "afterCommitted"


class Operation(str, enum.Enum):
    """Action of the sink for a row."""

    ENQUEUE = "enqueue"
    UPDATE = "update"
    DELETE = "delete"


class MessageFormat(str, enum.Enum):
    """Format in which the sink sends a row's body."""

    TEXT = "text"
    CLOUD_EVENTS = "cloudevents"


class OnRowError(str, enum.Enum):
    """Action of the sink for a row that cannot be sent."""

    FAIL = "fail"
    QUEUE = "queue"


class OnStaleReceipt(str, enum.Enum):
    """Action of the sink if a row's pop receipt is no longer valid."""

    IGNORE = "ignore"
    FAIL = "fail"
