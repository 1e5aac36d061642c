"""Shared access signatures: for one queue ("service SAS") and for the account.

Written only from the REST reference, "Create a service SAS" and "Create an account SAS", because
code that signs is tested against it. `delegation.py` has those with a user delegation key. Not
supported: stored access policies (`si`), and a `sv` before 2015-04-05: its strings to sign differ.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from typing import NamedTuple
from urllib.parse import urlencode

from . import delegation, denials
from .shared_key import sign

QUEUE_LETTERS = "raup"
"""What a SAS for one queue can permit: read, add, update, process."""

_ACCOUNT_LETTERS = frozenset("rwdylacuptfix")
_OLDEST = "2015-04-05"
_WITH_SCOPE = "2020-12-06"
_VERSION = "2021-12-02"
_CALLER = "127.0.0.1"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d)(?::(\d\d)(?:\.\d{1,7})?)?(Z|[+-]\d\d:\d\d))?")


class Grant(NamedTuple):
    """What a SAS with a verified signature allows."""

    letters: frozenset[str]
    services: str | None
    """`ss` of an account SAS; None: a SAS for one queue."""
    types: str
    """`srt` of an account SAS."""
    start: float
    expiry: float
    protocol: str
    addresses: str
    user: str
    """The object id of the only user who may use it, with a token; empty: anybody may."""


def read(
    query: Mapping[str, str], account: str, queue: str, key: bytes, versions: Collection[str]
) -> Grant:
    """Verify the SAS in a query. Raises Refusal (403 AuthenticationFailed) if invalid."""
    if "si" in query:
        raise denials.not_authenticated("This fake knows no stored access policies ('si').")
    for_account = "ss" in query or "srt" in query
    for name in ("sv", "sp", "se", *(("ss", "srt") if for_account else ())):
        if not query.get(name):
            raise denials.not_authenticated(f"{name} is mandatory. Cannot be empty")
    version = query["sv"]
    if version not in versions or version < _OLDEST:
        raise denials.not_authenticated(f"sv is not a version that is served: {version!r}")
    text = (_account_text if for_account else _queue_text)(query, account, queue)
    start, expiry = query.get("st"), _seconds("se", query["se"])
    begins = _seconds("st", start) if start else float("-inf")
    if "skoid" in query:
        times = {name: _seconds(name, query.get(name, "")) for name in ("skt", "ske")}
        key, text = delegation.key_of(query, key, times), delegation.text(query, account, queue)
        begins, expiry = max(begins, times["skt"]), min(expiry, times["ske"])
    if sign(text, key) != query["sig"]:
        raise denials.not_authenticated(
            f"Signature did not match. String to sign used was {text!r}"
        )
    letters = frozenset(query["sp"])
    if not letters <= (_ACCOUNT_LETTERS if for_account else frozenset(QUEUE_LETTERS)):
        raise denials.not_authenticated(f"sp has letters that do not exist here: {query['sp']!r}")
    protocol = query.get("spr", "https,http")
    if protocol not in ("https", "https,http"):
        raise denials.not_authenticated(f"spr is 'https' or 'https,http', not {protocol!r}")
    return Grant(
        letters,
        query["ss"] if for_account else None,
        query.get("srt", ""),
        begins,
        expiry,
        protocol,
        query.get("sip", ""),
        query.get("sduoid", ""),
    )


def check_time_and_place(grant: Grant, now: float) -> None:
    """Raise Refusal (403) for a SAS outside its time, protocol or addresses."""
    if not grant.start <= now < grant.expiry:
        raise denials.not_authenticated(
            "Signature not valid in the specified time frame: Start "
            f"[{grant.start}] - Expiry [{grant.expiry}] - Current [{now}] (unix seconds)"
        )
    if grant.protocol == "https":
        raise denials.wrong_protocol()
    if grant.addresses and not _holds(grant.addresses, _CALLER):
        raise denials.wrong_address(_CALLER)


def for_queue(account: str, queue: str, key: bytes, *, letters: str, expiry: float) -> str:
    """Make a SAS for one queue. `expiry`: unix seconds; fractions are cut off."""
    query = {"sv": _VERSION, "se": _iso(expiry), "sp": letters}
    query["sig"] = sign(_queue_text(query, account, queue), key)
    return urlencode(query)


def for_account(account: str, key: bytes, *, letters: str, types: str, expiry: float) -> str:
    """Make a SAS for an account's queues. `types`: any of s (list), c (queues), o (messages)."""
    query = {"sv": _VERSION, "ss": "q", "srt": types, "se": _iso(expiry), "sp": letters}
    query["sig"] = sign(_account_text(query, account, ""), key)
    return urlencode(query)


def _queue_text(query: Mapping[str, str], account: str, queue: str) -> str:
    signed = [query.get(name, "") for name in ("sp", "st", "se")]
    limits = [query.get(name, "") for name in ("si", "sip", "spr", "sv")]
    return "\n".join([*signed, f"/queue/{account}/{queue}", *limits])


def _account_text(query: Mapping[str, str], account: str, queue: str) -> str:
    names = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"]
    if query["sv"] >= _WITH_SCOPE:
        names.append("ses")
    return "".join(f"{line}\n" for line in (account, *(query.get(name, "") for name in names)))


@functools.lru_cache(maxsize=256)
def _moment(text: str) -> float | None:
    """Parse a time as "Formatting DateTime values" allows, to unix seconds, or None."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    day, minute, second, zone = found.groups()
    stamp = f"{day}T{minute or '00:00'}:{second or '00'}"
    offset = "+00:00" if zone in (None, "Z") else zone
    try:
        return datetime.fromisoformat(stamp + offset).timestamp()
    except (ValueError, OverflowError):
        return None


def _seconds(name: str, text: str) -> float:
    at = _moment(text)
    if at is None:
        raise denials.not_authenticated(f"{name} is not a time in ISO 8601 format: {text!r}")
    return at


def _iso(at: float) -> str:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=int(at))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _holds(addresses: str, caller: str) -> bool:
    first, _, last = addresses.partition("-")
    try:
        ends = ipaddress.ip_address(first), ipaddress.ip_address(last or first)
    except ValueError:
        raise denials.not_authenticated(
            f"sip is not an address or a range: {addresses!r}"
        ) from None
    number = int(ipaddress.ip_address(caller))
    return ends[0].version == 4 and int(ends[0]) <= number <= int(ends[1])
