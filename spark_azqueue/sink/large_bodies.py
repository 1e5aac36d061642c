"""Sends requests whose body is too large for a message. The body is first stored in a blob."""

from __future__ import annotations

import dataclasses
from typing import Any

from spark_azqueue.errors import Outcome, QueueNotFound, ServiceError
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.blobs.store import BlobStore
from spark_azqueue.service.encoding import encode
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import SEND, RetryPolicy
from spark_azqueue.service.wire.calls import Call

from .requests import EnqueueRow, RowRequest, judged
from .tally import outcome_of
from .transaction.record import Hidden


def _outcome_or_hidden(result: object) -> Outcome | Hidden:
    return result if isinstance(result, Hidden) else outcome_of(result)


class LargeBodies:
    """Performs requests with large bodies. Thread-safe; each call blocks its thread."""

    def __init__(
        self,
        config: SinkConfig,
        client: QueueClient,
        missing: MissingQueues,
        retry: RetryPolicy = SEND,
    ) -> None:
        self._config = config
        self._retry = retry
        self._client = client
        self._missing = missing
        self._blobs = None
        if config.claim_check is not None:
            self._blobs = BlobStore(
                config.claim_check.account,
                config.claim_check.container,
                create_container=config.create_queue,
            )

    def perform(self, request: RowRequest) -> Outcome | Hidden:
        """Perform a request, with retries. Returns OK, or GONE or LOST for a stale receipt.

        With transactionLog, a put returns the prepared message.

        Each try stores the body in a new blob; see `BlobStore.put`. Raises QueueNotFound,
        AccessDenied or ServiceError if the request failed, or if its outcome is unknown.
        """
        in_doubt = False

        def attempt() -> Outcome | Hidden:
            nonlocal in_doubt
            call = self._stored(request)
            try:
                return _outcome_or_hidden(self._client.now(call))
            except QueueNotFound:
                if not self._missing.create_for(request):
                    raise
                return _outcome_or_hidden(self._client.now(call))
            except ServiceError as error:
                in_doubt |= error.may_have_taken_effect
                raise

        outcome = self._retry(attempt)
        return judged(outcome, in_doubt=in_doubt) if isinstance(outcome, Outcome) else outcome

    def close(self) -> None:
        """Close the connections to the blob service."""
        if self._blobs is not None:
            self._blobs.close()

    def _stored(self, request: RowRequest) -> Call[Any]:
        assert self._blobs, "there are no Large bodies without largeBody=blob"
        assert request.large
        text = encode(self._blobs.put(request.large).text, self._config.encoding)
        return dataclasses.replace(request, text=text, large=None)


class MissingQueues:
    """Creates each queue at most once for a task. Thread-safe."""

    def __init__(self, client: QueueClient, *, allowed: bool) -> None:
        self._client = client
        self._allowed = allowed
        self._created: set[QueueRef] = set()

    def create_for(self, request: RowRequest) -> bool:
        """Create the queue of this row, unless the task has already created it.

        Returns False if the options do not allow it.

        A queue is only created for a row to enqueue, because a new queue has no message to update
        or delete. Raises ServiceError.
        """
        if not (self._allowed and isinstance(request, EnqueueRow)):
            return False
        if request.queue not in self._created:  # two threads may create the same queue without harm
            self._client.create(request.queue)
            self._created.add(request.queue)
        return True
