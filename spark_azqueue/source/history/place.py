"""Opens the folder of a log for reading, whichever kind of log it is."""

from __future__ import annotations

from typing import Protocol

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import InvalidOption, LogConflict
from spark_azqueue.journal.identity import IDENTITY, IDENTITY_AT_MOST, Identity
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.store import LogStore, log_store
from spark_azqueue.options.history import HistoryConfig
from spark_azqueue.service.names import EXECUTORS, WRITE_AHEAD, Kind

from ..executors.folder import PlanFolder
from ..log.names import SEGMENTS
from .batches import LogSurvey
from .plans import PlanHistory
from .segments import SegmentHistory

_KINDS = {kind.name: kind.for_reading() for kind in (WRITE_AHEAD, EXECUTORS)}


class History(Protocol):
    """The committed batches of a log. Used by one thread. Writes nothing."""

    def has_news(self, found: LogSurvey) -> bool:
        """False if nothing was committed since. For a few small requests."""

    def survey(self) -> LogSurvey:
        """What the log holds now. Raises ServiceError, LogDamaged, LostSegment."""


def history_of(journal: Journal) -> History:
    """The committed batches of this log."""
    return PlanHistory(journal) if isinstance(journal, PlanFolder) else SegmentHistory(journal)


def opened(config: HistoryConfig) -> Journal:
    """Find out which log it is. Changes nothing. Returns a PlanFolder if executors wrote it.

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
    store.close()
    return journal_of(store_of(config, _KINDS[kind.name]), identity.account, identity.uuid)


def journal_of(store: LogStore, account: str, uuid: str) -> Journal:
    """The log that was recognised as this one. Nothing is sent yet."""
    found: Journal
    if store.kind.name == EXECUTORS.name:
        found = PlanFolder(store, account)
    else:
        found = Journal(store, account, SEGMENTS)
    found.uuid = uuid
    return found


def store_of(config: HistoryConfig, kind: Kind) -> LogStore:
    """The store of the log. Nothing is sent yet."""
    return log_store(config.place, config.account, kind)
