"""A fake of Blob Storage, with the operations that a write-ahead log in blobs needs.

    with FakeBlobService() as blobs:
        blobs.faults.add(Fault("put_blob", "reply_lost", every=10))
        ... # blobs.url is the account's blob endpoint, for the option `blobAccountUrl`

Blobs can be put in one request, read, listed and deleted. An existing blob is never overwritten.
The fake checks only the permissions of a SAS (`sp`). Every container exists. With `containers=…`,
only these containers and created containers exist.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import escape

from .documents import http_date
from .faults import FaultScript, duration_of, retry_after
from .routing import ANSWERED_AS
from .wire import HttpAnswer, HttpRequest, HttpServer, parameters, render

_BODY_AT_MOST = 512 * 2**20
_PAGE_AT_MOST = 5_000
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_REASONS = {200: "OK", 201: "Created", 202: "Accepted", 206: "Partial Content"}
_REFUSED = {
    "busy_503": (503, "ServerBusy"),
    "busy_429": (429, "TooManyRequests"),
    "error_500": (500, "OperationTimedOut"),
}


class _BlobReply(NamedTuple):
    status: int
    body: bytes = b""
    code: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    version: str = ANSWERED_AS


class FakeBlobService:
    """A blob service on 127.0.0.1, for tests. Start it with `with` or `start()`. Thread-safe.

    account: name of the account. faults: faults of the operations put_blob, get_blob, list_blobs
    and delete_blob. The fault "late" delays the effect of a put and loses the answer. clock:
    returns a time in seconds, for this delay. latency_s: seconds by which each answer is delayed.
    requests: number of requests of each operation. The blobs are kept in this object.
    """

    def __init__(
        self,
        account: str = "fakeaccount",
        seed: int = 0,
        *,
        clock: Callable[[], float] = time.monotonic,
        containers: Iterable[str] | None = None,
    ) -> None:
        self.faults = FaultScript(seed=seed)
        self.latency_s = 0.0
        self.requests: Counter[str] = Counter()
        self._account = account
        self._clock = clock
        self._blobs: dict[str, bytes] = {}
        self._containers = None if containers is None else set(containers)
        self._began = time.time()  # time of the last write, which listings show for all blobs
        self._late: list[tuple[float, str, bytes]] = []
        self._lock = threading.Lock()
        self._port = 0
        self._server = HttpServer(self._respond, _BODY_AT_MOST)

    def start(self) -> FakeBlobService:
        """Start the server, and return self. Raises OSError if its port is now in use."""
        self._port = self._server.start(self._port)
        return self

    def stop(self) -> None:
        """Stop the server. The blobs remain. Does nothing if the server is not running."""
        self._server.stop()

    def __enter__(self) -> FakeBlobService:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The account's blob endpoint, `http://127.0.0.1:port/account`."""
        return f"http://127.0.0.1:{self._port}/{self._account}"

    def names(self, start: str = "") -> list[str]:
        """Return the names, as `container/name`, of the blobs whose names begin with `start`,
        sorted."""
        with self._lock:
            return sorted(path for path in self._blobs if path.startswith(start))

    def _respond(self, request: HttpRequest) -> HttpAnswer:
        path = unquote(request.path).removeprefix(f"/{self._account}/")
        fields = dict(parameters(request.query))
        op = _operation(request.method, fields)
        effect = self.faults.judge(op, path, finds_messages=False)
        kind = effect.fault.kind if effect.fault else ""
        with self._lock:
            self.requests[op] += 1
            self._land()
            if kind == "reset":
                return HttpAnswer(None, effect.delay, reset=True)
            if kind == "late":
                due = self._clock() + duration_of(effect.fault)  # type: ignore[arg-type]
                self._late.append((due, path, request.body))
                return HttpAnswer(None, effect.delay)
            if kind in _REFUSED:
                status, code = _REFUSED[kind]
                reply = _BlobReply(status, code=code, headers=retry_after(effect.fault))
            else:
                reply = self._done(op, path, fields, request)
        if kind == "reply_lost":
            return HttpAnswer(None, effect.delay)
        answered = reply._replace(version=request.fields.get("x-ms-version", ANSWERED_AS))
        return HttpAnswer(_rendered(answered), effect.delay + self.latency_s)

    def _done(self, op: str, path: str, fields: dict[str, str], request: HttpRequest) -> _BlobReply:
        if refused := self._refused(op, path, fields):
            return refused
        if op in ("create_container", "delete_container"):
            return self._container(op, path)
        container = path.partition("/")[0]
        if self._containers is not None and container not in self._containers:
            return _BlobReply(404, code="ContainerNotFound")
        if op == "put_blob":
            if path in self._blobs:
                return _BlobReply(409, code="BlobAlreadyExists")
            self._blobs[path] = request.body
            return _BlobReply(201, headers=_ETAG)
        if op == "list_blobs":
            return _BlobReply(200, self._listed(path, fields), headers=_XML)
        if op == "":
            return _BlobReply(400, code="InvalidUri")
        if path not in self._blobs:
            return _BlobReply(404, code="BlobNotFound")
        if op == "delete_blob":
            del self._blobs[path]
            return _BlobReply(202)
        wanted = request.fields.get("x-ms-range") or request.fields.get("range", "")
        return _part(self._blobs[path], wanted)

    def _refused(self, op: str, path: str, fields: dict[str, str]) -> _BlobReply | None:
        """Return a refusal if the SAS lacks the required permission, else None."""
        given = fields.get("sp", "") if "sig" in fields else _ALL_LETTERS
        if not {*_LETTERS.get(op, _ALL_LETTERS)} & {*given}:
            return _BlobReply(403, code="AuthorizationPermissionMismatch")
        if op == "put_blob" and "w" not in given and path in self._blobs:
            return _BlobReply(403, code="UnauthorizedBlobOverwrite")
        return None

    def _container(self, op: str, name: str) -> _BlobReply:
        there = self._containers is None or name in self._containers
        if op == "create_container":
            if there:
                return _BlobReply(409, code="ContainerAlreadyExists")
            self._containers = {*(self._containers or ()), name}
            return _BlobReply(201, headers=_ETAG)
        if not there:
            return _BlobReply(404, code="ContainerNotFound")
        if self._containers is not None:
            self._containers.discard(name)
        self._blobs = {p: data for p, data in self._blobs.items() if not p.startswith(f"{name}/")}
        return _BlobReply(202)

    def _listed(self, container: str, fields: dict[str, str]) -> bytes:
        start = f"{container}/{fields.get('prefix', '')}"
        most = min(int(fields.get("maxresults", _PAGE_AT_MOST)), _PAGE_AT_MOST)
        after = fields.get("marker", "")
        names = [path.removeprefix(f"{container}/") for path in self._blobs]
        found = sorted(n for n in names if f"{container}/{n}".startswith(start) and n > after)
        more = found[most - 1] if len(found) > most else ""
        blobs = "".join(
            f"<Blob><Name>{escape(name)}</Name><Properties>"
            f"<Last-Modified>{http_date(self._began)}</Last-Modified><Etag>0x1</Etag>"
            f"<Content-Length>{len(self._blobs[f'{container}/{name}'])}</Content-Length>"
            "<BlobType>BlockBlob</BlobType></Properties></Blob>"
            for name in found[:most]
        )
        return (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="/"'
            f' ContainerName="{escape(container)}"><Blobs>{blobs}</Blobs>'
            f"<NextMarker>{escape(more)}</NextMarker></EnumerationResults>"
        ).encode()

    def _land(self) -> None:
        """Carry out the late puts that are due. A put has no effect if a blob of the same name
        exists.
        """
        now = self._clock()
        for due, path, data in self._late:
            if due <= now:
                self._blobs.setdefault(path, data)
        self._late = [late for late in self._late if late[0] > now]


_ETAG = (("ETag", '"0x1"'), ("Last-Modified", http_date(0)))
_XML = (("Content-Type", "application/xml"),)


_LETTERS = {
    "put_blob": "cw",
    "get_blob": "r",
    "list_blobs": "l",
    "delete_blob": "d",
    "create_container": "cw",
    "delete_container": "d",
}
_ALL_LETTERS = "rcwdl"


def _operation(method: str, fields: dict[str, str]) -> str:
    if method == "GET" and fields.get("comp") == "list":
        return "list_blobs"
    if fields.get("comp"):
        return ""
    if fields.get("restype") == "container":
        return {"PUT": "create_container", "DELETE": "delete_container"}.get(method, "")
    return {"PUT": "put_blob", "GET": "get_blob", "DELETE": "delete_blob"}.get(method, "")


def _part(data: bytes, wanted: str) -> _BlobReply:
    """Return the requested range of a blob, or the whole blob if no range is requested."""
    found = _RANGE.fullmatch(wanted)
    headers = (
        *_ETAG,
        ("Accept-Ranges", "bytes"),
        ("Content-Type", "application/octet-stream"),
        ("x-ms-blob-type", "BlockBlob"),
    )
    if not found:
        return _BlobReply(200, data, headers=headers)
    first = int(found[1])
    last = min(int(found[2] or len(data)), len(data) - 1)
    if first >= len(data):
        return _BlobReply(
            416, code="InvalidRange", headers=(("Content-Range", f"bytes */{len(data)}"),)
        )
    content_range = ("Content-Range", f"bytes {first}-{last}/{len(data)}")
    return _BlobReply(206, data[first : last + 1], headers=(*headers, content_range))


def _rendered(reply: _BlobReply) -> bytes:
    headers = [
        *reply.headers,
        ("Server", "spark-azqueue-fake"),
        ("x-ms-version", reply.version),
        ("x-ms-request-id", "00000000-0000-4000-8000-000000000000"),
        ("Date", http_date(time.time())),
    ]
    body = reply.body
    if reply.code:
        headers += [("x-ms-error-code", reply.code), ("Content-Type", "application/xml")]
        body = f"<Error><Code>{reply.code}</Code><Message>{reply.code}</Message></Error>".encode()
    reason = _REASONS.get(reply.status, reply.code)
    # As on the service, listings are sent in chunks, and blobs and refusals with their length.
    return render(reply.status, reason, headers, body, chunked=_XML[0] in reply.headers)
