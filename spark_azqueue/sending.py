"""Puts messages, several at once, and returns only when every one is acknowledged.

Rows are checked ahead of sending, so that bad input stops a task before anything of it is sent (as
far as a bounded look ahead reaches). Ring: edge.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from .azure_queue import AzureQueue
from .columns import SinkColumns
from .config import SinkConfig, delay_not_below_ttl
from .control import create_queue
from .errors import AzQueueError, InvalidRow, QueueNotFound, ServiceError
from .leases import MAX_VISIBILITY_S
from .messages import encode
from .options import NEVER_EXPIRES
from .parsing import queue_name
from .retry import SEND
from .transport import Transport
from .workers import Workers

LOOK_AHEAD_BYTES = 32 * 2**20
"""How many bytes of a task are checked, and held, before its first message is sent."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A checked message: where to, what (encoded), when visible, when gone (seconds)."""

    row: int
    queue: str
    text: str
    delay_s: int
    ttl_s: int | None


class Sender:
    """Sends the rows of one task; good for one `send`."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._transport = Transport(config.account)
        self._queues: dict[str, AzureQueue] = {}
        self._workers = Workers(config.send_parallelism, "send")
        self._acknowledged = 0

    def send(self, messages: Iterable[Outgoing]) -> int:
        """Put all messages; return how many, each of them acknowledged by the service.

        Raises InvalidRow or ServiceError, saying how many were acknowledged all the same.
        """
        under_way: dict[Future[None], Outgoing] = {}
        try:
            for message in _ahead(messages):
                while len(under_way) >= 2 * self._config.send_parallelism:
                    self._settle(under_way)
                under_way[self._workers.submit(SEND, self._put, message)] = message
            while under_way:
                self._settle(under_way)
        except AzQueueError as error:
            self._break_off(under_way)
            raise _with_count(error, self._acknowledged) from error
        finally:  # Spark's worker process lives on for other tasks
            self._workers.close()
            self._transport.close()
        return self._acknowledged

    def _settle(self, under_way: dict[Future[None], Outgoing]) -> None:
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            message = under_way.pop(future)
            error = future.exception()
            if isinstance(error, ServiceError):
                raise _of_row(error, message.row) from error
            if error:
                raise error
            self._acknowledged += 1

    def _break_off(self, under_way: dict[Future[None], Outgoing]) -> None:
        for future in under_way:
            future.cancel()
        done, _ = wait(under_way)
        self._acknowledged += sum(not f.cancelled() and f.exception() is None for f in done)

    def _put(self, message: Outgoing) -> None:
        queue = self._queues.get(message.queue)
        if queue is None:
            queue = self._queues[message.queue] = AzureQueue(self._transport, message.queue)
        try:
            queue.put(message.text, message.delay_s, message.ttl_s)
        except QueueNotFound:
            if not self._config.create_queue:
                raise
            create_queue(self._config.account, message.queue)
            queue.put(message.text, message.delay_s, message.ttl_s)


def outgoing(
    rows: Iterable[tuple[object, ...]], columns: SinkColumns, config: SinkConfig
) -> Iterator[Outgoing]:
    """Turn rows into checked messages. Raises InvalidRow naming the row (from 0 in its task)."""
    for number, row in enumerate(rows):
        try:
            yield _checked(number, row, columns, config)
        except (InvalidRow, ValueError) as error:
            raise InvalidRow(f"row {number} of this task cannot be sent: {error}") from error


def _checked(
    number: int, row: tuple[object, ...], columns: SinkColumns, config: SinkConfig
) -> Outgoing:
    body = row[columns.body]
    if not isinstance(body, (str, bytes, bytearray)):
        raise InvalidRow("the body is null; filter such rows out, or give them an empty text")
    name = row[columns.queue] if columns.queue is not None else None
    if name is None and config.queue is None:
        raise InvalidRow("its queue is null, and the option 'queue' is not set either")
    queue = config.queue if name is None else _legal_queue(str(name))
    delay = _number(row, columns.visibility_delay)
    ttl = _number(row, columns.time_to_live)
    if delay is not None and not 0 <= delay <= MAX_VISIBILITY_S:
        raise InvalidRow(f"visibility_delay is {delay}; allowed are 0 s to {MAX_VISIBILITY_S} s")
    if ttl is not None and ttl < 1 and ttl != NEVER_EXPIRES:
        raise InvalidRow(f"time_to_live is {ttl}; allowed are 1 s upwards, or -1 (never expires)")
    delay = config.visibility_delay if delay is None else delay
    ttl = config.time_to_live if ttl is None else ttl
    if reason := delay_not_below_ttl(delay, ttl):
        raise InvalidRow(reason)
    return Outgoing(number, queue or "", encode(body, config.encoding), delay, ttl)


def _legal_queue(name: str) -> str:
    try:
        return queue_name(name)
    except ValueError as error:
        raise InvalidRow(f"its queue is {name!r}; expected {error}") from None


def _number(row: tuple[object, ...], place: int | None) -> int | None:
    value = row[place] if place is not None else None
    return None if value is None else int(str(value))


def _ahead(messages: Iterable[Outgoing]) -> Iterator[Outgoing]:
    """The same messages, but read (and so checked) up to LOOK_AHEAD_BYTES ahead."""
    held: deque[Outgoing] = deque()
    size = 0
    for message in messages:
        held.append(message)
        size += len(message.text)
        while size > LOOK_AHEAD_BYTES:
            size -= len(held[0].text)
            yield held.popleft()
    yield from held


def _of_row(error: ServiceError, row: int) -> ServiceError:
    return type(error)(
        f"row {row} of this task was not accepted: {error}",
        status=error.status,
        code=error.code,
        outcome=error.outcome,
    )


def _with_count(error: AzQueueError, acknowledged: int) -> AzQueueError:
    again = " (a retry of the task sends them again)" if acknowledged else ""
    text = str(error).rstrip(".")
    error.args = (f"{text}. Messages of this task that were acknowledged: {acknowledged}{again}.",)
    return error
