"""Records which folders a start of the query was denied access to.

An event may name a path in a folder that only another user may enter, such as `lost+found`. The
first denials stop the query, so that an operator can grant the permissions. If access is still
denied at the third start, the files are quarantined.

    denied/<key>-<k>    start number k that was denied access to a folder of a container
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from spark_azqueue.journal.journal import Journal
from spark_azqueue.service.redaction import shown

from . import record
from .decide import Look, Looks
from .rules import folder_of

STARTS = 3
"""Denied files are quarantined at this start with a denial."""

_NAME = re.compile(r"denied/([0-9a-f]{32})-[0-9]{3}")


class Denials:
    """Denials that earlier starts recorded. The denials are read from the log once."""

    def __init__(self, log: Journal) -> None:
        """log: an open log. Raises ServiceError."""
        self._log = log
        self._known: dict[str, list[str]] = {}
        self._noted: set[str] = set()
        for name in log.store.names("denied"):
            if found := _NAME.fullmatch(name):
                self._known.setdefault(found[1], []).append(name)

    def check(self, looks: Looks) -> None:
        """Raise OSError if access to a file is denied, before the third start with a denial. Raises
        ServiceError.

        If access to a folder is no longer denied, the folder's count of starts begins again.
        """
        denied = {_key(*at): at for at, look in looks.items() if look is Look.DENIED}
        if self._known:
            seen = (at for at, look in looks.items() if look in (Look.FILE, Look.EMPTY))
            self._forget({_key(*at) for at in seen} - denied.keys())
        for key in denied.keys() - self._noted:
            self._note(key)
        early = [key for key in denied if len(self._known[key]) < STARTS]
        if early:
            place, path = denied[early[0]]
            raise OSError(
                f"the job may not look at {shown(path)} in the container {place}. Let it look into"
                " the folder, and start the query again: no file of this batch counts as read. At"
                f" start {STARTS} its files are quarantined; this was start"
                f" {len(self._known[early[0]])}"
            )

    def _note(self, key: str) -> None:
        names = self._known.setdefault(key, [])
        self._noted.add(key)
        if len(names) < STARTS:
            name = f"denied/{key}-{len(names):03d}"
            self._log.store.put_new(name, record.small_to_bytes())
            names.append(name)

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._log.remove(self._known.pop(key, ()))
            self._noted.discard(key)


def _key(place: str, path: str) -> str:
    return hashlib.blake2b(f"{place}/{folder_of(path)}".encode(), digest_size=16).hexdigest()
