"""A model of the queues of an account, without network, clock and threads.

Callers pass the time as `now` (unix seconds), which must not decrease from call to call. The rules
come from the Queue Storage REST reference, pages "Put Message", "Get Messages", "Peek Messages",
"Update Message", "Delete Message" and "Clear Messages", unless noted otherwise. Not thread-safe:
callers that share a queue between threads must hold a lock.
"""

from __future__ import annotations

import base64
import heapq
import random
import re
from dataclasses import dataclass
from typing import NamedTuple

from . import errors

MAX_PAGE = 32
SEVEN_DAYS = 604_800
MAX_MESSAGE_BYTES = 65_536
NEVER = 253_402_300_799.0
"""9999-12-31T23:59:59Z in unix seconds: the expiration time of a message that never expires."""

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0, and so a message, cannot contain."""

_TICKS = 10_000_000
_FROM_1601 = 11_644_473_600
# The service's receipts are base64, and sometimes contain `+` and `/`. In the fake, every receipt
# contains both characters (where the service has `AAAA`), so that code fails if it does not escape
# them.
_DEQUEUED = "AgAAAAMAAAAA+/AA"
_UPDATED = "AwAAAAMAAAAA+/AA"
_QUEUE_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9])*")
_METADATA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_A_HEADER = re.compile(r"[^\t -~\x80-\xff]")


class Minter:
    """Makes ids and receipts. The same `seed` makes the same ids. Not thread-safe.

    No id or receipt is repeated. The format of the service's receipts is known from recordings
    (tests/recorded): 12 constant bytes, then the answer's `TimeNextVisible` as a Windows file time,
    with a resolution of 100 ns. After an update, four more bytes follow. So all messages of one
    dequeue have the same receipt.
    """

    def __init__(self, seed: int | str = 0) -> None:
        self._random = random.Random(seed)
        self._minted = 0

    def message_id(self) -> str:
        """Return a GUID as text (36 characters)."""
        digits = f"{self._random.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def receipt(self, next_visible: float, *, updated: bool = False) -> str:
        """Return a new pop receipt: base64 text that contains `+`, `/` and `=`.

        next_visible: unix seconds. The receipt contains the whole seconds. In place of their
        fraction, it contains a number that is never repeated; otherwise receipts would repeat while
        the clock is frozen. A receipt has 28 characters, or 32 if `updated`.
        """
        self._minted = (self._minted + 1) % _TICKS
        tick = (int(next_visible) + _FROM_1601) * _TICKS + self._minted
        changing = tick.to_bytes(8, "little")
        if updated:
            return _UPDATED + base64.b64encode(changing + b"\x01\0\0\0").decode("ascii")
        return _DEQUEUED + base64.b64encode(changing).decode("ascii")


class MessageView(NamedTuple):
    """A message as returned by one operation. Times are unix seconds with fractions."""

    id: str
    text: str
    insertion: float
    expiration: float
    next_visible: float
    dequeue_count: int
    receipt: str
    """The newest pop receipt. Empty for a peek."""
    visible: bool
    """True if a dequeue at this moment could return the message."""


@dataclass(slots=True, eq=False)
class _Message:
    id: str
    text: str
    insertion: float
    expiration: float
    visible_at: float
    receipt: str
    number: int
    """Position in the order of insertion."""
    dequeue_count: int = 0
    version: int = 0
    """Incremented when `visible_at` is set and when the message is removed. So older heap entries
    become stale.
    """


class ModelQueue:
    """One queue. A refused call raises `Refusal` and changes nothing.

    Dequeue, update, delete and put take O(log n). `minter` makes ids and receipts. If queues share
    a minter, their receipts never repeat.
    """

    def __init__(self, minter: Minter | None = None) -> None:
        self._minter = Minter() if minter is None else minter
        self._messages: dict[str, _Message] = {}
        # Both heaps keep stale entries until the entries reach the top, or outnumber the valid
        # entries.
        self._order: list[tuple[float, int, int, _Message]] = []
        self._expiries: list[tuple[float, int, _Message]] = []
        self._inserted = 0

    def put(
        self, text: str, *, now: float, visibility_delay: int = 0, ttl: int = SEVEN_DAYS
    ) -> MessageView:
        """Add a message. Return the message with its id and a valid receipt.

        visibility_delay: seconds until the message can be dequeued (0 to 7 days, less than `ttl`).
        ttl: seconds until the message expires (-1: never). Raises Refusal.
        """
        if ttl == 0 or ttl < -1:
            raise errors.invalid_parameter("messagettl", ttl, "must be positive or -1")
        _check_range("visibilitytimeout", visibility_delay, 0, SEVEN_DAYS)
        if ttl != -1 and visibility_delay >= ttl:
            raise errors.invalid_parameter(
                "visibilitytimeout",
                visibility_delay,
                "messagettl must be greater than visibilitytimeout",
            )
        _check_text(text)
        self._expire(now)
        message = _Message(
            id=self._minter.message_id(),
            text=text,
            insertion=now,
            expiration=NEVER if ttl == -1 or ttl > NEVER - now else now + ttl,
            visible_at=now + visibility_delay,
            receipt=self._minter.receipt(now + visibility_delay),
            number=self._inserted,
        )
        self._inserted += 1
        self._messages[message.id] = message
        heapq.heappush(self._order, (message.visible_at, message.number, 0, message))
        if message.expiration < NEVER:
            heapq.heappush(self._expiries, (message.expiration, message.number, message))
        return _view(message, now)

    def dequeue(
        self, *, now: float, count: int = 1, visibility: int = 30, twice: bool = False
    ) -> list[MessageView]:
        """Lease up to `count` visible messages (1 to 32) for `visibility` seconds (1 s to 7 days).

        The messages are ordered by the time at which they became visible, then by insertion. Each
        message gets a new receipt, and its older receipt becomes stale. All messages of a page have
        the same receipt. The dequeue count of each message increases by one. `twice` simulates
        at-least-once delivery: the messages are leased, but stay visible. So the next dequeue
        returns the same messages with newer receipts.
        """
        _check_range("numofmessages", count, 1, MAX_PAGE)
        _check_range("visibilitytimeout", visibility, 1, SEVEN_DAYS)
        page = self._take_visible(now, count)
        lease_end = now + visibility
        receipt = self._minter.receipt(lease_end) if page else ""
        views = []
        for message in page:
            message.dequeue_count += 1
            message.receipt = receipt
            self._show_at(message, message.visible_at if twice else lease_end)
            views.append(_view(message, now)._replace(next_visible=lease_end))
        return views

    def peek(self, *, now: float, count: int = 1) -> list[MessageView]:
        """Return up to `count` (1 to 32) visible messages, without receipts. Changes nothing."""
        _check_range("numofmessages", count, 1, MAX_PAGE)
        page = self._take_visible(now, count)
        for message in page:
            self._show_at(message, message.visible_at)
        return [_view(message, now)._replace(receipt="") for message in page]

    def update(
        self, message_id: str, receipt: str, *, now: float, visibility: int, text: str | None = None
    ) -> MessageView:
        """Make the message visible after `visibility` seconds (0 to 7 days), with a new receipt.

        `text` replaces the body; None keeps the body. The old receipt becomes stale. The dequeue
        count does not change. Only the newest receipt is accepted, even if the lease has expired.
        """
        _check_range("visibilitytimeout", visibility, 0, SEVEN_DAYS)
        if text is not None:
            _check_text(text)
        message = self._holding(message_id, receipt, now)
        if text is not None:
            message.text = text
        message.receipt = self._minter.receipt(now + visibility, updated=True)
        self._show_at(message, now + visibility)
        return _view(message, now)

    def delete(self, message_id: str, receipt: str, *, now: float) -> None:
        """Remove the message. Only the newest receipt is accepted, even if the lease has
        expired.
        """
        self._forget(self._holding(message_id, receipt, now))

    def clear(self) -> None:
        """Remove every message, leased or not."""
        self._messages.clear()
        self._order.clear()
        self._expiries.clear()

    def approximate_count(self, *, now: float) -> int:
        """Count the messages. Leased and delayed messages are included, expired messages are
        not.
        """
        self._expire(now)
        return len(self._messages)

    def has_visible(self, *, now: float) -> bool:
        """Return True if a dequeue would return a message."""
        self._expire(now)
        self._drop_void()
        return bool(self._order) and self._order[0][0] <= now

    def messages(self, *, now: float) -> list[MessageView]:
        """Return every message in the order of insertion, each with its newest receipt."""
        self._expire(now)
        return [_view(message, now) for message in self._messages.values()]

    def _take_visible(self, now: float, count: int) -> list[_Message]:
        """Remove the first visible messages from the heap. The caller must put each message back
        with `_show_at`."""
        self._expire(now)
        page: list[_Message] = []
        while len(page) < count:
            self._drop_void()
            if not self._order or self._order[0][0] > now:
                break
            page.append(heapq.heappop(self._order)[3])
        return page

    def _show_at(self, message: _Message, visible_at: float) -> None:
        message.visible_at = visible_at
        message.version += 1
        heapq.heappush(self._order, (visible_at, message.number, message.version, message))
        self._drop_old()

    def _drop_old(self) -> None:
        if len(self._order) > 2 * len(self._messages) + 64:
            self._order = [entry for entry in self._order if entry[2] == entry[3].version]
            heapq.heapify(self._order)

    def _drop_void(self) -> None:
        while self._order and self._order[0][2] != self._order[0][3].version:
            heapq.heappop(self._order)

    def _holding(self, message_id: str, receipt: str, now: float) -> _Message:
        """Return the message if `receipt` is its newest receipt.

        For a stale receipt and for a missing message, the service answers 404. For a text that
        cannot be a receipt, it answers 400.
        """
        self._expire(now)
        message = self._messages.get(message_id)
        if message is not None and message.receipt == receipt:
            return message
        if not _could_be_receipt(receipt):
            raise errors.invalid_parameter("popreceipt", receipt, "Invalid pop receipt format")
        raise errors.message_not_found()

    def _forget(self, message: _Message) -> None:
        del self._messages[message.id]
        message.version += 1
        self._drop_old()
        if len(self._expiries) > 2 * len(self._messages) + 64:
            self._expiries = [entry for entry in self._expiries if entry[2].id in self._messages]
            heapq.heapify(self._expiries)

    def _expire(self, now: float) -> None:
        while self._expiries and self._expiries[0][0] <= now:
            message = heapq.heappop(self._expiries)[2]
            if message.id in self._messages:
                self._forget(message)


class ModelAccount:
    """Queues and their metadata. A refused call raises `Refusal`. `seed`: makes ids repeatable."""

    def __init__(self, seed: int | str = 0) -> None:
        self._minter = Minter(seed)
        self._queues: dict[str, ModelQueue] = {}
        self._metadata: dict[str, dict[str, str]] = {}
        # names of deleted queues, each with the time until which requests for it are refused
        self._blocked: dict[str, float] = {}

    def create(
        self, name: str, metadata: dict[str, str] | None = None, *, now: float = float("inf")
    ) -> bool:
        """Create a queue. Return False if the queue already exists with the same metadata.

        now: unix seconds, used to check whether the name of a deleted queue may be used again.
        Raises Refusal for an illegal name (400), a queue with other metadata (409), or a queue that
        is being deleted (409).
        """
        check_queue_name(name)
        self._check_not_blocked(name, now)
        wanted = _checked_metadata(metadata or {})
        if name not in self._queues:
            self._blocked.pop(name, None)
            self._queues[name] = ModelQueue(self._minter)
            self._metadata[name] = wanted
            return True
        if self._metadata[name] != wanted:
            raise errors.queue_exists()
        return False

    def queue(self, name: str, *, now: float = float("inf")) -> ModelQueue:
        """Return the queue. now: see `create`.

        Raises Refusal for an illegal name (400), a missing queue (404), or a queue that is being
        deleted (409).
        """
        self._check_not_blocked(name, now)
        try:
            return self._queues[name]
        except KeyError:
            check_queue_name(name)
            raise errors.queue_not_found(hint=f"{name!r}; create_queue makes one") from None

    def delete(self, name: str, *, now: float = float("inf"), blocked_for: float = 0.0) -> None:
        """Remove the queue and its messages.

        blocked_for: number of seconds after `now` for which requests for this name get 409
        QueueBeingDeleted. On the service, this takes 40 seconds or more ("Delete Queue").
        """
        self.queue(name, now=now)
        del self._queues[name], self._metadata[name]
        if blocked_for:
            self._blocked[name] = now + blocked_for

    def _check_not_blocked(self, name: str, now: float) -> None:
        if now < self._blocked.get(name, now):
            raise errors.queue_being_deleted(hint=repr(name))

    def metadata(self, name: str) -> dict[str, str]:
        """Return a copy of the queue's metadata."""
        self.queue(name)
        return dict(self._metadata[name])

    def set_metadata(self, name: str, metadata: dict[str, str]) -> None:
        """Replace the queue's metadata."""
        self.queue(name)
        self._metadata[name] = _checked_metadata(metadata)

    def names(self) -> list[str]:
        """Return the names of all queues, sorted."""
        return sorted(self._queues)


def _view(message: _Message, now: float) -> MessageView:
    return MessageView(
        message.id,
        message.text,
        message.insertion,
        message.expiration,
        message.visible_at,
        message.dequeue_count,
        message.receipt,
        message.visible_at <= now,
    )


def _could_be_receipt(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) > 0
    except ValueError:
        return False


def _check_range(name: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise errors.out_of_range(name, value, lowest, highest)


def _check_text(text: str) -> None:
    """Raise Refusal for a text that the service refuses. The size limit applies to the text in
    UTF-8.
    """
    if NOT_XML.search(text):
        raise errors.invalid_xml()
    if len(text) > MAX_MESSAGE_BYTES or len(text.encode()) > MAX_MESSAGE_BYTES:
        raise errors.body_too_large(MAX_MESSAGE_BYTES)


def check_queue_name(name: str) -> None:
    """Raise Refusal for an illegal queue name ("Naming queues and metadata")."""
    if not 3 <= len(name) <= 63:
        raise errors.out_of_range_name(name)
    if not _QUEUE_NAME.fullmatch(name):
        raise errors.invalid_name(name)


def _checked_metadata(metadata: dict[str, str]) -> dict[str, str]:
    for name, value in metadata.items():
        if not _METADATA_NAME.fullmatch(name) or _NOT_IN_A_HEADER.search(value):
            raise errors.invalid_metadata(name)
    return dict(metadata)
