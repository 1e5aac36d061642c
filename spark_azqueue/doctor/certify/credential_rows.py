"""How each assumption about credentials is tried: by credentials that the service must refuse."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

from spark_azqueue.service.account import Account
from spark_azqueue.service.credentials import Authority
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.session import Session
from spark_azqueue.service.signing import queue_sas

from .bench import Bench, NotTried, expect

_HOUR = datetime.timedelta(hours=1)


class _NoToken(Authority):
    def sign(self, queue: str, url: str, headers: dict[str, str]) -> str:
        headers["Authorization"] = "Bearer no-token"
        return url


def unreadable_token(bench: Bench) -> None:
    session = Session(replace(bench.account, key=None, sas="none", identity=None))
    session.authority = _NoToken()
    status = _dequeue_status(bench, bench.queue(), QueueClient(session.account, session))
    expect(status, "400 InvalidAuthenticationInfo")


def sas_of_another_queue(bench: Bench) -> None:
    ref = bench.queue()
    client = _with_sas(bench, f"{ref.name}-other")
    expect(_dequeue_status(bench, ref, client), "403 AuthenticationFailed")


def expired_sas(bench: Bench) -> None:
    ref = bench.queue()
    client = _with_sas(bench, ref.name, life=-_HOUR)
    expect(_dequeue_status(bench, ref, client), "403 AuthenticationFailed")


def missing_letter(bench: Bench) -> None:
    ref = bench.queue()
    client = _with_sas(bench, ref.name, letters="r")
    expect(_dequeue_status(bench, ref, client), "403 AuthorizationPermissionMismatch")


def _dequeue_status(bench: Bench, ref: QueueRef, client: QueueClient) -> str:
    try:
        return bench.status_of(Dequeue(ref, 1, 1), client)
    finally:
        client.close()


def _with_sas(
    bench: Bench, queue: str, *, letters: str = "raup", life: datetime.timedelta = _HOUR
) -> QueueClient:
    """A client by a SAS of its own, made from the account key. Raises NotTried without a key."""
    account = bench.account
    if not account.key:
        raise NotTried("it takes an account key, to make such a SAS of")
    expiry = datetime.datetime.now(datetime.timezone.utc) + life
    https = account.url.startswith("https:")
    sas = queue_sas(account.name, account.key, queue, expiry, https=https, letters=letters)
    return QueueClient(Account(account.name, account.url, sas=sas))


CHECKS: dict[str, Callable[[Bench], None]] = {
    check.__name__.replace("_", "-"): check
    for check in (unreadable_token, sas_of_another_queue, expired_sas, missing_letter)
}
"""By the keys of their assumptions."""
