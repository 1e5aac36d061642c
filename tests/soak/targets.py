"""The queue service of a run: the strict fake with faults, or Azurite. And what it can tell."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from spark_azqueue.testing import FakeQueueService, Fault, MessageView
from spark_azqueue.testing.azurite import Azurite
from spark_azqueue.testing.blobs import FakeBlobService
from spark_azqueue.testing.model import ModelQueue

_ANYWHERE = ("busy_503", "error_500", "reset", "reply_lost", "slow")
_SLOW_S = (0.2, 0.5, 1.0)
_LAST_S = 1.0
_LOG_AT_MOST = 5_000_000

MIDDLE = "soak-middle"
"""The queue between the two queries of a chain."""


class Event(NamedTuple):
    """One request that touched a message."""

    at: int
    """Its position among all requests."""
    op: str
    status: int
    """The HTTP status, 0 if there was no answer; for dequeues what the service meant to say."""
    dequeue_count: int = 0
    """For dequeues: which one of this message it was."""


class Middle(NamedTuple):
    """What is in the queue in the middle of a chain.

    hidden: messages that nobody gets before their last second, as those that a transaction has
    abandoned. left: the others.
    """

    hidden: int
    left: int


class Target(Protocol):
    """A queue service with empty queues."""

    keeps_log: bool
    queues: Sequence[str]
    """Their names."""

    @property
    def connection_string(self) -> str:
        """For the source."""

    def put(self, texts: Sequence[str]) -> list[str]:
        """Put messages, all into one queue, into each queue in turn; return their ids."""

    def count(self) -> int:
        """How many messages are in the queues, leased ones too."""

    def position(self) -> int:
        """How many requests there were so far."""

    def requests(self) -> Counter[str]:
        """How many requests there were of each kind."""

    def injected(self) -> Counter[str]:
        """How many faults of each kind there were."""

    def store_requests(self) -> Counter[str]:
        """How many requests there were to blobs, of each kind."""

    def store_injected(self) -> Counter[str]:
        """How many faults of each kind these met."""

    def history(self, ids: Iterable[str]) -> dict[str, list[Event]]:
        """Requests that touched these messages, in order."""

    def set_aside(self) -> set[str]:
        """Bodies of the messages in the poison queues."""

    def stop(self) -> None:
        """End it."""


class Fake:
    """The strict fake in this process."""

    keeps_log = True

    def __init__(self, seed: int, rate: float, queues: int) -> None:
        """Begin to serve so many queues, with faults on this share of all requests."""
        self._service = FakeQueueService(seed=seed, log_size=_LOG_AT_MOST)
        self.queues = [f"soak-{number}" for number in range(1, queues + 1)]
        self._turns = itertools.cycle(self.queues)
        for name in self.queues:
            self._service.create_queue(name)
            self._service.create_queue(f"{name}-poison")
        self._service.create_queue(MIDDLE)
        self._dequeues: dict[str, list[Event]] = defaultdict(list)
        self._note_dequeues()
        self._blobs = FakeBlobService(self._service.account, seed)
        if rate > 0:
            self._service.faults.add(*faults(rate))
            self._blobs.faults.add(*store_faults(rate))
        self._service.start()
        self._blobs.start()
        self.connection_string = f"{self._service.connection_string};BlobEndpoint={self._blobs.url}"

    def put(self, texts: Sequence[str]) -> list[str]:
        """Put messages; return their ids."""
        return self._service.put_many(next(self._turns), texts)

    def count(self) -> int:
        """How many messages are in the queue, leased ones too."""
        return sum(self._service.count(name) for name in self.queues)

    def middle(self) -> Middle:
        """What is in the queue in the middle of a chain."""
        views = self._service.messages(MIDDLE)
        hidden = sum(view.expiration - view.next_visible <= _LAST_S for view in views)
        return Middle(hidden, len(views) - hidden)

    def position(self) -> int:
        """How many requests there were so far."""
        return sum(self._service.requests.values())

    def requests(self) -> Counter[str]:
        """How many requests there were of each kind."""
        return self._service.requests

    def injected(self) -> Counter[str]:
        """How many faults of each kind there were."""
        return self._service.faults.injected

    def store_requests(self) -> Counter[str]:
        """How many requests there were to blobs, of each kind."""
        return self._blobs.requests

    def store_injected(self) -> Counter[str]:
        """How many faults of each kind these met."""
        return self._blobs.faults.injected

    def set_aside(self) -> set[str]:
        """Bodies of the messages in the poison queues."""
        poison = [f"{name}-poison" for name in self.queues]
        return {view.text for name in poison for view in self._service.messages(name)}

    def history(self, ids: Iterable[str]) -> dict[str, list[Event]]:
        """Requests that touched these messages, in order."""
        found = {id_: list(self._dequeues[id_]) for id_ in ids}
        for at, entry in enumerate(self._service.log):
            if entry.id in found:
                found[entry.id].append(Event(at, entry.op, entry.status))
        for events in found.values():
            events.sort()
        return found

    def stop(self) -> None:
        """End it."""
        self._service.stop()
        self._blobs.stop()

    def _note_dequeues(self) -> None:
        """Note which messages a dequeue leased: the service's log does not tell."""
        genuine = ModelQueue.dequeue

        def dequeue(queue: ModelQueue, **how: Any) -> list[MessageView]:
            views = genuine(queue, **how)
            at = self.position()
            for view in views:
                self._dequeues[view.id].append(Event(at, "dequeue", 200, view.dequeue_count))
            return views

        ModelQueue.dequeue = dequeue  # type: ignore[method-assign, assignment]


class AzuriteTarget:
    """Azurite as a child process: no faults, no log of requests."""

    keeps_log = False
    queues = ("soak-1",)

    def __init__(self) -> None:
        """Start it."""
        from azure.storage.queue import QueueClient

        self._azurite = Azurite().start()
        self.connection_string = self._azurite.connection_string
        (name,) = self.queues
        self._client = QueueClient.from_connection_string(self.connection_string, name)
        self._client.create_queue()

    def put(self, texts: Sequence[str]) -> list[str]:
        """Put messages; return their ids."""
        return [str(self._client.send_message(text).id) for text in texts]

    def count(self) -> int:
        """How many messages are in the queue, leased ones too."""
        return int(self._client.get_queue_properties().approximate_message_count or 0)

    def position(self) -> int:
        """Not known."""
        return 0

    def requests(self) -> Counter[str]:
        """Not known."""
        return Counter()

    def injected(self) -> Counter[str]:
        """None: Azurite has no faults to order."""
        return Counter()

    def store_requests(self) -> Counter[str]:
        """None."""
        return Counter()

    def store_injected(self) -> Counter[str]:
        """None."""
        return Counter()

    def set_aside(self) -> set[str]:
        """Bodies of the messages in the poison queues: there are none."""
        return set()

    def history(self, ids: Iterable[str]) -> dict[str, list[Event]]:
        """Not known."""
        return {id_: [] for id_ in ids}

    def stop(self) -> None:
        """End it."""
        self._client.close()
        self._azurite.stop()


def store_faults(rate: float) -> list[Fault]:
    """The same for requests to blobs; a put may also take effect late, when it was given up."""
    kinds = ("busy_503", "error_500", "reset", "reply_lost")
    share = rate / (len(kinds) + 1)
    lines = [Fault("*", kind, rate=share) for kind in kinds]
    lines += [Fault("*", "slow", rate=share / len(_SLOW_S), seconds=s) for s in _SLOW_S]
    return [*lines, *[Fault("put_blob", "late", rate=share / 2, seconds=s) for s in (0.5, 5.0)]]


def faults(rate: float) -> list[Fault]:
    """Faults that hit about this share of all requests, in equal parts; and of the dequeues that
    find messages as many deliver them twice.

    Not among them: answers that would be a lie of the service ("receipt_mismatch", "not_found" for
    a receipt that is good), and what no retry is meant to help (403, 401).
    """
    share = rate / len(_ANYWHERE)
    lines = [Fault("*", kind, rate=share) for kind in _ANYWHERE if kind != "slow"]
    lines += [Fault("*", "slow", rate=share / len(_SLOW_S), seconds=s) for s in _SLOW_S]
    return [*lines, Fault("dequeue", "delivered_twice", rate=rate)]
