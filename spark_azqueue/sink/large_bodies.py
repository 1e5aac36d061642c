"""What each row's request becomes: a call, or for a large body first a blob and then a call."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from spark_azqueue.errors import Outcome, QueueNotFound, ServiceError
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.blobs.references import Large
from spark_azqueue.service.blobs.store import BlobStore
from spark_azqueue.service.messages import Lease, encode
from spark_azqueue.service.queues import calls
from spark_azqueue.service.queues.calls import Call, Put
from spark_azqueue.service.queues.client import AzureQueueClient
from spark_azqueue.service.queues.management import create_queue
from spark_azqueue.service.retry import SEND

from .requests import Delete, Enqueue, Request, Update


@dataclass(frozen=True, slots=True)
class _Delete(calls.Delete):
    def refused(self, error: ServiceError) -> Outcome:
        return _judged(error.outcome, in_doubt=error.unanswered)


@dataclass(frozen=True, slots=True)
class _Update(calls.Update):
    def refused(self, error: ServiceError) -> tuple[Outcome, Lease | None]:
        return _judged(error.outcome, in_doubt=error.unanswered), None


def _judged(outcome: Outcome, *, in_doubt: bool) -> Outcome:
    """What a refused receipt means; `in_doubt`: an attempt before may have taken effect.

    Then that is the likely reason for the refusal.
    """
    return Outcome.OK if outcome.refused and in_doubt else outcome


def call_of(request: Request) -> Call[Any] | None:
    """The call that a row makes; None where its body is to be stored in a blob first."""
    if isinstance(request, Delete):
        return _Delete(request.lease)
    if isinstance(request.text, Large):
        return None
    if isinstance(request, Update):
        return _Update(request.lease, request.visibility_s, request.text)
    return Put(request.queue, request.text, request.delay_s, request.ttl_s)


def outcome_of(result: object) -> Outcome:
    """What a call's result says: OK, or GONE or LOST for a stale receipt.

    Raises TypeError for everything else: nothing that is not understood counts as done.
    """
    if result is None:  # a put has nothing to say
        return Outcome.OK
    outcome = result[0] if isinstance(result, tuple) else result
    if isinstance(outcome, Outcome) and (outcome is Outcome.OK or outcome.refused):
        return outcome
    raise TypeError(f"a request gave {outcome!r}, which says neither done nor refused")


class LargeBodies:
    """Requests with large bodies, one at a time in each thread."""

    def __init__(self, config: SinkConfig, service: AzureQueueClient) -> None:
        self._config = config
        self._service = service
        self._blobs = None
        if config.claim_check is not None:
            self._blobs = BlobStore(
                config.claim_check.account,
                config.claim_check.container,
                config.send_parallelism,
                create_container=config.create_queue,
            )

    def perform(self, request: Request) -> Outcome:
        """Do it, retrying what may be retried. Returns OK, or GONE or LOST for a stale receipt.

        Each attempt stores the body anew; see `BlobStore.put`. Raises QueueNotFound, AccessDenied
        or ServiceError: it was not done, or nobody knows.
        """
        in_doubt = False

        def attempt() -> Outcome:
            nonlocal in_doubt
            call = call_of(self._stored(request))
            assert call
            try:
                return outcome_of(self._service.now(call))
            except QueueNotFound:
                if not (self._config.create_queue and isinstance(request, Enqueue)):
                    raise
                create_queue(self._config.account, request.queue)
                return outcome_of(self._service.now(call))
            except ServiceError as error:
                in_doubt |= error.may_have_taken_effect
                raise

        outcome = SEND(attempt)
        return _judged(outcome, in_doubt=in_doubt)

    def close(self) -> None:
        """Close the connections to the blobs."""
        if self._blobs is not None:
            self._blobs.close()

    def _stored(self, request: Request) -> Request:
        if isinstance(request, Delete) or not isinstance(request.text, Large):
            return request
        assert self._blobs is not None, "there are no Large bodies without largeBody=blob"
        text = encode(self._blobs.put(request.text).text, self._config.encoding)
        return dataclasses.replace(request, text=text)
