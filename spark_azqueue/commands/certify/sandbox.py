"""Creates queues and a container for the tests, and limits the requests and the time of the tests.

At its end, the sandbox removes the queues and the container that it created, and nothing else. Each
test gets new queues, so that tests do not affect each other.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from spark_azqueue.errors import AccessDenied, AzQueueError, Outcome, QueueNotFound, ServiceError
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.service.incoming import Answer
from spark_azqueue.service.messages import Lease, QueueRef, Received
from spark_azqueue.service.queues.calls import Dequeue, Peek, Put
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.management import create_queue, delete_queue, read_metadata
from spark_azqueue.service.wire.calls import Call, Request

T = TypeVar("T")

PREFIX = "azqueue-certify-"
MOST_REQUESTS = 2_000
WITHIN_S = 170.0
_SOON_S = 15.0
_LOOK_EVERY_S = 0.25


class Mismatch(Exception):  # noqa: N818 (a result, not a failure)
    """Raised if the account behaves differently from the assumption. The text describes the
    difference."""


class NotTried(Exception):  # noqa: N818
    """Raised if an assumption cannot be tested. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Raw(Call[Answer]):
    """A call with a given request. Its result is the unparsed answer."""

    queue: QueueRef
    asked: Request
    doing: ClassVar[str] = "ask"

    def request(self, now: float) -> Request:
        """Return the given request."""
        return self.asked

    def result(self, answer: Answer) -> Answer:
        """Return the unparsed answer."""
        return answer


class Sandbox:
    """The account under test. Close the sandbox to remove what it created.

    blobs: account for the container; None if blobs are not tested. wait: sleeps for a number of
    seconds. requests: number of requests sent so far. seconds: durations of the requests, by
    operation. server: the service's name in its answers.
    """

    def __init__(
        self,
        account: Account,
        blobs: Account | None = None,
        *,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self.account = account
        self.blobs = blobs
        self.wait = wait
        self.requests = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.server = ""
        self.version = ""
        self.client = QueueClient(account)
        self._name = f"{PREFIX}{uuid.uuid4().hex[:8]}"
        self._mark = {"certify": uuid.uuid4().hex}  # metadata of all queues of the sandbox
        # by queue name: True if this sandbox certainly created the queue
        self._queues: dict[str, bool] = {}
        # None if it is unknown whether the container was created
        self._container_made: bool | None = False
        self._ends_at = time.monotonic() + WITHIN_S

    @property
    def prefix(self) -> str:
        """Beginning of the names of all queues of the sandbox."""
        return self._name

    def queue(self) -> QueueRef:
        """Return a new, empty queue.

        Raises NotTried if the credential may not create queues, or if the name is taken.
        """
        ref = self.unmade()
        self.count()
        # record the queue before the request, because it may be created although the answer is lost
        self._queues[ref.name] = False
        try:
            with self._timed("create a queue"):
                made = create_queue(self.account, ref.name, metadata=self._mark)
        except AccessDenied as error:
            del self._queues[ref.name]
            raise NotTried(f"may not create a queue: {missing(error)}") from None
        if not made and not self._is_ours(ref.name):
            del self._queues[ref.name]
            raise NotTried(f"a queue of the drawn name {ref.name} exists: it was left alone")
        self._queues[ref.name] = True
        return ref

    def create_again(self, ref: QueueRef) -> None:
        """Create a queue of this sandbox again, with the same metadata."""
        create_queue(self.account, ref.name, metadata=self._mark)

    def _is_ours(self, name: str) -> bool:
        """Return False if another program created the queue with this name. Raises ServiceError."""
        self.requests += 1
        return read_metadata(self.account, name) == self._mark

    def unmade(self) -> QueueRef:
        """Return an unused queue name."""
        return QueueRef(self.account.name, f"{self._name}-{uuid.uuid4().hex[:6]}")

    def remove(self, ref: QueueRef) -> None:
        """Delete a queue now."""
        self.count()
        delete_queue(self.account, ref.name)
        del self._queues[ref.name]

    def count(self, requests: int = 1) -> None:
        """Count requests that are about to be sent. Raises NotTried if a limit is reached."""
        if self.requests + requests > MOST_REQUESTS:
            raise NotTried(f"the bound of {MOST_REQUESTS:,} requests is reached")
        if time.monotonic() > self._ends_at:
            raise NotTried(f"the bound of {WITHIN_S:.0f} seconds is reached")
        self.requests += requests

    def do(self, call: Call[T], client: QueueClient | None = None) -> T:
        """Make a call, up to three times if the service is busy. Raises ServiceError."""
        for pause_s in (0.5, 1.0, None):
            self.count()
            try:
                with self._timed(type(call).__name__.lower()):
                    return (client or self.client).now(call)
            except ServiceError as error:
                if error.outcome is not Outcome.RETRY or pause_s is None:
                    raise
                self.wait(pause_s)
        raise AssertionError("the last attempt returns or raises")

    def answer(self, call: Call[Any], client: QueueClient | None = None) -> Answer:
        """Make a call, and return its unparsed answer. Raises ServiceError for a refusal."""
        answer = self.do(Raw(call.queue, call.request(time.time())), client)
        self.server = self.server or answer.headers.get("server", "")
        return answer

    def status_of(self, call: Call[Any], client: QueueClient | None = None) -> str:
        """Make a call. Return the status of the answer with its error code, if any: "204", or "404
        MessageNotFound".

        Raises NotTried if a permission is missing or the service does not answer.
        """
        try:
            return str(self.answer(call, client).status)
        except AccessDenied as error:
            if client is not None:
                return status_and_code(error)
            if error.condition is Condition.PERMISSION_MISSING:
                raise NotTried(f"needs {call.needs}") from None
            raise
        except ServiceError as error:
            return status_and_code(error)

    def attempt(self, act: Callable[[], object], requests: int = 1) -> str:
        """Call `act`, which sends this many requests. Return "done", or the status and code of a
        refusal as `status_of` does.
        """
        self.count(requests)
        try:
            act()
        except AccessDenied:
            raise
        except ServiceError as error:
            return status_and_code(error)
        return "done"

    def put(self, ref: QueueRef, text: str = "x", **more: Any) -> Lease:
        """Put a message. Return the lease from the answer."""
        lease = self.do(Put(ref, text, wants_lease=True, **more))
        if lease is None:
            raise NotTried("the answer to a put has no receipt that can be read")
        return lease

    def take(self, ref: QueueRef, visibility_s: int = 60) -> Received:
        """Dequeue the only visible message. Raises NotTried if no message, or more than one
        message, is visible.
        """
        received = self.do(Dequeue(ref, 32, visibility_s)).received
        if len(received) != 1:
            raise NotTried(f"a dequeue gave {len(received)} messages in place of one")
        return received[0]

    def leased(self, text: str = "x", visibility_s: int = 60) -> Received:
        """Return a leased message in a new queue."""
        ref = self.queue()
        self.put(ref, text)
        return self.take(ref, visibility_s)

    def visible(self, ref: QueueRef) -> bool:
        """Return True if a peek returns a message."""
        return bool(self.do(Peek(ref, 1)).messages)

    def until_visible(self, ref: QueueRef) -> None:
        """Wait until a message is visible. Raises NotTried after 15 seconds."""
        waited = 0.0
        while not self.visible(ref):
            if waited > _SOON_S:
                raise NotTried("a message was not visible again after its lease")
            self.wait(_LOOK_EVERY_S)
            waited += _LOOK_EVERY_S

    def folder(self) -> BlobFolder:
        """Return a new folder in the sandbox's container. Raises NotTried."""
        if self.blobs is None:
            raise NotTried("the options name no blob endpoint")
        folder = BlobFolder(self.blobs, self._name, uuid.uuid4().hex[:8])
        if not self._container_made:
            self.count()
            self._container_made = None  # record the container before the request, as for queues
            try:
                self._container_made = folder.container.create()
            except AccessDenied as error:
                self._container_made = False
                folder.close()
                raise NotTried(f"may not create a container: {missing(error)}") from None
            if not self._container_made:
                folder.close()
                raise NotTried(f"a container named {self._name} exists: it was left alone")
        return folder

    def close(self) -> list[str]:
        """Remove the queues and the container that this sandbox created. Returns what could not be
        removed, with the reason.
        """
        left = []
        for name, is_ours in self._queues.items():
            try:
                if is_ours or self._is_ours(name):
                    delete_queue(self.account, name)
            except QueueNotFound:
                pass
            except AzQueueError as error:
                left.append(f"queue {name}: {error.sentence}")
        if self._container_made and self.blobs is not None:
            folder = BlobFolder(self.blobs, self._name, "all")
            try:
                folder.container.remove()
            except AzQueueError as error:
                if error.condition is not Condition.CONTAINER_NOT_FOUND:
                    left.append(f"container {self._name}: {error.sentence}")
            finally:
                folder.close()
        if self._container_made is None:
            left.append(f"container {self._name}: nothing says whether it was made; look for it")
        self._container_made = False
        self._queues.clear()
        self.client.close()
        return left

    @contextlib.contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[operation].append(time.monotonic() - began)


def status_and_code(error: ServiceError) -> str:
    """Return the status and code of a refusal. Raises NotTried if the service is busy or does not
    answer.
    """
    if error.status is None:
        raise NotTried("no answer came") from None
    if error.outcome is Outcome.RETRY:
        raise NotTried(f"on the way: HTTP {error.status} {error.code}") from None
    return f"{error.status} {error.code}".strip()


def missing(error: AccessDenied) -> str:
    """Return the missing permission in the error's words."""
    _, _, needs = error.sentence.partition("this needs ")
    return (
        f"needs {needs.removesuffix(': add that.')}" if needs else f"HTTP {status_and_code(error)}"
    )


def expect(found: object, *wanted: object) -> None:
    """Raise Mismatch if `found` is not one of `wanted`."""
    if found not in wanted:
        raise Mismatch(f"{found}, not {' or '.join(map(str, wanted))}")
