"""Common part of all logs: the identity of the folder, and objects that are written once.

The logs of this package are journals: the driver's write-ahead log, the log of executors, the
transaction log, and the file log. Each kind of log has its own objects and its own order of steps.
For every kind of log, this module reads, puts and removes objects, and refuses damaged objects.
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
    """A log in one folder.

    Keeps only the identity of the folder in memory; all other state is in the folder.

    After `open`, a journal is thread-safe if its store is. Its methods raise ServiceError if the
    store fails, and LogDamaged if an object is damaged.
    """

    def __init__(self, store: LogStore, account: str, contents: str) -> None:
        """Keep the parameters; send nothing.

        account: storage account of the queues. contents: name of a subfolder that exists only if
        the folder has a journal.
        """
        self.store = store
        self.account = account
        self._contents = contents
        self.uuid = ""
        """Id of the journal; "" before `open` or `identify`."""
        self.is_new = False
        """True if `open` has created the journal."""

    @property
    def where(self) -> str:
        """Folder of the journal, for messages."""
        return self.store.where

    def open(self) -> None:
        """Read the identity of the folder. In a new folder, write an identity.

        Raises LogConflict for the folder of another account, or of another kind of log.
        """
        self._is(opened(self.store, self.account, self._contents))

    def identify(self) -> bool:
        """Read the identity of the folder. Returns False if the folder is new. Changes nothing.

        Raises LogConflict for the same reasons as `open`.
        """
        found = identify(self.store, self.account, self._contents)
        self._is(found or Identity("", self.account))
        return found is not None

    def read(self, name: str, most: int, parse: Callable[[bytes], T]) -> T | None:
        """Read an object. Returns None if the object is absent.

        most: maximum bytes of the object. parse: decodes the bytes, and raises Damaged if they are
        damaged.
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
        """Create an object, unless it exists. Returns None if this call created the object.

        If the object exists, returns the result of `read`. Another process, or an earlier try of
        this call, has created the existing object.
        """
        if self.store.put_new(name, data):
            return None
        found = read()
        if found is None:
            raise vanished(self.store, name)
        return found

    def is_ours(self, name: str, data: bytes) -> bool:
        """Create an object. Returns False if the object already exists with different bytes."""
        return self.store.put_new(name, data) or self.store.get(name, len(data) + 1) == data

    def remove(self, names: Iterable[str]) -> set[str]:
        """Delete objects. Returns the names of the deleted objects.

        If a delete fails, a warning is logged, and the remaining objects are not deleted.
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
        """Return the error for a damaged object."""
        return damaged(self.store, name, Damaged(str(why)))

    def close(self) -> None:
        """Close the connections."""
        self.store.close()

    def _is(self, found: Identity) -> None:
        self.uuid, self.is_new = found.uuid, found.is_new
