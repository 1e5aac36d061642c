"""What a segment says besides its messages: whose it is, and how far its log has come.

Pure values. A value that the log would not have written raises Damaged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_azqueue.journal.codec import (
    Damaged,
    hexadecimal,
    list_of,
    loaded,
    number,
    object_of,
    queue,
    text,
)
from spark_azqueue.service.messages import MOST_IN_A_BATCH, QueueRef

from .progress import LogProgress

SEGMENT_VERSION = 1
VERSION_WITH_LIST = 2
"""If owed deletes stand in a list of their own: earlier releases would not know of them."""

_QUEUES_AT_MOST = 10_000
_READING_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What stands at the head of segment `number` of log `log`, written by process `writer`.

    prev: digest of the segment before, "" for the first of a log. floor: segments up to this one
    may be removed. queues: the queues that were read. reading: the options that make rows of
    messages, by name. cut: rows in each partition. oldest: earliest insertion, seconds since 1970,
    None if unknown. suspect: one of its messages may be poison.
    """

    log: str
    number: int
    writer: str
    account: str
    prev: str = ""
    floor: int = 0
    progress: LogProgress = field(default_factory=LogProgress)
    queues: tuple[QueueRef, ...] = ()
    reading: Mapping[str, str] = field(default_factory=dict)
    cut: tuple[int, ...] = ()
    oldest: int | None = None
    suspect: bool = False

    @property
    def messages(self) -> int:
        """How many messages the segment holds."""
        return sum(self.cut)

    def to_bytes(self) -> bytes:
        """As JSON."""
        value = {
            "version": VERSION_WITH_LIST if self.progress.owed_list else SEGMENT_VERSION,
            "log": self.log,
            "number": self.number,
            "writer": self.writer,
            "account": self.account,
            "prev": self.prev,
            "floor": self.floor,
            "progress": self.progress.to_json(),
            "queues": [queue.name for queue in self.queues],
            "reading": dict(self.reading),
            "cut": list(self.cut),
            "oldest": self.oldest,
            "suspect": self.suspect,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> SegmentHeader:
        """Read it back. Raises Damaged."""
        found = object_of(loaded(data), "header")
        if found.get("version") not in (SEGMENT_VERSION, VERSION_WITH_LIST):
            raise Damaged(
                f"its version is not {SEGMENT_VERSION} or {VERSION_WITH_LIST}:"
                " upgrade spark-azqueue if it is higher"
            )
        account = text(found, "account")
        return cls(
            log=hexadecimal(found, "log"),
            number=number(found, "number", least=1),
            writer=hexadecimal(found, "writer"),
            account=account,
            prev=hexadecimal(found, "prev") if found.get("prev") else "",
            floor=number(found, "floor"),
            progress=LogProgress.from_json(found.get("progress"), account=account),
            queues=tuple(
                queue(name, account) for name in list_of(found, "queues", _QUEUES_AT_MOST)
            ),
            reading=reading_of(found.get("reading")),
            cut=_cut(list_of(found, "cut", MOST_IN_A_BATCH)),
            oldest=None if found.get("oldest") is None else number(found, "oldest"),
            suspect=found.get("suspect") is True,
        )


def _cut(values: Sequence[object]) -> tuple[int, ...]:
    cut = tuple(value for value in values if type(value) is int and value > 0)
    if len(cut) != len(values) or not 0 < sum(cut) <= MOST_IN_A_BATCH:
        raise Damaged("its partitions are not valid")
    return cut


def reading_of(value: object) -> Mapping[str, str]:
    """The options that make rows of messages, as a header has them. Raises Damaged."""
    found = object_of(value, "options")
    if len(found) > _READING_AT_MOST:
        raise Damaged("it names too many options")
    return {name: text(found, name) for name in found}
