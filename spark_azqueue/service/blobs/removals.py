"""Deletes blobs in the background once their messages are deleted."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait

from ..workers import Submits
from .store import BlobStore

log = logging.getLogger(__name__)


class Removals:
    """Deletes the blobs of settled messages in the background, as well as it goes.

    A blob that stays (this process dies first, the service refuses) is read by nobody any more; a
    lifecycle rule of the container removes it. See docs/claim-check.md.
    """

    def __init__(self, store: BlobStore, workers: Submits) -> None:
        self._store = store
        self._workers = workers
        self._lock = threading.Lock()
        self._under_way: set[Future[None]] = set()

    def begin(self, name: str) -> None:
        """The message that referred to this blob is deleted."""
        try:
            future = self._workers.submit(self._delete, name)
        except RuntimeError as error:
            self._stays(name, error)
            return
        with self._lock:
            self._under_way.add(future)
        future.add_done_callback(self._ended)

    def wait(self, timeout_s: float) -> None:
        """Wait for those begun; never raises."""
        with self._lock:
            waiting = set(self._under_way)
        wait(waiting, timeout=timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def _delete(self, name: str) -> None:
        try:
            self._store.delete(name)
        except Exception as error:  # noqa: BLE001 (a credential's own, say)
            self._stays(name, error)

    def _stays(self, name: str, error: Exception) -> None:
        log.warning(
            "blob '%s' was not deleted: %s; its message is settled, and the blob stays", name, error
        )

    def _ended(self, future: Future[None]) -> None:
        with self._lock:
            self._under_way.discard(future)
