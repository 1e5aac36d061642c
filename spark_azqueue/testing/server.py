"""The fake service: a local HTTP server around the model, with faults, counters and a clock."""

from __future__ import annotations

import base64
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from . import sas
from .answering import Answering, LogEntry, Records
from .authorization import ALL_PERMISSIONS, Gate, make_token
from .faults import FaultScript
from .model import SEVEN_DAYS, MessageView, ModelAccount
from .routing import KNOWN_VERSIONS
from .sas import DelegationKey
from .wire import HttpAnswer, HttpRequest, HttpServer

ACCOUNT_KEY = base64.b64encode(b"the key of the fake account".ljust(64, b".")).decode("ascii")
"""The default key of the account: 64 bytes as base64, as on the service."""

_T = TypeVar("_T")


class FakeClock:
    """A clock that tests can advance, so that leases and messages expire without waiting.

    The clock returns unix time in seconds: real time plus the time that tests have added.
    Thread-safe. `start`: the initial time, in unix seconds (default: now). With `frozen=True`, only
    `advance` moves the clock. The clock never runs backwards, even if the machine's clock is set
    back.
    """

    def __init__(self, start: float | None = None, *, frozen: bool = False) -> None:
        self._lock = threading.Lock()
        self._base = time.time() if start is None else float(start)
        self._origin = time.monotonic()
        self._frozen = frozen

    def now(self) -> float:
        """Return the time in unix seconds, with fractions."""
        with self._lock:
            return self._now()

    def advance(self, seconds: float) -> float:
        """Move the clock forward by `seconds`. Return the new time.

        Raises ValueError for a negative number.
        """
        if seconds < 0:
            raise ValueError(f"the clock only moves forward, not by {seconds} s")
        with self._lock:
            self._base += seconds
            return self._now()

    def _now(self) -> float:
        return self._base if self._frozen else self._base + time.monotonic() - self._origin


class FakeQueueService:
    """A queue service on 127.0.0.1, for tests. Start it with `with` or `start()`. Thread-safe.

    The fake is as strict as the service, or stricter: every receipt contains `+`, `/` and `=`, and
    a stale receipt gets 404. `stop` and `start` simulate an outage: port, queues and messages stay.
    Methods on queues raise `Refusal` if the service would refuse (404 QueueNotFound, …). These
    calls are not counted, and faults do not affect them.

    The fake verifies signatures of keys and of every kind of SAS. For a bearer token, it checks
    time and audience, not the signature, and accepts the token over http.

    `clock`: the clock for messages (default: real time, which tests can advance).
    `credential_time`: function that returns the time for checks of signatures, in unix seconds
    (default: real time, with which clients sign). `account`, `key`: for the connection string; the
    key is base64. `versions`: the allowed values of `x-ms-version`, for clients newer than this
    package. `seed`: makes message ids and faults repeatable. `port`: 0 for any free port.
    `log_size`: number of requests that `log` keeps.
    """

    def __init__(
        self,
        clock: FakeClock | None = None,
        account: str = "fakeaccount",
        key: str = ACCOUNT_KEY,
        seed: int = 0,
        *,
        port: int = 0,
        log_size: int = 10_000,
        credential_time: Callable[[], float] = time.time,
        versions: Iterable[str] = KNOWN_VERSIONS,
    ) -> None:
        self.clock = FakeClock() if clock is None else clock
        self.account = account
        self._gate = Gate(account, key, frozenset(versions), credential_time)
        self.faults = FaultScript(seed=seed)
        self.revoked = False
        """If True, every request is refused with 403 AuthenticationFailed."""
        self._model = ModelAccount(f"{seed}/{account}")
        self._server = HttpServer(self._respond)
        self._port = port
        # Guards the model and all fields below; notified after each request.
        self._changed = threading.Condition()
        self._generation = 0
        self._records = Records(log_size)
        self._answering = Answering(self._model, self._gate, self.faults, self._records)

    def start(self) -> FakeQueueService:
        """Start the server, and return self. Raises OSError (port in use), RuntimeError (already
        running).
        """
        if self._server.running:
            raise RuntimeError("the service is already running")
        self._port = self._server.start(self._port)
        return self

    def stop(self) -> None:
        """Stop the server and abort all connections. Messages stay. Does nothing if not running."""
        self._server.stop()

    def __enter__(self) -> FakeQueueService:
        return self.start()

    def __exit__(self, exc_type: object, *exc_info: object) -> None:
        self.stop()
        failures = self.failures
        if failures and exc_type is None:
            raise RuntimeError(
                f"the fake service itself failed at {len(failures)} requests; see `failures`"
            ) from failures[0]

    @property
    def url(self) -> str:
        """The URL, `http://127.0.0.1:port/account`. Raises RuntimeError before `start`."""
        if not self._port:
            raise RuntimeError("the service has no address before it is started")
        return f"http://127.0.0.1:{self._port}/{self.account}"

    @property
    def connection_string(self) -> str:
        """A connection string for the account. Raises RuntimeError before `start`."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account};AccountKey={self.key};"
            f"QueueEndpoint={self.url}"
        )

    @property
    def key(self) -> str:
        """The account's key. If it is set, signatures with the older key are refused."""
        return self._gate.key

    @key.setter
    def key(self, key: str) -> None:
        self._gate.use(key)

    def sas(
        self,
        queue: str | None = None,
        letters: str | None = None,
        *,
        types: str = "sco",
        life: float = 3600.0,
    ) -> str:
        """Return a SAS for one queue, or for the account (`queue` None), valid for `life` seconds.

        `letters`: permissions (default: all). `types`: for the account, the resource types s (list
        queues), c (queues), o (messages).
        """
        gate, expiry = self._gate, self._gate.time() + life
        if queue is not None:
            chosen = sas.QUEUE_LETTERS if letters is None else letters
            return sas.for_queue(self.account, queue, gate.secret, letters=chosen, expiry=expiry)
        chosen = "".join(sorted(ALL_PERMISSIONS)) if letters is None else letters
        return sas.for_account(
            self.account, gate.secret, letters=chosen, types=types, expiry=expiry
        )

    def delegated_sas(
        self, queue: str, letters: str = "raup", *, life: float = 3600.0, user: str = ""
    ) -> str:
        """Return a SAS for one queue that is signed with a user delegation key (`skoid` …).

        user: an object id. If set, the SAS works only with a token of that user (claim `oid`).
        """
        key, expiry = self.delegation_key(), self._gate.time() + life
        return sas.delegated(key, self.account, queue, letters, expiry, user)

    def delegation_key(self, life: float = 7 * 24 * 3600.0) -> DelegationKey:
        """Return a user delegation key, for functions of Azure's SDK that take such a key."""
        return sas.make_key(self._gate.secret, self._gate.time(), life)

    def token(self, life: float = 3600.0, **claims: object) -> str:
        """Return a bearer token, valid for `life` seconds. claims: further claims, such as
        `oid`.
        """
        return make_token(self._gate.time(), life, **claims)

    @property
    def permissions(self) -> frozenset[str]:
        """The permissions of callers, as in a SAS (`sp`). Can be set from any iterable.

        r: peek, properties; a: put; u: update; p: dequeue, delete; c or w: create; d: delete queue,
        clear; w: set metadata; l: list. A SAS for one queue can have only the first four.
        """
        return self._gate.permissions

    @permissions.setter
    def permissions(self, letters: Iterable[str]) -> None:
        self._gate.allow(letters)

    def create_queue(self, name: str) -> None:
        """Create a queue if it does not exist."""
        with self._changed:
            self._model.create(name)
            self._note_change()

    def set_metadata(self, name: str, metadata: dict[str, str]) -> None:
        """Replace the metadata of a queue."""
        with self._changed:
            self._model.set_metadata(name, metadata)
            self._note_change()

    def delete_queue(self, name: str) -> None:
        """Delete a queue and its messages."""
        with self._changed:
            self._model.delete(name)
            self._note_change()

    def put(self, queue: str, text: str, delay: int = 0, ttl: int | None = None) -> str:
        """Put a message, and return its id. `delay`, `ttl`: seconds (`ttl` None: 7 days, -1: never
        expires).
        """
        return self.put_many(queue, [text], delay, ttl)[0]

    def put_many(
        self, queue: str, texts: Iterable[str], delay: int = 0, ttl: int | None = None
    ) -> list[str]:
        """Put messages, all with the same insertion time. Return their ids in the same order."""
        lifetime = SEVEN_DAYS if ttl is None else ttl
        with self._changed:
            target, now = self._model.queue(queue), self.clock.now()
            try:
                return [
                    target.put(text, now=now, visibility_delay=delay, ttl=lifetime).id
                    for text in texts
                ]
            finally:
                self._note_change()

    def messages(self, queue: str) -> list[MessageView]:
        """Return all messages, including leased and delayed messages, in order of insertion."""
        with self._changed:
            return self._model.queue(queue).messages(now=self.clock.now())

    def count(self, queue: str) -> int:
        """Count all messages, including leased and delayed messages."""
        with self._changed:
            return self._model.queue(queue).approximate_count(now=self.clock.now())

    def visible(self, queue: str) -> int:
        """Count the messages that a dequeue could return now."""
        return sum(message.visible for message in self.messages(queue))

    @property
    def requests(self) -> Counter[str]:
        """Number of requests for each operation ("dequeue", "delete", …), as a copy."""
        with self._changed:
            return self._records.requests.copy()

    @property
    def statuses(self) -> Counter[tuple[str, int]]:
        """Number of requests by (operation, HTTP status or 0), as a copy."""
        with self._changed:
            return self._records.statuses.copy()

    @property
    def log(self) -> list[LogEntry]:
        """The last `log_size` requests, oldest first, as a copy."""
        with self._changed:
            return list(self._records.log)

    @property
    def connections(self) -> int:
        """Number of open connections to the service."""
        return self._server.connections

    @property
    def failures(self) -> list[Exception]:
        """Exceptions that show a bug in the fake itself, oldest first, as a copy.

        The answer to such a request is 500 InternalError. The exception is logged, and leaving the
        `with` block raises RuntimeError.
        """
        with self._changed:
            return list(self._records.failures)

    def reset_counters(self) -> None:
        """Reset `requests`, `statuses`, `log`, `failures` and `faults.injected`."""
        with self._changed:
            self._records.clear()
            self.faults.reset_counters()

    def wait_until(self, predicate: Callable[[], _T], timeout: float) -> _T:
        """Call `predicate` now and after each request, until it returns a true value. Return this
        value.

        The predicate may use any method of the fake, and send requests. Moving the clock does not
        call the predicate. Raises TimeoutError after `timeout` seconds of real time.
        """
        deadline = time.monotonic() + timeout
        while True:
            with self._changed:
                seen = self._generation
            # Called without the lock, so that the server can answer during the call.
            value = predicate()
            if value:
                return value
            with self._changed:
                # The timeout must apply even if requests never stop, such as requests that the
                # predicate sends.
                while (remaining := deadline - time.monotonic()) > 0 and self._generation == seen:
                    self._changed.wait(remaining)
                if remaining <= 0:
                    requests = dict(self._records.requests)
                    raise TimeoutError(f"not so within {timeout} s; requests so far: {requests}")

    def _note_change(self) -> None:
        self._generation += 1
        self._changed.notify_all()

    def _respond(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request. Runs in the server's thread."""
        with self._changed:
            try:
                now = self.clock.now()
                return self._answering.answer(
                    request, now, number=self._generation, revoked=self.revoked
                )
            finally:
                self._note_change()
