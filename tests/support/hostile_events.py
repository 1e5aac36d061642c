"""Events that would lead a reader elsewhere: what a sender of messages may write into them.

Each is an event of a blob whose subject and URL agree, as far as they can.
"""

from __future__ import annotations

import json
from typing import Any

from storage_events import BLOB, OF_BLOBS, Event, subject_of

PATH = "in/orders-1.json"
CREATED = OF_BLOBS[1]


def event(url: str, container: str = "landing", path: str = PATH, **data: Any) -> str:
    """A body: an event that a blob was created."""
    given = {**CREATED.data, "url": url, **data}
    return json.dumps(Event(CREATED.type, subject_of(container, path), given).event_grid())


def _of_host(host: str, scheme: str = "https") -> str:
    return event(f"{scheme}://{host}/landing/{PATH}")


def _of_path(path: str, written: str | None = None) -> str:
    return event(f"{BLOB}/landing/{path if written is None else written}", path=path)


ELSEWHERE = {
    "another host": _of_host("files.evil.test"),
    "another account": _of_host("otherdata.blob.core.windows.net"),
    "the account as a label of another host": _of_host("shopdata.blob.core.windows.net.evil.test"),
    "a host that ends alike": _of_host("evilshopdata.blob.core.windows.net"),
    "another character for the dot": _of_host("shopdataxblob.core.windows.net"),
    "another suffix": _of_host("shopdata.blob.core.evil.test"),
    "another service": _of_host("shopdata.queue.core.windows.net"),
    "metadata of the machine": _of_host("169.254.169.254", "http"),
    "an address as a number": _of_host("2852039166", "http"),
    "an IPv6 address": _of_host("[::1]"),
    "localhost": _of_host("localhost", "http"),
    "the emulator's port on this machine": _of_host("127.0.0.1:10001/devstoreaccount1", "http"),
    "another port": _of_host("shopdata.blob.core.windows.net:8443"),
    "an empty port": _of_host("shopdata.blob.core.windows.net:"),
    "a user": _of_host("shopdata.blob.core.windows.net@files.evil.test"),
    "a user and a password": _of_host("user:pw@shopdata.blob.core.windows.net"),
    "a backslash before a host": _of_host(r"files.evil.test\@shopdata.blob.core.windows.net"),
    "a fragment before a host": _of_host("files.evil.test#shopdata.blob.core.windows.net"),
    "a question mark before a host": _of_host("files.evil.test?shopdata.blob.core.windows.net"),
    "letters that look alike": _of_host("shopd\u0430ta.blob.core.windows.net"),
    "full-width letters": _of_host("\uff53hopdata.blob.core.windows.net"),
    "a full stop that looks alike": _of_host("shopdata\u3002blob.core.windows.net"),
    "a letter whose small form is ASCII": _of_host("ban\u212adata.blob.core.windows.net"),
    "a trailing dot": _of_host("shopdata.blob.core.windows.net."),
    "a line break in the host": _of_host("shopdata.blob.core.windows.net\n.evil.test"),
    "a line break before the URL": event(f"\n{BLOB}/landing/{PATH}"),
    "a text before the URL": event(f"https://evil.test/{BLOB}/landing/{PATH}"),
    "no scheme": event(f"//shopdata.blob.core.windows.net/landing/{PATH}"),
    "another scheme": event(f"abfss://landing@shopdata.dfs.core.windows.net/{PATH}"),
    "another container": event(f"{BLOB}/secrets/{PATH}", "secrets"),
    "a container in capitals": event(f"{BLOB}/LANDING/{PATH}", "LANDING"),
    "a container that begins alike": event(f"{BLOB}/landing2/{PATH}", "landing2"),
    "a subject of another container": event(f"{BLOB}/landing/{PATH}", "secrets"),
    "a URL of another container": event(f"{BLOB}/secrets/{PATH}"),
    "no container": event(f"{BLOB}/{PATH}", "$root"),
    "dots": _of_path("../secrets/pw.json"),
    "dots in the middle": _of_path("in/../../secrets/pw.json"),
    "dots at the end": _of_path("in/.."),
    "one dot": _of_path("./pw.json"),
    "dots, encoded": _of_path("../secrets/pw.json", "%2e%2e/secrets/pw.json"),
    "dots, encoded in both": _of_path("%2e%2e/secrets/pw.json"),
    "dots, encoded twice": _of_path("%2E%2e/secrets/pw.json", "%252E%252e/secrets/pw.json"),
    "an encoded slash": _of_path("..%2fsecrets%2fpw.json"),
    "a slash at the start": _of_path("/etc/passwd"),
    "a line break": _of_path("in/a\nb.json"),
    "a line break, encoded": _of_path("in/a\nb.json", "in/a%0Ab.json"),
    "a line break at the end": _of_path("in/a.json\n"),
    "a carriage return": _of_path("in/a\r\nHost: evil.test"),
    "NUL": _of_path("in/a.json\0.txt"),
    "NUL, encoded": _of_path("in/a.json\0.txt", "in/a.json%00.txt"),
    "NUL, encoded in both": _of_path("in/a.json%00.txt"),
    "a separator of lines": _of_path("in/a\u2028b.json"),
    "a backslash": _of_path(r"..\secrets\pw.json"),
    "a backslash, encoded": _of_path(r"..\secrets\pw.json", "..%5Csecrets%5Cpw.json"),
    "a query": event(f"{BLOB}/landing/{PATH}?sv=2021-12-02&sig=x"),
    "a fragment": event(f"{BLOB}/landing/{PATH}#x"),
    "no URL": event(""),
    "a URL that is a number": event(5),  # type: ignore[arg-type]
    "a list of URLs": event([f"{BLOB}/landing/{PATH}"]),  # type: ignore[arg-type]
}
"""What must not give a path, if `shopdata/landing` and Azurite's container are trusted."""

_DEEP = 800
_EVENT = json.dumps(CREATED.event_grid())
_NESTED = '{"id":' * _DEEP + "1" + "}" * _DEEP

TOO_MUCH = {
    "nested objects": _NESTED,
    "nested lists": "[" * 2400 + "]" * 2400,
    "nested in a field": _EVENT.replace('"dataVersion"', f'"id": {_NESTED}, "dataVersion"'),
    "nested in a text in a list": json.dumps([_NESTED]),
    "nested in a text": json.dumps({**CREATED.event_grid(), "data": _NESTED}),
    "nested, never closed": "[" * 60_000,
    "texts that never end": "[" + '"\\"' * 20_000,
    "21,000 empty events": "[" + ",".join(["{}"] * 21_000) + "]",
    "5,001 events": "[" + ",".join(["{}"] * 5_001) + "]",
    "a long body": json.dumps({**CREATED.event_grid(), "more": "x" * 2**20}),
    "more behind a bracket": f"{_EVENT}],[1",
    "more behind a brace": f"{_EVENT}}},{{",
}
"""What is too much for a reader, or more than one value."""
