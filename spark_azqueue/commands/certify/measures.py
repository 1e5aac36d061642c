"""Measures an account: the duration of answers, the clock, the version, and limits."""

from __future__ import annotations

import base64
import datetime
import itertools
import statistics
import time
from collections import Counter
from dataclasses import dataclass

from spark_azqueue.errors import ServiceError
from spark_azqueue.service import fields
from spark_azqueue.service.account import API_VERSION, Account, queue_sas
from spark_azqueue.service.answers import THROTTLED
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Delete, Dequeue, Peek, Put, Update
from spark_azqueue.service.queues.client import QueueClient

from ..doctor.finding import credential_in_words
from .sandbox import Sandbox

ROUNDS = 20
LOAD_S = 15.0
LOAD_REQUESTS = 60_000
_AT_ONCE = 64


@dataclass(frozen=True)
class Measure:
    """A measurement: its name, and its value as text."""

    name: str
    value: str


def introduction(box: Sandbox) -> list[Measure]:
    """Return the name, version and clock in the service's answers, and whether the account accepts
    account keys.

    Raises ServiceError or NotTried if no queue can be created or read.
    """
    ref = box.queue()
    offsets = []
    for _ in range(5):
        before = time.time()
        answer = box.answer(Peek(ref, 1))
        at = fields.moment(answer.headers.get("date", ""))
        if at is not None:
            # The header Date has only whole seconds, so it is half a second behind on average.
            offsets.append(at + 0.5 - (before + time.time()) / 2)
    clock = f"{statistics.median(offsets):+.1f} s (to half a second)" if offsets else "not reported"
    version = answer.headers.get("x-ms-version", "not reported")
    return [
        Measure("the service says that it is", box.server or "not reported"),
        Measure(f"version of its answers (asked for {API_VERSION})", version),
        Measure("its clock is ahead of this machine's by", clock),
        Measure("credential", credential_in_words(box.account)),
        Measure("a SAS of a key that is none is refused with", _made_up_key(box, ref)),
    ]


def latencies(box: Sandbox) -> list[Measure]:
    """Measure the duration of each operation from this machine, on one connection."""
    ref = box.queue()
    for _ in range(ROUNDS):
        lease = box.put(ref)
        box.do(Peek(ref, 1))
        for _, leased in box.do(Dequeue(ref, 1, 60)).received:
            lease = leased
        _, renewed = box.do(Update(lease, 60))
        box.do(Delete(renewed or lease))
    return [
        Measure(f"time of: {operation}", _spread(box.seconds[operation]))
        for operation in ("put", "peek", "dequeue", "update", "delete")
    ]


def load(box: Sandbox) -> list[Measure]:
    """Put messages into one queue as fast as possible until the service throttles. Stops after
    LOAD_S seconds or LOAD_REQUESTS requests.
    """
    ref = box.queue()
    ends_at = time.monotonic() + LOAD_S
    began = time.monotonic()
    answers: Counter[str] = Counter()
    retry_after = 0
    first: float | None = None
    numbers = itertools.count()
    sent = 0
    with box.client.in_flight() as flight:
        while True:
            now = time.monotonic()
            while now < ends_at and sent < LOAD_REQUESTS and len(flight) < _AT_ONCE:
                flight.begin(next(numbers), Put(ref, "x"))
                sent += 1
            if not len(flight):
                break
            for _, result in flight.ended(1.0):
                if not isinstance(result, ServiceError):
                    answers["taken"] += 1
                    continue
                answers[f"{result.status} {result.code}".strip()] += 1
                if result.status in THROTTLED:
                    first = time.monotonic() - began if first is None else first
                    retry_after += result.retry_after is not None
    box.requests += sent
    took = time.monotonic() - began
    throttled = sum(n for status, n in answers.items() if status[:3] in ("503", "429"))
    return [
        Measure(
            "puts into one queue", f"{sent:,} in {took:.1f} s, {answers['taken'] / took:,.0f}/s"
        ),
        Measure("answers", ", ".join(f"{n:,} {status}" for status, n in answers.most_common(6))),
        Measure("first 503 or 429", f"after {first:.1f} s" if first is not None else "none"),
        Measure("with Retry-After", f"{retry_after:,} of {throttled:,}"),
    ]


def _made_up_key(box: Sandbox, ref: QueueRef) -> str:
    """Return the service's answer to an invented account key. The answer shows whether the account
    accepts no keys at all.
    """
    account, key = box.account, base64.b64encode(bytes(64)).decode("ascii")
    expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    https = account.url.startswith("https:")
    sas = queue_sas(account.name, key, ref.name, expiry, https=https)
    client = QueueClient(Account(account.name, account.url, sas=sas))
    status = box.status_of(Peek(ref, 1), client)
    client.close()
    no_keys = "KeyBasedAuthenticationNotPermitted" in status
    return f"{status}: the account takes no keys" if no_keys else status


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "not measured"
    ordered = sorted(1_000 * each for each in seconds)
    tail = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"{statistics.median(ordered):.1f} ms (95 %: {tail:.1f}, of {len(ordered)})"
