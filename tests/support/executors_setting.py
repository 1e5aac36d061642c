"""What the simulation of leaseOn=executors begins with: options, time, ids, and small limits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import tenacity
from world.service import Service

from spark_azqueue.journal import identity
from spark_azqueue.options.parse import source_config
from spark_azqueue.service import retry
from spark_azqueue.service.queues import flow
from spark_azqueue.source import suspects
from spark_azqueue.source.batches import receiver
from spark_azqueue.source.executors import (
    closing,
    consumer,
    given_up,
    planning,
    recovery,
    slot,
)
from spark_azqueue.source.intake import queues

ACCOUNT = "shop"
NAMES = ("aaa", "bbb", "ccc")
POISON = tuple(f"{name}-poison" for name in NAMES)
RETENTION = 2
LEASE_S = 30
TRIES = 2
"""So often a batch fails before the next start gives it up: maxDequeueCount, and once more."""
OPTIONS = {
    "secret.connectionString": f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey="
    f"{'A' * 86}==;QueueEndpoint=http://127.0.0.1:1/{ACCOUNT}",
    "queue": ",".join(NAMES),
    "leaseOn": "executors",
    "writeAheadLog": "file:/unused",
    "deleteAfter": "log",
    "executorSlots": "2",
    "messageEncoding": "base64",
    "onUndecodable": "poison",
    "visibilityTimeout": str(LEASE_S),
    "maxMessagesPerTrigger": "5",
    "maxDequeueCount": str(TRIES - 1),
    "poisonFormat": "copy",
}
CONFIG = source_config(OPTIONS, {})
COMES_AND_GOES = NAMES[2]
CHOICES = {
    name: source_config(OPTIONS | {"queue": "aaa,bbb,c*", **changed}, {})
    for name, changed in {
        "poison": {},
        "fail": {"onUndecodable": "fail"},
        "none": {"messageEncoding": "none"},
        "auto": {"messageEncoding": "auto"},
        "binary": {"bodyType": "binary"},
        "earliest": {"writeAheadLogStart": "earliest"},
        "permissive": {"onUndecodable": "permissive"},
        "fail none": {"onUndecodable": "fail", "messageEncoding": "none"},
    }.items()
}
"""The third queue is of a pattern."""


class Broken(AssertionError):  # noqa: N818
    """A promise is broken."""


def with_simulated_time(
    patch: pytest.MonkeyPatch, service: Service, sleep: Callable[[float], None]
) -> None:
    """Time and ids come from the world, pages hold two messages, old plans go at once, and what is
    given up comes again in thirds."""
    time = SimpleNamespace(monotonic=service.clock.now, time=service.wall, sleep=sleep)
    for module in (flow, receiver, retry, slot, tenacity):
        patch.setattr(module, "time", time)
    patch.setattr(retry, "_chance", SimpleNamespace(uniform=lambda low, high: (low + high) / 2))
    patch.setattr(receiver, "MAX_PER_REQUEST", 2)
    patch.setattr(planning, "MAX_PER_REQUEST", 2)
    patch.setattr(closing, "CLEAN_EVERY", 1)
    patch.setattr(queues, "LOOK_AGAIN_S", 3)
    patch.setattr(suspects, "REPEATS", TRIES)
    patch.setattr(suspects, "PARTS", 3)
    patch.setattr(suspects, "SINGLES_UP_TO", 2)
    numbers = itertools.count(1)
    ids = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"{next(numbers) * 7919 % 10**9:032x}"))
    for module in (closing, consumer, given_up, identity, slot, recovery):
        patch.setattr(module, "uuid", ids)
