"""largeBody=blob: the container of large bodies, by Azure's own SDK.

azure-storage-blob is an extra (`pip install 'spark-azqueue[blob]'`), so it is imported where it is
used. Never shared by two processes. Ring: edge.
"""

from __future__ import annotations

import importlib.util
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

from azure.core.exceptions import AzureError, ResourceExistsError

from .config import ClaimCheck
from .control import code_of, sdk_credential, translated
from .errors import InvalidOption, LostBlob, ServiceError
from .redaction import hide_signatures_in_logs
from .references import Large, Reference, new_name
from .retry import BLOB
from .transport import API_VERSION
from .wire import trusted_authorities
from .workers import Submits

if TYPE_CHECKING:
    from azure.core.pipeline.transport import RequestsTransport
    from azure.storage.blob import ContainerClient

T = TypeVar("T")

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 10.0
_READ_TIMEOUT_S = 60.0

_NEEDS = {
    "store": "the SAS letter 'c' for blobs or the role 'Storage Blob Data Contributor'",
    "read": "the SAS letter 'r' for blobs or the role 'Storage Blob Data Reader'",
    "delete": "the SAS letter 'd' for blobs or the role 'Storage Blob Data Contributor'",
}


def require_package() -> None:
    """Refuse largeBody=blob where azure-storage-blob is not installed (InvalidOption)."""
    try:
        found = importlib.util.find_spec("azure.storage.blob")
    except ImportError:
        found = None
    if found is None:
        raise InvalidOption(
            "largeBody=blob needs the package azure-storage-blob, which is not installed:"
            " pip install 'spark-azqueue[blob]', on the driver and on the executors"
        )


class BlobStore:
    """Large bodies in one container. Safe to use from several threads; connects when first used."""

    def __init__(
        self, claim_check: ClaimCheck, connections: int, *, create_container: bool = False
    ) -> None:
        self._place = claim_check
        self._connections = connections
        self._create = create_container
        self._lock = threading.Lock()
        self._made: ContainerClient | None = None

    def put(self, body: Large) -> Reference:
        """Store a body under a name of its own: one attempt, not repeated here.

        Who enqueues the reference repeats both: where the answer to a put was lost, the message may
        be there twice, and each has to have a blob that it alone refers to.
        Raises ServiceError: it is not stored, or nobody refers to it.
        """
        from azure.storage.blob import ContentSettings

        name = new_name()
        kind = "text/plain; charset=utf-8" if body.is_text else "application/octet-stream"

        def upload() -> None:
            self._client().upload_blob(
                name,
                body.data,
                length=len(body.data),
                overwrite=False,
                content_settings=ContentSettings(content_type=kind),
            )

        try:
            self._do("store", name, upload)
        except ServiceError as error:
            if error.code != "ContainerNotFound" or not self._create:
                raise
            self._do("store", name, self._create_container)
            self._do("store", name, upload)
        return Reference(self._place.container, name, len(body.data))

    def get(self, reference: Reference) -> bytes:
        """The whole body, retried. Raises LostBlob where it is gone, or is of another size."""

        def download() -> bytes:
            return bytes(self._client().download_blob(reference.name).readall())

        try:
            data: bytes = BLOB(self._do, "read", reference.name, download)
        except ServiceError as error:
            if error.code == "BlobNotFound":
                raise LostBlob(
                    f"the blob '{reference.name}' in container '{reference.container}' of account"
                    f" '{self._place.account.name}' does not exist"
                ) from None
            raise
        if len(data) != reference.size:
            raise LostBlob(
                f"the blob '{reference.name}' in container '{reference.container}' has"
                f" {len(data):,} bytes, and its message says {reference.size:,}"
            )
        return data

    def delete(self, name: str) -> None:
        """Delete, retried. Gone already is fine. Raises ServiceError."""
        try:
            BLOB(self._do, "delete", name, lambda: self._client().delete_blob(name))
        except ServiceError as error:
            if error.code not in ("BlobNotFound", "ContainerNotFound"):
                raise

    def close(self) -> None:
        """Close the connections."""
        if self._made is not None:
            self._made.close()

    def _do(self, operation: str, name: str, act: Callable[[], T]) -> T:
        try:
            return act()
        except AzureError as error:
            place = f"container '{self._place.container}' of account '{self._place.account.name}'"
            found = translated(error, f"{operation} blob '{name}' in {place}", _NEEDS[operation])
            if found.code == "ContainerNotFound":
                text = (
                    f"{found}. Create the container, correct 'blobContainer', or let the sink"
                    " create it with createQueue=true"
                )
                raise ServiceError(text, status=found.status, code=found.code) from None
            raise found from None

    def _create_container(self) -> None:
        try:
            self._client().create_container()
        except ResourceExistsError as error:
            if code_of(error) != "ContainerAlreadyExists":
                raise

    def _client(self) -> ContainerClient:
        with self._lock:
            if self._made is None:
                from azure.storage.blob import ContainerClient

                hide_signatures_in_logs()
                self._made = ContainerClient(
                    self._place.account.url,
                    self._place.container,
                    credential=sdk_credential(self._place.account),
                    api_version=API_VERSION,
                    transport=_pooled(self._connections),
                    retry_total=0,
                    connection_verify=trusted_authorities(),
                    connection_timeout=_CONNECT_TIMEOUT_S,
                    read_timeout=_READ_TIMEOUT_S,
                )
            return self._made


def _pooled(connections: int) -> RequestsTransport:
    """The SDK's own way over HTTP, but with as many kept connections (it keeps ten)."""
    import requests.adapters
    from azure.core.pipeline.transport import RequestsTransport

    session = requests.Session()
    adapter = requests.adapters.HTTPAdapter(pool_maxsize=connections)
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return RequestsTransport(session=session)


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
