"""Identity object of a log. The identity is written first, and never changes.

The identity contains the version of the kind of log. A folder of an earlier version is refused,
because its objects have other names and keys. No release has written such a folder.
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
"""Name of the identity object."""

IDENTITY_AT_MOST = 4_096
"""Maximum size of the identity object in bytes."""

if TYPE_CHECKING:
    from .store import LogStore

_KINDS = {kind.name: kind for kind in (WRITE_AHEAD, TRANSACTIONS, EXECUTORS, FILES)}
_ABANDONED_AFTER_S = 3600.0
"""An incomplete object is removed when it is this many seconds old.

This age is much longer than the time for which a store retries a put. A younger object may belong
to a process that is running.
"""

_UUID = re.compile(r"[0-9a-f]{32}")


class Identity(NamedTuple):
    """Id of a log, and the storage account of its queues.

    is_new: this process has just written the identity.
    """

    uuid: str
    account: str
    is_new: bool = False

    @classmethod
    def new(cls, account: str) -> Identity:
        """Create the identity of a new log."""
        return cls(uuid.uuid4().hex, account)

    @classmethod
    def read(cls, data: bytes | None, place: Located) -> Identity:
        """Read the identity of this log. Raises LogDamaged, and LogConflict for another kind of
        log."""
        read, kind = cls.of_any_kind(data, place)
        if kind.name == place.kind.name:
            return read
        raise folder_of_another_kind(place, kind)

    @classmethod
    def of_any_kind(cls, data: bytes | None, place: Located) -> tuple[Identity, Kind]:
        """Read the identity of a log, and the kind of the log. Raises LogDamaged."""
        try:
            found: Any = unsealed(data or b"")
            read = cls(found["log"], text(found, "account"))
            kind = _KINDS[found.get("kind", WRITE_AHEAD.name)]  # version 1 did not store the kind
            version = number(found, "version", 1, kind.version)
            if not _UUID.fullmatch(read.uuid):
                raise Damaged("its id is not valid")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise unreadable_identity(place, IDENTITY) from None
        if version < kind.version:
            raise earlier_names(place, IDENTITY, version, kind.version)
        return read, kind

    def to_bytes(self, kind: Kind) -> bytes:
        """Encode the identity for the store."""
        value = {"version": kind.version, "log": self.uuid, "account": self.account}
        return sealed({**value, "kind": kind.name})

    def check(self, account: str, place: Located) -> None:
        """Raise LogConflict if the options name another account."""
        if self.account != account:
            raise folder_of_another_account(place, self.account, account)


def identify(store: LogStore, account: str, contents: str) -> Identity | None:
    """Read the identity of a log. Returns None if the log is new. Changes nothing.

    contents: name of a subfolder that only an existing log has. Raises ServiceError, LogConflict,
    LogDamaged.
    """
    found = store.get(IDENTITY, IDENTITY_AT_MOST)
    if found is None:
        if not store.names(contents):
            return None
        # another process may have created the log in the meantime
        found = store.get(IDENTITY, IDENTITY_AT_MOST)
    if found is None:
        raise missing_identity(store, IDENTITY, contents)
    identity = Identity.read(found, store)
    identity.check(account, store)
    return identity


def opened(store: LogStore, account: str, contents: str) -> Identity:
    """Check the folder, and read its identity. In a new folder, write an identity.

    Also removes incomplete objects of killed processes. contents: see `identify`. Raises
    ServiceError, LogConflict, LogDamaged.
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
    if not found.is_new:  # a folder without a log may have files of other programs
        store.sweep(_ABANDONED_AFTER_S)
    return found
