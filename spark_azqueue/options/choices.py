"""Enumerations of option values."""

from __future__ import annotations

import enum


class Side(enum.Flag):
    """Where an option applies: at a source, at a sink, or at both."""

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
    """How a stream divides its batches among several queues."""

    FAIR = "fair"
    STRICT = "strict"


class IsolationLevel(str, enum.Enum):
    """Whether the source reads messages that a transaction of a sink may have abandoned."""

    READ_UNCOMMITTED = "readUncommitted"
    READ_COMMITTED = "readCommitted"


class DeleteAfter(str, enum.Enum):
    """When a source with a write-ahead log deletes the messages of a batch."""

    COMMIT = "commit"
    LOG = "log"


class LeaseOn(str, enum.Enum):
    """Where the messages of a source are dequeued, stored and deleted."""

    DRIVER = "driver"
    EXECUTORS = "executors"


class LogStart(str, enum.Enum):
    """At which batch of a used write-ahead log a new checkpoint begins."""

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
