"""A fast queue service with true semantics, to measure clients against.

Visibility timeouts, pop receipts, dequeue counts, delays and times to live are kept as the service
keeps them; nothing is refused but dead receipts, and nothing is stored on disk. One event loop
(uvloop where it is installed); `--latency` delays every answer while the loop goes on with
others. A queue can be filled without a request per message:
PUT /<account>/<queue>?fill=COUNT&size=BYTES. Ids and receipts are as random, and as long, as the
service's. A queue can be held to a rate, somewhat as the service holds it:
GET /-/rate?REQUESTS_PER_SECOND makes each request to a queue wait for its turn, and
GET /-/cap?REQUESTS_PER_SECOND answers 503 to what is beyond. (A tenth of a second's worth may come
at once.)

    python benchmarks/server.py --port 10101 --latency 0.01
"""

from __future__ import annotations

import argparse
import asyncio
import binascii
import functools
import heapq
import itertools
import json
import math
import random
import re
import resource
import ssl
import time
import uuid
from email.utils import formatdate
from urllib.parse import unquote

BURST_S = 0.1
HOUR_S = 3600.0
WEEK_S = 7 * 24 * HOUR_S

# The service's receipts are base64 of 20 bytes that end in a time: 28 characters, + and / in them.
_RECEIPT_HEAD = bytes((2, 0, 0, 0, 3)) + bytes(7)
_FIRST_RECEIPT = 0x01DC5AF0_00000000


class Queue:
    """Messages by id; the visible ones in order of arrival, the others by when they return."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.counts: dict[str, int] = {}
        self.receipts: dict[str, str] = {}
        self.expires: dict[str, float] = {}
        self.inserted: dict[str, float] = {}
        self.visible: list[tuple[str, str]] = []  # with the receipt of then: stale ones count not
        self.next = 0  # in `visible`: what is before it was taken
        self.hidden: list[tuple[float, str, str]] = []
        self.numbers = itertools.count(1)
        self.free_at = 0.0  # when the next request may be answered, where there is a rate
        self.allowed = math.inf  # how many requests may come now, where there is a cap
        self.allowed_at = 0.0

    def put(self, body: bytes, delay_s: float, ttl_s: float) -> tuple[str, str]:
        """Add a message; returns its id and receipt."""
        now = time.time()
        number = next(self.numbers)
        digits = f"{random.getrandbits(96):024x}{number & 0xFFFFFFFF:08x}"
        name = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        self.bodies[name] = body
        self.counts[name] = 0
        self.inserted[name] = now
        if ttl_s >= 0:
            self.expires[name] = now + ttl_s
        receipt = self._receipt(name)
        if delay_s:
            heapq.heappush(self.hidden, (now + delay_s, name, receipt))
        else:
            self.visible.append((name, receipt))
        return name, receipt

    def _receipt(self, name: str) -> str:
        last = (_FIRST_RECEIPT + next(self.numbers) * 997).to_bytes(8, "little")
        raw = binascii.b2a_base64(_RECEIPT_HEAD + last, newline=False)
        receipt = self.receipts[name] = raw.decode()
        return receipt

    def take(self, count: int, hide_s: float) -> list[str]:
        """Lease up to `count` messages."""
        now = time.time()
        self._reappear(now)
        taken = []
        while len(taken) < count and self.next < len(self.visible):
            name, receipt = self.visible[self.next]
            self.next += 1
            if self.receipts.get(name) != receipt:
                continue
            if self.expires.get(name, now) < now:
                self._forget(name)
                continue
            taken.append(name)
            self.counts[name] += 1
            heapq.heappush(self.hidden, (now + hide_s, name, self._receipt(name)))
        if self.next > 10_000 and self.next * 2 > len(self.visible):
            del self.visible[: self.next]
            self.next = 0
        return taken

    def look(self, count: int) -> list[str]:
        """The next `count` messages, left as they are."""
        now = time.time()
        self._reappear(now)
        there = (
            name
            for name, receipt in itertools.islice(self.visible, self.next, None)
            if self.receipts.get(name) == receipt and self.expires.get(name, now) >= now
        )
        return list(itertools.islice(there, count))

    def _reappear(self, now: float) -> None:
        while self.hidden and self.hidden[0][0] <= now:
            _, name, receipt = heapq.heappop(self.hidden)
            if self.receipts.get(name) == receipt:
                self.visible.append((name, receipt))

    def delete(self, name: str, receipt: str) -> bool:
        """Remove a message, where the receipt is its newest."""
        if self.receipts.get(name) != receipt:
            return False
        self._forget(name)
        return True

    def update(self, name: str, receipt: str, hide_s: float, body: bytes | None) -> str | None:
        """Hide a message anew; returns its new receipt, None where the one given is stale."""
        if self.receipts.get(name) != receipt:
            return None
        if body is not None:
            self.bodies[name] = body
        receipt = self._receipt(name)
        heapq.heappush(self.hidden, (time.time() + hide_s, name, receipt))
        return receipt

    def _forget(self, name: str) -> None:
        for table in (self.bodies, self.counts, self.receipts, self.inserted):
            del table[name]
        self.expires.pop(name, None)


class Service:
    """The queues and the counters of one server."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.rate = 0.0
        self.cap = 0.0
        self.busy = 0
        self.queues: dict[str, Queue] = {}
        self.requests = 0

    def delay_s(self, target: str) -> float:
        """How long to hold back the answer to a request: its latency, and its queue's turn."""
        if target.startswith("/-/"):
            return 0.0
        parts = target.partition("?")[0].split("/")
        queue = self.queues.get(parts[2]) if self.rate and len(parts) > 3 else None
        if queue is None:
            return self.latency_s
        now = time.monotonic()
        queue.free_at = max(queue.free_at, now) + 1 / self.rate
        return self.latency_s + queue.free_at - now

    def is_busy(self, queue: Queue) -> bool:
        """Count a request of a queue; True if it is beyond its cap."""
        if not self.cap:
            return False
        now = time.monotonic()
        fresh = (now - queue.allowed_at) * self.cap
        queue.allowed = min(self.cap * BURST_S, queue.allowed + fresh)
        queue.allowed_at = now
        if queue.allowed < 1:
            self.busy += 1
            return True
        queue.allowed -= 1
        return False

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, str, bytes]:
        """Status, extra header lines and body of the answer to one request."""
        path, _, rest = target.partition("?")
        if path == "/-/stats":
            used = resource.getrusage(resource.RUSAGE_SELF)
            stats = {
                "requests": self.requests,
                "busy": self.busy,
                "cpu_s": used.ru_utime + used.ru_stime,
                "messages": {name: len(queue.bodies) for name, queue in self.queues.items()},
            }
            return 200, "", json.dumps(stats).encode()
        if path == "/-/latency":
            self.latency_s = float(rest)
            return 200, "", b""
        if path == "/-/rate":
            self.rate = float(rest)
            return 200, "", b""
        if path == "/-/cap":
            self.cap = float(rest)
            return 200, "", b""
        query = dict(_pair(piece) for piece in rest.split("&")) if rest else {}
        self.requests += "fill" not in query  # which only a benchmark sends
        parts = path.split("/")
        if len(parts) < 3:
            return 400, "x-ms-error-code: InvalidUri\r\n", b""
        name = parts[2]
        if len(parts) == 3:
            return self._queue(method, name, query)
        queue = self.queues.get(name)
        if queue is None:
            return 404, "x-ms-error-code: QueueNotFound\r\n", b""
        if self.is_busy(queue):
            return 503, "x-ms-error-code: ServerBusy\r\n", b""
        if len(parts) == 4 or not parts[4]:
            return _messages(method, queue, query, body)
        return _message(method, queue, unquote(parts[4]), query, body)

    def _queue(self, method: str, name: str, query: dict[str, str]) -> tuple[int, str, bytes]:
        if method == "PUT":
            status = 204 if name in self.queues else 201
            queue = self.queues.setdefault(name, Queue())
            texts = _texts(int(query.get("size", 0)))
            for number in range(int(query.get("fill", 0))):
                queue.put(texts[number % len(texts)], 0, -1)
            return status, "", b""
        if method == "DELETE":
            self.queues.pop(name, None)
            return 204, "", b""
        if name not in self.queues:
            return 404, "x-ms-error-code: QueueNotFound\r\n", b""
        count = len(self.queues[name].bodies)
        return 200, f"x-ms-approximate-messages-count: {count}\r\n", b""


def _pair(piece: str) -> tuple[str, str]:
    name, _, value = piece.partition("=")
    return name, unquote(value) if "%" in value else value


def _messages(
    method: str, queue: Queue, query: dict[str, str], body: bytes
) -> tuple[int, str, bytes]:
    if method == "POST":
        if query.get("messagettl") == "0":
            return 400, "x-ms-error-code: OutOfRangeQueryParameterValue\r\n", b""
        delay, ttl = (
            float(query.get("visibilitytimeout", 0)),
            float(query.get("messagettl", WEEK_S)),
        )
        name, receipt = queue.put(_text(body), delay, ttl)
        now = time.time()
        put, visible, expires = (
            _date(int(each)) for each in (now, now + delay, now + ttl if ttl >= 0 else 253402300799)
        )
        return (
            201,
            _XML,
            _LIST
            % (
                b"<QueueMessage><MessageId>%s</MessageId><InsertionTime>%s</InsertionTime>"
                b"<ExpirationTime>%s</ExpirationTime><PopReceipt>%s</PopReceipt>"
                b"<TimeNextVisible>%s</TimeNextVisible></QueueMessage>"
                % (name.encode(), put, expires, receipt.encode(), visible)
            ),
        )
    if method == "DELETE":
        queue.__init__()  # type: ignore[misc]
        return 204, "", b""
    count = int(query.get("numofmessages", 1))
    if query.get("peekonly") == "true":
        documents = [_PEEKED % _fields(queue, name) for name in queue.look(count)]
        return 200, _XML, _LIST % b"".join(documents)
    hide = float(query.get("visibilitytimeout", 30))
    visible = _date(int(time.time() + hide))
    documents = [
        _DEQUEUED % (*_fields(queue, name), queue.receipts[name].encode(), visible)
        for name in queue.take(count, hide)
    ]
    return 200, _XML, _LIST % b"".join(documents)


def _fields(queue: Queue, name: str) -> tuple[object, ...]:
    return (
        name.encode(),
        _date(int(queue.inserted[name])),
        _date(int(queue.expires.get(name, 253402300799))),
        queue.counts[name],
        queue.bodies[name],
    )


def _message(
    method: str, queue: Queue, name: str, query: dict[str, str], body: bytes
) -> tuple[int, str, bytes]:
    receipt = query.get("popreceipt", "")
    if method == "DELETE":
        if queue.delete(name, receipt):
            return 204, "", b""
    else:
        hide = float(query.get("visibilitytimeout", 0))
        text = _text(body) if body else None
        newest = queue.update(name, receipt, hide, text)
        if newest:
            return (
                204,
                f"x-ms-popreceipt: {newest}\r\nx-ms-time-next-visible: {_date(0)!r}\r\n",
                b"",
            )
    return 404, "x-ms-error-code: MessageNotFound\r\n", b""


@functools.lru_cache(maxsize=8)
def _texts(size: int) -> list[bytes]:
    """A thousand different texts of about this size, as events in JSON look."""
    chance = random.Random(size)
    texts = []
    for number in range(1000):
        event: dict[str, object] = {"id": str(uuid.UUID(int=chance.getrandbits(128))), "n": number}
        length = len(json.dumps(event))
        while length < size - 30:
            name, value = f"field{len(event)}", f"{chance.getrandbits(48):x}"
            event[name] = value
            length += len(name) + len(value) + len(', "": ""')
        texts.append(json.dumps(event).encode())  # the service escapes only &, < and >
    return texts


_XML = "Content-Type: application/xml\r\n"
_PEEKED = (
    b"<QueueMessage><MessageId>%s</MessageId><InsertionTime>%s</InsertionTime>"
    b"<ExpirationTime>%s</ExpirationTime><DequeueCount>%d</DequeueCount>"
    b"<MessageText>%s</MessageText></QueueMessage>"
)
_DEQUEUED = _PEEKED.replace(
    b"</QueueMessage>",
    b"<PopReceipt>%s</PopReceipt><TimeNextVisible>%s</TimeNextVisible></QueueMessage>",
)
_LIST = b'<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>%s</QueueMessagesList>'
_TEXT = re.compile(rb"<MessageText>(.*?)</MessageText>", re.DOTALL)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_REASONS = {
    200: "OK",
    201: "Created",
    204: "No Content",
    400: "Bad Request",
    404: "Not Found",
    503: "Server Busy",
}
_dates: dict[int, bytes] = {}


def _text(body: bytes) -> bytes:
    """The message as it stood in the document: escaped there, and so it will be given out."""
    found = _TEXT.search(body)
    return found[1] if found else b""


def _date(second: int) -> bytes:
    date = _dates.get(second)
    if date is None:
        if len(_dates) > 10_000:
            _dates.clear()
        date = _dates[second] = formatdate(second, usegmt=True).encode()
    return date


class Connection(asyncio.Protocol):
    """HTTP/1.1 as far as it is needed: kept alive, bodies by length."""

    def __init__(self, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        self._service = service
        self._loop = loop
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._received = received = self._received + data if self._received else data
        while (end := received.find(b"\r\n\r\n")) >= 0:
            head = received[: end + 2]
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if b"100-continue" in head:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # type: ignore[attr-defined]
            if len(received) < whole:
                break
            method, target, _ = head[: head.find(b"\r\n")].decode("latin-1").split(" ", 2)
            status, lines, body = self._service.answer(method, target, received[end + 4 : whole])
            date = _date(int(time.time())).decode()
            answer = (
                f"HTTP/1.1 {status} {_REASONS[status]}\r\nServer: bench\r\nDate: {date}\r\n"
                f"x-ms-version: 2021-12-02\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
            ).encode("latin-1") + (b"" if status == 204 else body)
            delay = self._service.delay_s(target)
            if delay:
                self._loop.call_later(delay, self._write, answer)
            else:
                self._write(answer)
            received = received[whole:]
        self._received = received

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)  # type: ignore[attr-defined]


async def _serve(port: int, latency_s: float, tls: ssl.SSLContext | None) -> None:
    loop = asyncio.get_running_loop()
    service = Service(latency_s)
    server = await loop.create_server(lambda: Connection(service, loop), "127.0.0.1", port, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve until killed; the first line printed is the port."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    arguments.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
    given = arguments.parse_args()
    tls = None
    if given.tls:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 and 1.3, sessions may be resumed
        tls.load_cert_chain(*given.tls)
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(given.port, given.latency, tls))
    else:
        uvloop.run(_serve(given.port, given.latency, tls))


if __name__ == "__main__":
    main()
