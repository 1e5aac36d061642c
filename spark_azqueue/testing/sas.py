"""Shared access signatures (SAS) for one queue or for the account. A SAS for a queue may also be
signed with a user delegation key.

Written only from the REST reference, "Create a service SAS", "Create a user delegation SAS" and
"Create an account SAS", and not from the code that signs, because this module tests that code.
Stored access policies (`si`), and versions (`sv`) before 2015-04-05, whose strings to sign differ,
are not supported. The service does not store user delegation keys: it computes the key again from
the values in a SAS. The fake computes it from these values and the account's key.
"""

from __future__ import annotations

import base64
import functools
import hmac
import ipaddress
import re
import uuid
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from typing import NamedTuple
from urllib.parse import urlencode

from . import errors
from .shared_key import sign

QUEUE_LETTERS = "raup"
"""Permissions of a SAS for one queue: read, add, update, process."""

LONGEST_KEY_S = 7 * 24 * 3600
"""Maximum lifetime of a user delegation key, in seconds."""

_ACCOUNT_LETTERS = frozenset("rwdylacuptfix")
_OLDEST = "2015-04-05"
_WITH_SCOPE = "2020-12-06"
_VERSION = "2021-12-02"
_FIRST_DELEGATED = "2025-07-05"  # the first version in which queues accept a delegated SAS
_OF_THE_KEY = ("skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid")
_CALLER = ipaddress.ip_address("127.0.0.1")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d)(?::(\d\d)(?:\.\d{1,7})?)?(Z|[+-]\d\d:\d\d))?")


class DelegationKey(NamedTuple):
    """A user delegation key. The fields have the names of Azure's SDK, so that the SDK's functions
    accept this key.
    """

    signed_oid: str
    signed_tid: str
    signed_start: str
    signed_expiry: str
    signed_service: str
    signed_version: str
    signed_delegated_user_tid: str | None
    value: str


class Grant(NamedTuple):
    """Permissions of a SAS with a verified signature."""

    letters: frozenset[str]
    services: str | None
    """`ss` of an account SAS; None for a SAS for one queue."""
    types: str
    """Resource types (`srt`) of an account SAS."""
    start: float
    expiry: float
    protocol: str
    addresses: str
    user: str
    """Object id of the only user who may use the SAS, together with a token of this user; "" if any
    caller may use it.
    """


def read(
    query: Mapping[str, str], account: str, queue: str, key: bytes, versions: Collection[str]
) -> Grant:
    """Verify the SAS in a query. Raises Refusal (403 AuthenticationFailed) if the SAS is
    invalid.
    """
    if "si" in query:
        raise errors.not_authenticated("This fake knows no stored access policies ('si').")
    for_account = "ss" in query or "srt" in query
    _check_given(query, ("sv", "sp", "se", *(("ss", "srt") if for_account else ())))
    version = query["sv"]
    if version not in versions or version < _OLDEST:
        raise errors.not_authenticated(f"sv is not a version that is served: {version!r}")
    start, expiry = query.get("st"), _seconds("se", query["se"])
    begins = _seconds("st", start) if start else float("-inf")
    if "skoid" in query:
        times = {name: _seconds(name, query.get(name, "")) for name in ("skt", "ske")}
        key, text = _key_of(query, key, times), _delegated_text(query, account, queue)
        begins, expiry = max(begins, times["skt"]), min(expiry, times["ske"])
    else:
        text = (_account_text if for_account else _queue_text)(query, account, queue)
    if sign(text, key) != query["sig"]:
        raise errors.not_authenticated(f"Signature did not match. String to sign used was {text!r}")
    letters = frozenset(query["sp"])
    if not letters <= (_ACCOUNT_LETTERS if for_account else frozenset(QUEUE_LETTERS)):
        raise errors.not_authenticated(f"sp has letters that do not exist here: {query['sp']!r}")
    protocol = query.get("spr", "https,http")
    if protocol not in ("https", "https,http"):
        raise errors.not_authenticated(f"spr is 'https' or 'https,http', not {protocol!r}")
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
    """Raise Refusal (403) if the SAS does not allow this time, protocol or client address."""
    if not grant.start <= now < grant.expiry:
        raise errors.not_authenticated(
            "Signature not valid in the specified time frame: Start "
            f"[{grant.start}] - Expiry [{grant.expiry}] - Current [{now}] (unix seconds)"
        )
    if grant.protocol == "https":
        raise errors.wrong_protocol()
    if grant.addresses and not _holds(grant.addresses):
        raise errors.wrong_address()


def for_queue(account: str, queue: str, key: bytes, *, letters: str, expiry: float) -> str:
    """Make a SAS for one queue. `expiry`: unix seconds; fractions are cut off."""
    query = {"sv": _VERSION, "se": _iso(expiry), "sp": letters}
    return _signed(query, _queue_text(query, account, queue), key)


def for_account(account: str, key: bytes, *, letters: str, types: str, expiry: float) -> str:
    """Make a SAS for an account's queues. `types`: resource types, any of s (list), c (queues), o
    (messages).
    """
    query = {"sv": _VERSION, "ss": "q", "srt": types, "se": _iso(expiry), "sp": letters}
    return _signed(query, _account_text(query, account, ""), key)


def make_key(secret: bytes, now: float, life: float) -> DelegationKey:
    """Return a user delegation key of an invented user. The key is valid for `life` seconds from
    `now`.
    """
    oid, tid = str(uuid.UUID(int=7)), str(uuid.UUID(int=8))
    fields = (oid, tid, _iso(now), _iso(now + life), "q", _FIRST_DELEGATED, "")
    value = base64.b64encode(_key_value(secret, fields)).decode("ascii")
    return DelegationKey(*fields[:6], None, value)


def delegated(
    key: DelegationKey, account: str, queue: str, letters: str, expiry: float, user: str
) -> str:
    """Return a SAS for one queue. user: object id of the only user who may use the SAS, or "" for
    any user.
    """
    query = {"sv": _FIRST_DELEGATED, "se": _iso(expiry), "sp": letters, "sduoid": user}
    query |= dict(zip(_OF_THE_KEY, key[:6], strict=False))
    query = {name: value for name, value in query.items() if value}
    return _signed(query, _delegated_text(query, account, queue), base64.b64decode(key.value))


def _signed(query: Mapping[str, str], text: str, key: bytes) -> str:
    return urlencode({**query, "sig": sign(text, key)})


def _check_given(query: Mapping[str, str], names: Collection[str]) -> None:
    for name in names:
        if not query.get(name):
            raise errors.not_authenticated(f"{name} is mandatory. Cannot be empty")


def _key_of(query: Mapping[str, str], secret: bytes, times: Mapping[str, float]) -> bytes:
    """Return the user delegation key that a SAS names. times: `skt` and `ske` in unix seconds.

    Raises Refusal (403) for a key that the service cannot have issued.
    """
    _check_given(query, _OF_THE_KEY[:6])
    if query["sv"] < _FIRST_DELEGATED:
        raise errors.not_authenticated("This sv has no user delegation SAS for queues.")
    if query["sks"] != "q" or not 0 < times["ske"] - times["skt"] <= LONGEST_KEY_S:
        raise errors.not_authenticated("The key is not one for queues, or for more than 7 days.")
    return _key_value(secret, _texts(query, *_OF_THE_KEY))


def _key_value(secret: bytes, fields: Collection[str]) -> bytes:
    return hmac.digest(secret, "\n".join(fields).encode(), "sha256")


# Fields of the strings to sign.


def _queue_text(query: Mapping[str, str], account: str, queue: str) -> str:
    first, last = _texts(query, "sp", "st", "se"), _texts(query, "si", "sip", "spr", "sv")
    return "\n".join([*first, f"/queue/{account}/{queue}", *last])


def _delegated_text(query: Mapping[str, str], account: str, queue: str) -> str:
    first, last = _texts(query, "sp", "st", "se"), _texts(query, "sip", "spr", "sv")
    key = _texts(query, *_OF_THE_KEY, "sduoid")
    return "\n".join([*first, f"/queue/{account}/{queue}", *key, *last])


def _account_text(query: Mapping[str, str], account: str, queue: str) -> str:
    scope = ("ses",) if query["sv"] >= _WITH_SCOPE else ()
    names = ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv", *scope)
    return "".join(f"{line}\n" for line in (account, *_texts(query, *names)))


def _texts(query: Mapping[str, str], *names: str) -> list[str]:
    return [query.get(name, "") for name in names]


@functools.lru_cache(maxsize=256)
def _moment(text: str) -> float | None:
    """Parse a time to unix seconds, in the forms of "Formatting DateTime values"; None if the time
    is invalid.
    """
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
        raise errors.not_authenticated(f"{name} is not a time in ISO 8601 format: {text!r}")
    return at


def _iso(at: float) -> str:
    """Render unix seconds in the service's form, without fractions."""
    return datetime.fromtimestamp(int(at), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _holds(addresses: str) -> bool:
    first, _, last = addresses.partition("-")
    try:
        ends = ipaddress.ip_address(first), ipaddress.ip_address(last or first)
    except ValueError:
        raise errors.not_authenticated(f"sip is not an address or a range: {addresses!r}") from None
    return ends[0].version == 4 and int(ends[0]) <= int(_CALLER) <= int(ends[1])
