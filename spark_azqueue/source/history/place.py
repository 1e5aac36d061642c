"""Opens the folder of a log for reading, whichever kind of log it is."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import InvalidOption, LogConflict
from spark_azqueue.journal.identity import IDENTITY, IDENTITY_AT_MOST, Identity
from spark_azqueue.journal.store import LogStore, log_store
from spark_azqueue.options.history import HistoryConfig
from spark_azqueue.service.names import EXECUTORS, WRITE_AHEAD, Kind

from .batches import Found
from .plans import PlanHistory
from .segments import SegmentHistory

_KINDS = {kind.name: kind.for_reading() for kind in (WRITE_AHEAD, EXECUTORS)}


class History(Protocol):
    """The committed batches of a log. Used by one thread. Writes nothing."""

    def has_news(self, found: Found) -> bool:
        """False if nothing was committed since. For a few small requests."""

    def survey(self) -> Found:
        """What the log holds now. Raises ServiceError, LogDamaged, LostSegment."""


class Opened(NamedTuple):
    """A log that was recognised. kind: as for reading."""

    store: LogStore
    identity: Identity
    kind: Kind

    @property
    def history(self) -> History:
        """Its committed batches."""
        is_of_executors = self.kind.name == EXECUTORS.name
        return (PlanHistory if is_of_executors else SegmentHistory)(self.store, self.identity)


def opened(config: HistoryConfig) -> Opened:
    """Find out which log it is. Changes nothing.

    Raises InvalidOption if there is none, LogConflict for a log of another kind, LogDamaged,
    ServiceError.
    """
    store = store_of(config, WRITE_AHEAD.for_reading())
    data = store.get(IDENTITY, IDENTITY_AT_MOST)
    if data is None:
        raise InvalidOption(
            f"there is no write-ahead log in {store.where} (no '{IDENTITY}'): 'readLog' takes what"
            " the writing query has for 'writeAheadLog'. A query makes it at its first start",
            condition=Condition.INVALID_LOG_OPTION,
        )
    identity, kind = Identity.of_any_kind(data, store)
    if kind.name not in _KINDS:
        raise LogConflict(
            f"{store.where} is the folder of a {kind.words}, which holds no messages to read:"
            " 'readLog' takes what a query that reads queues has for 'writeAheadLog'"
        )
    kind = _KINDS[kind.name]
    if kind.name != store.kind.name:
        store.close()
        store = store_of(config, kind)
    return Opened(store, identity, kind)


def store_of(config: HistoryConfig, kind: Kind) -> LogStore:
    """The store of the log. Nothing is sent yet."""
    return log_store(config.place, config.account, kind)
