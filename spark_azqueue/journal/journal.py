"""Common part of all logs: identity of the folder, and objects that are written once.

The logs of this package are journals: the driver's write-ahead log, the log of executors, the
transaction log, the file log. Each kind of log has its own objects and its own order of steps. This
module reads, puts and removes objects, and refuses damaged ones, for all kinds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from spark_azqueue.errors import LogDamaged, ServiceError

from .codec import Damaged
from .identity import Identity, identify, opened
from .refusals import damaged, vanished
from .store import LogStore

log = logging.getLogger(__name__)

T = TypeVar("T")


class Journal:
    """One folder. Keeps only the id of the folder: everything that survives a restart is stored.

    As thread-safe as its store once it is open. Its methods raise ServiceError if the store fails,
    and LogDamaged for an object that is not as it was written.
    """

    def __init__(self, store: LogStore, account: str, contents: str) -> None:
        """Keep the parameters; nothing is sent yet.

        account: of the queues. contents: a folder that only an existing journal has.
        """
        self.store = store
        self.account = account
        self._contents = contents
        self.uuid = ""
        """Id of the journal, known after `open` or `identify`."""
        self.is_new = False
        """True if `open` has created the journal."""

    @property
    def where(self) -> str:
        """Folder, for texts."""
        return self.store.where

    def open(self) -> None:
        """Read the identity of the folder; a new folder gets an identity.

        Raises LogConflict for the folder of another account, or of another kind of log.
        """
        self._is(opened(self.store, self.account, self._contents))

    def identify(self) -> bool:
        """Read the identity of the folder. Returns False if the folder is new. Changes nothing.

        Raises LogConflict as `open` does.
        """
        found = identify(self.store, self.account, self._contents)
        self._is(found or Identity("", self.account))
        return found is not None

    def read(self, name: str, most: int, parse: Callable[[bytes], T]) -> T | None:
        """Read an object; None if the object is absent.

        most: most bytes that the object may have. parse: raises Damaged if the object is not as it
        was written.
        """
        data = self.store.get(name, most + 1)
        if data is None:
            return None
        try:
            if len(data) > most:
                raise Damaged("it is too large")
            return parse(data)
        except Damaged as error:
            raise self.damaged(name, error) from None

    def need(self, name: str, most: int, parse: Callable[[bytes], T]) -> T:
        """Read an object that must exist. most, parse: see `read`."""
        found = self.read(name, most, parse)
        if found is None:
            raise self.damaged(name, "it is missing")
        return found

    def first(self, name: str, data: bytes, read: Callable[[], T | None]) -> T | None:
        """Create an object, unless it exists. Returns None if this call has created it.

        Otherwise returns the result of `read`: an object of another process, or of an earlier try
        of this call.
        """
        if self.store.put_new(name, data):
            return None
        found = read()
        if found is None:
            raise vanished(self.store, name)
        return found

    def is_ours(self, name: str, data: bytes) -> bool:
        """Create an object. Returns False if the object exists with other bytes."""
        return self.store.put_new(name, data) or self.store.get(name, len(data) + 1) == data

    def remove(self, names: Iterable[str]) -> set[str]:
        """Delete objects. Returns the names of deleted objects.

        The first failure ends the removal, with a warning.
        """
        gone = set()
        for name in names:
            try:
                self.store.delete(name)
            except ServiceError as error:
                log.warning("could not remove an old '%s': %s", name, error)
                break
            gone.add(name)
        return gone

    def damaged(self, name: str, why: str | Damaged) -> LogDamaged:
        """Return the error for an object that is not as it was written."""
        return damaged(self.store, name, Damaged(str(why)))

    def close(self) -> None:
        """Close the connections."""
        self.store.close()

    def _is(self, found: Identity) -> None:
        self.uuid, self.is_new = found.uuid, found.is_new
