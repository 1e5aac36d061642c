"""The values that options choose among."""

from __future__ import annotations

import enum


class Side(enum.Flag):
    """Who understands an option."""

    SOURCE = enum.auto()
    SINK = enum.auto()
    BOTH = SOURCE | SINK


class OnUndecodable(str, enum.Enum):
    """What to do with a message whose text does not decode."""

    FAIL = "fail"
    POISON = "poison"
    PERMISSIVE = "permissive"


class LargeBody(str, enum.Enum):
    """What becomes of a body that is too large for a message."""

    FAIL = "fail"
    BLOB = "blob"


class Operation(str, enum.Enum):
    """What the sink does with a row."""

    ENQUEUE = "enqueue"
    UPDATE = "update"
    DELETE = "delete"


class OnStaleReceipt(str, enum.Enum):
    """What the sink does where a row's pop receipt is not valid any more."""

    IGNORE = "ignore"
    FAIL = "fail"
