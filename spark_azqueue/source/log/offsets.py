"""The offset of a query with a log: a position in it, with what proves that it is that log.

    {"version": 2, "batch": 42, "account": "myaccount", "log": "3f2a…", "segment": "9c41…",
     "messages": 4096, "oldest": "2026-11-22T10:00:00Z"}

`segment` is the first half of the digest of segment 42: two writers never make the same. No receipt
is in it. A query that was started without a log goes on with version 1 offsets as its start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..offsets import (
    OFFSET_VERSION,
    OffsetJson,
    check_lease_on_driver,
    moment,
    refusing_damage,
    seconds,
    version_and_batch,
)
from ..packing import DamagedOffset

LOG_OFFSET_VERSION = 2

_LOG = re.compile(r"[0-9a-f]{32}")
_SEGMENT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class LogOffset:
    """A position: batches up to segment `number` of this log.

    log, segment: "" for a position from before the log (version 1). digest: of a segment, whose
    first half is `segment`. oldest: seconds since 1970, None if unknown.
    """

    account: str
    number: int
    log: str = ""
    segment: str = ""
    messages: int = 0
    oldest: int | None = None

    def to_json(self) -> OffsetJson:
        """The value for Spark: plain values, always in the same key order."""
        value: OffsetJson = {
            "version": LOG_OFFSET_VERSION,
            "batch": self.number,
            "account": self.account,
            "log": self.log,
            "segment": self.segment,
            "messages": self.messages,
        }
        if self.oldest is not None:
            value["oldest"] = moment(self.oldest)
        return value

    @property
    def is_of_log(self) -> bool:
        """False for a position from before the log."""
        return self.log != ""

    @classmethod
    def from_json(cls, offset: Mapping[str, Any], *, account: str) -> LogOffset:
        """Read an offset of either version. Raises CheckpointMismatch."""
        version, number = version_and_batch(offset, account=account)
        if version == OFFSET_VERSION:
            return cls(account, number)
        check_lease_on_driver(version)
        with refusing_damage():
            log, segment, messages = (offset.get(name) for name in ("log", "segment", "messages"))
            if not isinstance(log, str) or not _LOG.fullmatch(log):
                raise DamagedOffset("the name of its log is missing or not valid")
            if not isinstance(segment, str) or not _SEGMENT.fullmatch(segment):
                raise DamagedOffset("the digest of its segment is missing or not valid")
            if type(messages) is not int or messages < 1:
                raise DamagedOffset("its number of messages is missing or not valid")
            oldest = seconds(offset["oldest"]) if "oldest" in offset else None
        return cls(account, number, log, segment, messages, oldest)
