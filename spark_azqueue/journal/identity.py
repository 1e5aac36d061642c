"""The identity object of a log: written first, and never changed.

Its version is that of the kind of log. A folder of an earlier version is refused: its objects have
other names and keys, and no release has written one.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_azqueue.service.names import EXECUTORS, FILES, TRANSACTIONS, WRITE_AHEAD, Kind

from .codec import Damaged, Located, number, sealed, text, unsealed
from .refusals import (
    earlier_names,
    folder_of_another_account,
    folder_of_another_kind,
    missing_identity,
    unreadable_identity,
)

IDENTITY = "log.json"
"""Its name."""

IDENTITY_AT_MOST = 4_096
"""Bytes of the object."""

if TYPE_CHECKING:
    from .store import LogStore

_KINDS = {kind.name: kind for kind in (WRITE_AHEAD, TRANSACTIONS, EXECUTORS, FILES)}
_ABANDONED_AFTER_S = 3600.0
"""This long after its last byte no process writes an object that is not complete: far longer than
a store tries. A younger one may belong to a process that is alive."""

_UUID = re.compile(r"[0-9a-f]{32}")


class Identity(NamedTuple):
    """Of a log: its own id, and the storage account of its queues.

    is_new: this process has just written it.
    """

    uuid: str
    account: str
    is_new: bool = False

    @classmethod
    def new(cls, account: str) -> Identity:
        """For a log that begins now."""
        return cls(uuid.uuid4().hex, account)

    @classmethod
    def read(cls, data: bytes | None, place: Located) -> Identity:
        """Read the object of this log. Raises LogDamaged, and LogConflict for another kind."""
        read, kind = cls.of_any_kind(data, place)
        if kind.name == place.kind.name:
            return read
        raise folder_of_another_kind(place, kind)

    @classmethod
    def of_any_kind(cls, data: bytes | None, place: Located) -> tuple[Identity, Kind]:
        """Read the object of a log, and which kind it is of. Raises LogDamaged."""
        try:
            found: Any = unsealed(data or b"")
            read = cls(found["log"], text(found, "account"))
            kind = _KINDS[found.get("kind", WRITE_AHEAD.name)]  # version 1 did not say
            version = number(found, "version", 1, kind.version)
            if not _UUID.fullmatch(read.uuid):
                raise Damaged("its id is not valid")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise unreadable_identity(place, IDENTITY) from None
        if version < kind.version:
            raise earlier_names(place, IDENTITY, version, kind.version)
        return read, kind

    def to_bytes(self, kind: Kind) -> bytes:
        """The object to store."""
        value = {"version": kind.version, "log": self.uuid, "account": self.account}
        return sealed({**value, "kind": kind.name})

    def check(self, account: str, place: Located) -> None:
        """Raise LogConflict if the options name another account."""
        if self.account != account:
            raise folder_of_another_account(place, self.account, account)


def identify(store: LogStore, account: str, contents: str) -> Identity | None:
    """Read who a log belongs to; None if it is a new one. Changes nothing.

    contents: the folder that a log that is not new may have. Raises ServiceError, LogConflict,
    LogDamaged.
    """
    found = store.get(IDENTITY, IDENTITY_AT_MOST)
    if found is None:
        if not store.names(contents):
            return None
        found = store.get(IDENTITY, IDENTITY_AT_MOST)  # another process may have begun meanwhile
    if found is None:
        raise missing_identity(store, IDENTITY, contents)
    identity = Identity.read(found, store)
    identity.check(account, store)
    return identity


def opened(store: LogStore, account: str, contents: str) -> Identity:
    """Check the folder, and read who it belongs to; a new one gets an identity.

    What killed processes of any kind of log have left behind incomplete is removed.
    contents: see `identify`. Raises ServiceError, LogConflict, LogDamaged.
    """
    store.open()
    found = identify(store, account, contents)
    if found is None:
        ours = Identity.new(account)
        store.put_new(IDENTITY, ours.to_bytes(store.kind))
        found = identify(store, account, contents)
        if found is None:
            raise unreadable_identity(store, IDENTITY)
        found = found._replace(is_new=found == ours)
    if not found.is_new:  # what is in a folder that was no log before is not ours
        store.sweep(_ABANDONED_AFTER_S)
    return found
