"""Carries out what one row asks for: which requests it takes, and what their answers mean.

Ring: edge.
"""

from __future__ import annotations

from .azure_queue import AzureQueue
from .config import SinkConfig
from .control import create_queue
from .errors import Outcome, QueueNotFound, ServiceError
from .leases import Lease
from .outgoing import Enqueue, Request, Update
from .retry import SEND
from .transport import Transport


class Performer:
    """Performs requests on the queues of one account, from any number of threads."""

    def __init__(self, config: SinkConfig, transport: Transport) -> None:
        self._config = config
        self._transport = transport
        self._queues: dict[str, AzureQueue] = {}

    def perform(self, request: Request) -> Outcome:
        """Do it, retrying what may be retried. Returns OK, or GONE or LOST for a stale receipt.

        Raises QueueNotFound, AccessDenied or ServiceError: it was not done, or nobody knows.
        """
        if isinstance(request, Enqueue):
            SEND(self._put, request)
            return Outcome.OK
        return _ByReceipt(self._find(request.lease.queue), request).perform()

    def _put(self, message: Enqueue) -> None:
        queue = self._find(message.queue)
        try:
            queue.put(message.text, message.delay_s, message.ttl_s)
        except QueueNotFound:
            if not self._config.create_queue:
                raise
            create_queue(self._config.account, message.queue)
            queue.put(message.text, message.delay_s, message.ttl_s)

    def _find(self, name: str) -> AzureQueue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = AzureQueue(self._transport, name)
        return queue


class _ByReceipt:
    """One update or delete, through all its attempts."""

    def __init__(self, queue: AzureQueue, request: Request) -> None:
        self._queue = queue
        self._request = request
        self._unanswered = False

    def perform(self) -> Outcome:
        outcome = SEND(self._attempt)
        # After an attempt whose answer was lost the likely reason is that it took effect.
        return Outcome.OK if outcome.refused and self._unanswered else outcome

    def _attempt(self) -> Outcome:
        request = self._request
        assert not isinstance(request, Enqueue)
        lease: Lease = request.lease
        try:
            if isinstance(request, Update):
                return self._queue.update(lease, request.visibility_s, request.text)[0]
            return self._queue.delete(lease)
        except ServiceError as error:
            self._unanswered |= error.outcome is Outcome.RETRY
            raise
