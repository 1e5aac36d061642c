"""Carries out what one row asks for: which requests it takes, and what their answers mean.

Ring: edge.
"""

from __future__ import annotations

from .azure_queue import AzureQueue
from .blobs import BlobStore
from .config import SinkConfig
from .control import create_queue
from .errors import Outcome, QueueNotFound, ServiceError
from .messages import encode
from .outgoing import Delete, Enqueue, Request, Update
from .references import Large
from .retry import SEND
from .transport import Transport


class Performer:
    """Performs requests on the queues of one account, from any number of threads."""

    def __init__(self, config: SinkConfig, transport: Transport) -> None:
        self._config = config
        self._transport = transport
        self._queues: dict[str, AzureQueue] = {}
        self._blobs = None
        if config.claim_check is not None:
            self._blobs = BlobStore(
                config.claim_check, config.send_parallelism, create_container=config.create_queue
            )

    def perform(self, request: Request) -> Outcome:
        """Do it, retrying what may be retried. Returns OK, or GONE or LOST for a stale receipt.

        Raises QueueNotFound, AccessDenied or ServiceError: it was not done, or nobody knows.
        """
        if isinstance(request, Enqueue):
            SEND(self._put, request)
            return Outcome.OK
        return self._by_receipt(request)

    def close(self) -> None:
        """Close the connections for large bodies (the transport is the caller's)."""
        if self._blobs is not None:
            self._blobs.close()

    def _put(self, message: Enqueue) -> None:
        queue = self._find(message.queue)
        text = self._stored(message.text)
        try:
            queue.put(text, message.delay_s, message.ttl_s)
        except QueueNotFound:
            if not self._config.create_queue:
                raise
            create_queue(self._config.account, message.queue)
            queue.put(text, message.delay_s, message.ttl_s)

    def _by_receipt(self, request: Update | Delete) -> Outcome:
        queue = self._find(request.lease.queue)
        unanswered = False

        def attempt() -> Outcome:
            nonlocal unanswered
            text = None
            if isinstance(request, Update) and request.text is not None:
                text = self._stored(request.text)
            try:
                if isinstance(request, Update):
                    return queue.update(request.lease, request.visibility_s, text)[0]
                return queue.delete(request.lease)
            except ServiceError as error:
                unanswered |= error.outcome is Outcome.RETRY
                raise

        outcome = SEND(attempt)
        # After an attempt whose answer was lost the likely reason is that it took effect.
        return Outcome.OK if outcome.refused and unanswered else outcome

    def _stored(self, text: str | Large) -> str:
        """The text to send. A large body is stored anew for each attempt; see `BlobStore.put`."""
        if not isinstance(text, Large):
            return text
        assert self._blobs is not None, "there are no Large bodies without largeBody=blob"
        return encode(self._blobs.put(text).text, self._config.encoding)

    def _find(self, name: str) -> AzureQueue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = AzureQueue(self._transport, name)
        return queue
