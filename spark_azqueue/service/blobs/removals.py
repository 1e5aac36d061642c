"""Deletes blobs in the background after their messages are deleted."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait

from ..workers import Submits
from .store import BlobStore

log = logging.getLogger(__name__)


class Removals:
    """Deletes the blobs of settled messages in the background (best effort).

    A blob may stay if this process dies first or the service refuses. Nothing reads it any more,
    and a lifecycle rule of the container can remove it. See docs/claim-check.md.
    """

    def __init__(self, store: BlobStore, workers: Submits) -> None:
        self._store = store
        self._workers = workers
        self._lock = threading.Lock()
        self._under_way: set[Future[None]] = set()

    def begin(self, name: str) -> Future[None] | None:
        """Begin to delete a blob, after its message was deleted. Never raises.

        Returns what ends when that has ended, None if it cannot begin.
        """
        try:
            future = self._workers.submit(self._delete, name)
        except RuntimeError as error:
            self._stays(name, error)
            return None
        with self._lock:
            self._under_way.add(future)
        future.add_done_callback(self._ended)
        return future

    def wait(self, timeout_s: float) -> None:
        """Wait up to this long for the deletes that have begun. Never raises."""
        with self._lock:
            waiting = set(self._under_way)
        wait(waiting, timeout=timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def _delete(self, name: str) -> None:
        try:
            self._store.delete(name)
        except Exception as error:  # noqa: BLE001 (a credential may raise anything)
            self._stays(name, error)

    def _stays(self, name: str, error: Exception) -> None:
        log.warning(
            "blob '%s' was not deleted: %s; its message is settled, and the blob stays", name, error
        )

    def _ended(self, future: Future[None]) -> None:
        with self._lock:
            self._under_way.discard(future)
