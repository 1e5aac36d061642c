"""largeBody=blob: stores large bodies in a container, reads them, and deletes them."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait

from spark_azqueue.errors import LostBlob, ServiceError

from ..account import Account
from ..workers import Submits
from .calls import PutBlob
from .container import CALL_S, Container
from .references import Large, Reference, new_name

log = logging.getLogger(__name__)

_NEEDS = {
    "store": "the SAS letter 'c' for blobs or the role 'Storage Blob Data Contributor'",
    "read": "the SAS letter 'r' for blobs or the role 'Storage Blob Data Reader'",
    "delete": "the SAS letter 'd' for blobs or the role 'Storage Blob Data Contributor'",
}


class BlobStore:
    """Large bodies in one container. Connects on first use.

    Thread-safe; do not share between processes.
    """

    def __init__(
        self,
        account: Account,
        container: str,
        *,
        create_container: bool = False,
        within_s: float = CALL_S,
    ) -> None:
        """Store the name of the container. Sends no request.

        account: the account; its `url` is the blob endpoint. create_container: True to create the
        container if it is missing. within_s: maximum time of a call in seconds, besides the time to
        transfer a body.
        """
        self._account = account
        self._name = container
        self._create = create_container
        self._container = Container(
            account,
            container,
            if_missing="Create the container, correct 'blobContainer', or let the sink create it"
            " with createQueue=true",
            within_s=within_s,
        )

    def put(self, body: Large) -> Reference:
        """Store a body under a new name, in one attempt.

        To retry, the caller stores the body again, then enqueues the message again: if the answer
        to an enqueue is lost, the retry may make a second message, and each of the two messages
        needs its own blob. Raises ServiceError. After this error, the body is not stored, or no
        message refers to its blob.
        """
        name = new_name()
        kind = "text/plain; charset=utf-8" if body.is_text else "application/octet-stream"
        call = PutBlob(self._container.ref, name, _NEEDS["store"], body.data, kind)
        try:
            self._container.once(call, len(body.data))
        except ServiceError as error:
            if error.code != "ContainerNotFound" or not self._create:
                raise
            self._container.create()
            self._container.once(call, len(body.data))
        return Reference(self._name, name, len(body.data))

    def get(self, reference: Reference) -> bytes:
        """Read the whole body, with retries.

        Raises LostBlob if the blob is missing, or if its size differs from the reference.

        Requests at most one byte more than the size in the reference. Never decompresses the blob,
        because the size in the reference is the size of the stored blob.
        """
        size = reference.size
        data = self._container.read(reference.name, size + 1, _NEEDS["read"])
        if data is None:
            raise LostBlob(
                f"the blob '{reference.name}' in container '{reference.container}' of account"
                f" '{self._account.name}' does not exist"
            )
        if len(data) != size:
            has = "more bytes" if len(data) > size else f"{len(data):,} bytes"
            raise LostBlob(
                f"the blob '{reference.name}' in container '{reference.container}' has"
                f" {has}, and its message says {size:,}"
            )
        return data

    def delete(self, name: str) -> None:
        """Delete a blob, with retries. Succeeds if the blob does not exist. Raises ServiceError."""
        try:
            self._container.delete(name, _NEEDS["delete"])
        except ServiceError as error:
            if error.code != "ContainerNotFound":
                raise

    def close(self) -> None:
        """Close the connections. A later call opens new connections."""
        self._container.close()


class Removals:
    """Deletes the blobs of settled messages in the background. Failures are ignored.

    If this process ends before the delete, or if the service refuses the delete, the blob remains.
    No message refers to such a blob, so a lifecycle rule of the container may delete it. See
    docs/writing.md.
    """

    def __init__(self, store: BlobStore, workers: Submits) -> None:
        self._store = store
        self._workers = workers
        self._lock = threading.Lock()
        self._under_way: set[Future[None]] = set()

    def begin(self, name: str) -> Future[None] | None:
        """Start deleting a blob whose message was deleted. Never raises.

        Returns a future that is done when the delete has succeeded or failed. Returns None if the
        delete cannot be started.
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
        """Wait up to `timeout_s` seconds for the started deletes. Never raises."""
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
