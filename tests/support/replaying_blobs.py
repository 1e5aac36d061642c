"""Recorded requests for blobs, asked again of the fake of the blobs, and what it differs in."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from cassettes import Recorded

from spark_azqueue.testing.blobs import FakeBlobService

_NEVER_COMPARED = {"x-ms-request-id", "x-ms-client-request-id", "connection", "vary"}
_LISTED = {"restype", "comp", "prefix", "maxresults", "marker", "timeout"}
_CONDITIONS = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since")


def is_ours(each: Recorded) -> bool:
    """True for a request of the kinds that the package makes: the fake has no others."""
    query = {piece for piece in each.query.split("&") if not piece.startswith("timeout=")} - {""}
    conditions = {name: each.asked[name] for name in _CONDITIONS if name in each.asked}
    if each.method == "GET":
        conditions.pop("if-match", None)  # the SDK's, with the tag that it was told
    if conditions not in ({}, {"if-none-match": "*"}) or "x-ms-lease-id" in each.asked:
        return False
    if len(each.parts) == 1:
        if each.method == "GET":
            return "comp=list" in query and each.names <= _LISTED
        return each.method in ("PUT", "DELETE") and query == {"restype=container"}
    if len(each.parts) != 2 or query:
        return False
    if each.method == "PUT":
        return each.asked.get("x-ms-blob-type") == "BlockBlob"
    return each.method in ("GET", "DELETE")


class BlobReplay:
    """Asks the fake what one cassette asked of the service, if all of that is of our kinds."""

    def __init__(self) -> None:
        self.differences: Counter[str] = Counter()
        self.replayed = 0

    def cassette(self, exchanges: Iterable[Recorded]) -> None:
        """Ask all of it, in order, of a fake that begins empty; or nothing."""
        asked = list(exchanges)
        if not all(each.service == "blob" and is_ours(each) for each in asked):
            return
        if len({each.host for each in asked}) > 1:
            return  # of several accounts
        made = {e.parts[0] for e in asked if e.method == "PUT" and len(e.parts) == 1}
        there = {e.parts[0] for e in asked if e.status < 400} - made
        with FakeBlobService("storagename", containers=there) as fake:
            connection = http.client.HTTPConnection(urlsplit(fake.url).netloc, timeout=20)
            for each in asked:
                kept = ("x-ms-range", "range", "if-none-match", "x-ms-blob-type", "x-ms-version")
                headers = {name: each.asked[name] for name in kept if name in each.asked}
                target = f"/storagename{each.path}?{each.query}"
                connection.request(each.method, target, each.body or None, headers)
                answer = connection.getresponse()
                body = answer.read()
                found = {name.lower(): value for name, value in answer.getheaders()}
                self.replayed += 1
                for kind in _differences(each, answer.status, found, body):
                    self.differences[kind] += 1
            connection.close()


def _differences(
    each: Recorded, status: int, headers: dict[str, str], body: bytes
) -> Iterator[str]:
    what = f"{each.method} {'container' if len(each.parts) == 1 else 'blob'}"
    if status != each.status:
        yield f"{what}: {status} in place of {each.status}"
        return
    told = each.fields
    if headers.get("x-ms-error-code") != told.get("x-ms-error-code"):
        yield f"{what} {status}: another code"
    for name in sorted(set(headers) - set(told) - _NEVER_COMPARED):
        yield f"{what} {status}: header {name} added"
    for name in sorted(set(told) - set(headers) - _NEVER_COMPARED):
        yield f"{what} {status}: header {name} missing"
    if "content-range" in told and headers.get("content-range") != told["content-range"]:
        yield f"{what} {status}: another range"
    if status in (200, 206) and len(each.parts) == 2 and body != each.content:
        yield f"{what} {status}: other bytes"
