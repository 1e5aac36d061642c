"""What a task put hidden, on its way to the driver and into the log. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spark_azqueue.journal.codec import digest_of
from spark_azqueue.service.fields import MAX_ID, MAX_RECEIPT
from spark_azqueue.service.messages import Lease

CHUNK_ROWS = 20_000
"""The most messages in one chunk: some 2 MB."""

CHUNK_AT_MOST = CHUNK_ROWS * (MAX_ID + MAX_RECEIPT + 64 + 32)
"""Bytes of a chunk, packed or not."""

LATEST = 253_402_300_800
"""The year 10000, in seconds since 1970: no time is so late."""


class Hidden(NamedTuple):
    """A message that was put hidden.

    due: when it is to be visible; 0: as soon as it is shown. expires: when the service removes it.
    Both by the service's clock, in seconds since 1970.
    """

    lease: Lease
    due: int
    expires: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Packed messages of one task. size: of the columns before they were packed."""

    rows: int
    size: int
    data: bytes

    @property
    def digest(self) -> str:
        """Of `data`, as 32 hexadecimal digits."""
        return digest_of(self.data)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one task did for its transaction; sent to the driver.

    token: random, of this attempt of the task. query, run, batch: of the stream, "" and -1 for a
    batch write. rows: how many rows the task was given. skipped: it put nothing, since the
    transaction is recorded. expires: the first expiry, 0 without messages. abandoned: how many more
    messages may have been put, because answers were lost. log: the id of the log that was asked.
    """

    token: str
    query: str
    run: str
    batch: int
    rows: int
    skipped: bool = False
    chunks: tuple[Chunk, ...] = ()
    expires: int = 0
    abandoned: int = 0
    log: str = ""
