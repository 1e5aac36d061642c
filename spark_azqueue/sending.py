"""Puts messages, several at once, and returns only when every one is acknowledged.

Rows are checked ahead of sending, so that bad input stops a task before anything of it is sent (as
far as a bounded look ahead reaches). Ring: edge.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .azure_queue import AzureQueues, InFlight
from .calls import Put
from .columns import SinkColumns
from .config import SinkConfig, delay_not_below_ttl
from .control import create_queue
from .errors import AzQueueError, InvalidRow, QueueNotFound, ServiceError
from .leases import MAX_VISIBILITY_S
from .messages import encode
from .options import NEVER_EXPIRES
from .parsing import queue_name
from .retry import SEND

LOOK_AHEAD_BYTES = 32 * 2**20
"""How many bytes of a task are checked, and held, before its first message is sent."""


_LAST_ANSWERS_S = 5.0
"""How long a task that failed waits for the answers still under way."""


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
        self._service = AzureQueues(config.account)
        self._acknowledged = 0

    def send(self, messages: Iterable[Outgoing]) -> int:
        """Put all messages; return how many, each of them acknowledged by the service.

        Raises InvalidRow or ServiceError, saying how many were acknowledged all the same.
        """
        flight: InFlight[Outgoing, None] = self._service.in_flight()
        try:
            for message in _ahead(messages):
                self._begin(flight, message)
                while len(flight) >= self._config.send_parallelism:
                    self._settle(flight)
            while len(flight):
                self._settle(flight)
        except AzQueueError as error:
            self._break_off(flight)
            raise _with_count(error, self._acknowledged) from error
        finally:  # Spark's worker process lives on for other tasks
            flight.close()
            self._service.close()
        return self._acknowledged

    def _begin(self, flight: InFlight[Outgoing, None], message: Outgoing) -> None:
        call = Put(message.queue, message.text, message.delay_s, message.ttl_s)
        flight.begin(message, call, SEND)

    def _settle(self, flight: InFlight[Outgoing, None]) -> None:
        failed: list[tuple[Outgoing, Exception]] = []
        for message, error in flight.ended():
            if error is None:
                self._acknowledged += 1
            elif isinstance(error, QueueNotFound) and self._config.create_queue:
                create_queue(self._config.account, message.queue)
                self._begin(flight, message)
            else:
                failed.append((message, error))
        if failed:
            message, error = failed[0]
            raise _of_row(error, message.row) if isinstance(error, ServiceError) else error

    def _break_off(self, flight: InFlight[Outgoing, None]) -> None:
        """Wait for what is under way: whether it was acknowledged is to be told."""
        deadline = time.monotonic() + _LAST_ANSWERS_S
        while len(flight) and (left := deadline - time.monotonic()) > 0:
            self._acknowledged += sum(error is None for _, error in flight.ended(left))


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
