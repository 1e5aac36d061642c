"""Recorded requests, asked again of the fake, and what its answers differ in."""

from __future__ import annotations

import base64
import http.client
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime
from itertools import groupby
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from cassettes import Recorded

from spark_azqueue.testing import FakeClock, FakeQueueService

_SIGNED = {"sv", "ss", "srt", "sp", "st", "se", "sip", "spr", "ses", "si", "sig"}
_SENT_ANEW = {"authorization", "connection", "content-length", "host", "x-ms-date"}
_NEVER_RECORDED = {"x-ms-request-id", "x-ms-client-request-id", "connection"}
_DATE = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
_TIME = re.compile(r"Time:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z")
_TEXT = re.compile(r"<(\w+)>([^<]*)</\1>")
_DATES = {"InsertionTime", "ExpirationTime", "TimeNextVisible"}
_BY_FAKE = {"MessageId", "PopReceipt"}
_OF_THE_RECORDING = {"Name", "NextMarker", "Marker", "LineNumber", "LinePosition"}
"""Names of queues that other cassettes made, and where its parser stopped."""
_SLACK_S = 3
"""Recorded times of one answer differ by that much: they are of several machines."""


class Replay:
    """Asks the fake what one cassette asked the service. differences: by kind, how often.

    replayed: how many requests were sent. unknown: how many were of operations that the fake lacks.
    """

    def __init__(self) -> None:
        self.differences: Counter[str] = Counter()
        self.replayed = 0
        self.unknown: Counter[str] = Counter()

    def cassette(self, exchanges: Iterable[Recorded]) -> None:
        """Ask all of it, in order, of a fake that begins empty."""
        asked = [each for each in exchanges if each.service == "queue"]
        if not asked:
            return
        clock = FakeClock(_seconds(asked[0].fields["date"]) - 1, frozen=True)
        account = asked[0].host.partition(".")[0].removesuffix("-secondary")
        with FakeQueueService(clock, account, credential_time=clock.now) as fake:
            connection = http.client.HTTPConnection(urlsplit(fake.url).netloc, timeout=20)
            known: dict[str, str] = {}
            for each in asked:
                if "restype" in each.names or "comp=acl" in each.query:
                    self.unknown[_operation(each)] += 1
                    continue
                clock.advance(max(0.0, _seconds(each.fields["date"]) - clock.now()))
                found = _asked(connection, fake, each, known)
                self.replayed += 1
                for kind in _differences(each, *found, known):
                    self.differences[f"{_operation(each)} {each.status}: {kind}"] += 1
            connection.close()


def by_cassette(exchanges: list[Recorded]) -> Iterator[list[Recorded]]:
    """The exchanges of each cassette."""
    for _, some in groupby(exchanges, lambda each: each.cassette):
        yield list(some)


def _asked(
    connection: http.client.HTTPConnection,
    fake: FakeQueueService,
    each: Recorded,
    known: dict[str, str],
) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of the fake's answer. known: its ids and receipts, by recorded."""
    path = "/".join(quote(known.get(part, part), safe="%") for part in each.path.split("/"))
    query = [
        (name, known.get(value, value))
        for name, value in parse_qsl(each.query, keep_blank_values=True)
        if name not in _SIGNED
    ]
    headers = {name: value for name, value in each.asked.items() if name not in _SENT_ANEW}
    signature = "&" + fake.sas()
    if each.fields.get("x-ms-error-code") == "InvalidAuthenticationInfo":
        # The recording leaves out what was sent: a text that is no token (test_token_credential).
        headers["authorization"], signature = "Bearer initial token", ""
    target = f"/{fake.account}{path}?{urlencode(query)}{signature}"
    connection.request(each.method, target, each.body or None, headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    return answer.status, {n.lower(): v for n, v in answer.getheaders()}, body


def _differences(
    each: Recorded, status: int, headers: dict[str, str], body: str, known: dict[str, str]
) -> Iterator[str]:
    told = each.fields
    if status != each.status:
        yield f"status {status}"
        return
    if (code := headers.get("x-ms-error-code")) != told.get("x-ms-error-code"):
        yield f"code {code}"
    for name in sorted((set(told) ^ set(headers)) - _NEVER_RECORDED):
        yield f"header {name} {'missing' if name in told else 'added'}"
    for name in sorted(set(told) & set(headers)):
        if kind := _of_header(name, told[name], headers[name]):
            yield f"header {name}: {kind}"
    if "x-ms-popreceipt" in told:
        receipt = parse_qsl(each.query)[0][1]
        known[told["x-ms-popreceipt"]] = headers.get("x-ms-popreceipt", "")
        if known[told["x-ms-popreceipt"]] == known.get(receipt):
            yield "receipt not renewed"
    yield from _of_body(each.content.decode(), body, known)


def _of_header(name: str, told: str, found: str) -> str:
    if name in ("date", "x-ms-time-next-visible"):
        return _of_date(told, found)
    if name == "x-ms-popreceipt":
        return _of_receipt(told, found)
    if name == "content-length":  # of an error, it follows from the texts, which are compared
        return "" if (told == "0") == (found == "0") else "another"
    return "" if told == found else "another"


def _of_body(told: str, found: str, known: dict[str, str]) -> Iterator[str]:
    if _skeleton(told) != _skeleton(found):
        yield f"elements {_skeleton(found)} in place of {_skeleton(told)}"
        return
    for (name, was), (_, now) in zip(_TEXT.findall(told), _TEXT.findall(found), strict=False):
        if name in _DATES:
            if kind := _of_date(was, now):
                yield f"{name}: {kind}"
        elif name in _BY_FAKE:
            if name == "PopReceipt" and (kind := _of_receipt(was, now)):
                yield f"{name}: {kind}"
            if known.setdefault(was, now) != now:
                yield f"{name}: equal where the service's are not, or the other way around"
        elif name == "Message":
            if was.partition("\n")[0] != now.partition("\n")[0]:
                yield f"{name}: {now.partition(chr(10))[0]!r}"
            if not (_TIME.search(was) and _TIME.search(now)):
                yield f"{name}: another form of time"
        elif was != now and name not in _OF_THE_RECORDING:
            yield f"{name}: another text"


def _skeleton(document: str) -> str:
    """The document without its texts and attributes; of what repeats in a row, one."""
    texts = re.sub(r">[^<]+<", ">…<", re.sub(r' ServiceEndpoint="[^"]*"', "", document))
    for tag in ("Queue",):
        texts = re.sub(rf"(<{tag}>(?:(?!</{tag}>).)*</{tag}>)(?:\1)+", r"\1", texts)
    return texts


def _of_date(told: str, found: str) -> str:
    if not _DATE.fullmatch(found):
        return "another form"
    return "" if abs(_seconds(told) - _seconds(found)) <= _SLACK_S else "another time"


def _of_receipt(told: str, found: str) -> str:
    was, now = base64.b64decode(told), base64.b64decode(found)
    first, second = (int.from_bytes(each[12:20], "little") / 10**7 for each in (was, now))
    if len(was) != len(now) or was[20:] != now[20:]:
        return "another form"
    if abs(first - second) > _SLACK_S:
        return "another time"
    return "" if was[:12] == now[:12] else "other constant bytes"


def _operation(each: Recorded) -> str:
    """In words, such as "GET queue/messages?numofmessages"."""
    places = ["account", "queue", "queue/messages", "queue/messages/id"]
    names = sorted(each.names - _SIGNED)
    comp = dict(parse_qsl(each.query)).get("comp", "")
    shown = [f"comp={comp}" if name == "comp" else name for name in names]
    return f"{each.method} {places[len(each.parts)]}" + ("?" if shown else "") + "&".join(shown)


def _seconds(date: str) -> float:
    return parsedate_to_datetime(date).timestamp()
