"""A store of the write-ahead log in memory, with faults by order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from world.fates import Fate

from spark_azqueue.errors import Outcome, ServiceError, ServiceUnavailable
from spark_azqueue.service.names import (
    WRITE_AHEAD,
    Kind,
    Stored,
    checked_folder,
    checked_object,
    is_listed,
)


class MemoryLogStore:
    """A `LogStore` (journal/store.py). Thread-safe.

    objects: name -> bytes, shared by all stores of `another`. calls: (method, name), in order.
    faults: what becomes of the next puts, one each (None: nothing special).
    """

    def __init__(
        self,
        where: str = "memory:log",
        objects: dict[str, bytes] | None = None,
        lock: threading.Lock | None = None,
        kind: Kind = WRITE_AHEAD,
    ) -> None:
        """objects, and the lock that guards them: those of another store, if it shares them."""
        self.where = where
        self.kind = kind
        self.objects: dict[str, bytes] = {} if objects is None else objects
        self.calls: list[tuple[str, str]] = []
        self.faults: list[Fate | None] = []
        self.is_down = False
        self.written = time.time()  # when objects were, as a listing says
        self.times: dict[str, float] = {}  # the same, of some
        self._pauses: list[tuple[int, Callable[[], None]]] = []
        self._before_put: tuple[str, Callable[[], None]] | None = None
        self._afterwards: list[tuple[int, Callable[[], None]]] = []
        self._late: list[tuple[str, bytes]] = []
        self._lock = lock or threading.Lock()

    def another(self) -> MemoryLogStore:
        """The store of another process, over the same objects, with faults of its own."""
        made = MemoryLogStore(self.where, self.objects, self._lock, self.kind)
        made.times = self.times
        return made

    def pause(self, calls: int, happens: Callable[[], None]) -> None:
        """After so many more calls the process pauses before the next one, and this happens."""
        self._pauses.append((len(self.calls) + calls, happens))

    def before_put_in(self, folder: str, happens: Callable[[], None]) -> None:
        """This happens once, before the next put into this folder."""
        self._before_put = folder, happens

    def after_put(self, calls: int, happens: Callable[[], None]) -> None:
        """This happens after the first put that follows so many more calls, before it returns."""
        self._afterwards.append((len(self.calls) + calls, happens))

    def forget_pauses(self) -> None:
        """Nothing more happens in between."""
        self._pauses.clear()
        self._afterwards.clear()

    # ── what may happen to it ─────────────────────────────────────────────────────────────────

    def next_puts(self, *faults: Fate | None) -> None:
        """What becomes of the next puts."""
        self.faults += faults

    def land(self) -> list[tuple[str, bool]]:
        """Let the late puts take effect, in order: their names, and whether each made an object."""
        with self._lock:
            late, self._late = self._late, []
            return [(name, self._create(name, data)) for name, data in late]

    def damage(self, name: str, at: int = -1) -> None:
        """Flip one byte of an object."""
        with self._lock:
            data = bytearray(self.objects[name])
            data[at] ^= 0xFF
            self.objects[name] = bytes(data)

    def cut(self, name: str, size: int) -> None:
        """Leave only the first bytes of an object."""
        with self._lock:
            self.objects[name] = self.objects[name][:size]

    def remove(self, name: str) -> None:
        """Remove an object, as a lifecycle rule would."""
        with self._lock:
            del self.objects[name]

    # ── LogStore ──────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        self._called("open", "")

    def put_new(self, name: str, data: bytes) -> bool:
        at = len(self.calls)
        if self._before_put and name.startswith(self._before_put[0] + "/"):
            (_, before), self._before_put = self._before_put, None
            before()
        created = self._put_new(name, data)
        due = [happens for when, happens in self._afterwards if when <= at]
        self._afterwards = [each for each in self._afterwards if each[0] > at]
        for happens in due:
            happens()
        return created

    def _put_new(self, name: str, data: bytes) -> bool:
        self._called("put_new", checked_object(name))
        with self._lock:
            fault = self.faults.pop(0) if self.faults else None
            if fault is Fate.REFUSED:
                raise ServiceError(f"could not put {name}: HTTP 403", status=403)
            if fault is Fate.BUSY:
                raise _unavailable(f"could not put {name}: HTTP 503", 503)
            if fault is Fate.LATE:
                self._late.append((name, bytes(data)))
            if fault is None or fault is Fate.LOST_AFTER:
                created = self._create(name, data)
            if fault is not None:
                raise _unavailable(f"could not put {name}: no answer", None)
            return created

    def get(self, name: str, most: int) -> bytes | None:
        self._called("get", checked_object(name))
        with self._lock:
            found = self.objects.get(name)
        return None if found is None else found[:most]

    def names(self, folder: str, prefix: str = "") -> list[str]:
        self._called("names", checked_folder(folder))
        start = f"{folder}/"
        with self._lock:
            found = sorted(name for name in self.objects if name.startswith(start + prefix))
        return [name for name in found if is_listed(name.removeprefix(start))]

    def entries(self, folder: str, prefix: str = "") -> list[Stored]:
        return [
            Stored(name, len(self.objects.get(name, b"")), self.times.get(name, self.written))
            for name in self.names(folder, prefix)
        ]

    def delete(self, name: str) -> None:
        self._called("delete", checked_object(name))
        with self._lock:
            self.objects.pop(name, None)

    def sweep(self, older_than_s: float = 0.0) -> None:
        self._called("sweep", "")

    def close(self) -> None:
        self._called("close", "")

    def _called(self, method: str, name: str) -> None:
        at = len(self.calls)
        due = [happens for when, happens in self._pauses if when <= at]
        self._pauses = [each for each in self._pauses if each[0] > at]
        for happens in due:
            happens()
        self.calls.append((method, name))
        if self.is_down and method != "close":
            raise _unavailable(f"could not {method} {name}: HTTP 503", 503)

    def _create(self, name: str, data: bytes) -> bool:
        if name in self.objects:
            return False
        self.objects[name] = bytes(data)
        return True


def _unavailable(text: str, status: int | None) -> ServiceUnavailable:
    return ServiceUnavailable(text, status=status, outcome=Outcome.RETRY)
