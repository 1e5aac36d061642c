"""User delegation keys, and a SAS for a queue that is signed with one.

Written from the REST reference, "Create a user delegation SAS". The service keeps no list of such
keys: what a SAS says of its key is enough to make the key again, here with the account's key.
"""

from __future__ import annotations

import base64
import hmac
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple
from urllib.parse import urlencode

from . import denials
from .shared_key import sign

FIRST_VERSION = "2025-07-05"
"""The first version in which queues take such a SAS."""

LONGEST_S = 7 * 24 * 3600
"""How long a key lasts at most."""

_OF_THE_KEY = ("skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid")


class DelegationKey(NamedTuple):
    """A user delegation key. The names are those of Azure's SDK, whose functions take it."""

    signed_oid: str
    signed_tid: str
    signed_start: str
    signed_expiry: str
    signed_service: str
    signed_version: str
    signed_delegated_user_tid: str | None
    value: str


def make_key(secret: bytes, now: float, life: float) -> DelegationKey:
    """A key of a made-up user that is valid from `now` on, for `life` seconds."""
    oid, tid = str(uuid.UUID(int=7)), str(uuid.UUID(int=8))
    fields = (oid, tid, iso(now), iso(now + life), "q", FIRST_VERSION, "")
    value = base64.b64encode(_value(secret, fields)).decode("ascii")
    return DelegationKey(*fields[:6], None, value)


def make_sas(
    key: DelegationKey, account: str, queue: str, letters: str, expiry: float, user: str
) -> str:
    """A SAS for one queue. user: the object id of the only user who may use it; "": any."""
    query = {"sv": FIRST_VERSION, "se": iso(expiry), "sp": letters, "sduoid": user}
    query |= dict(zip(_OF_THE_KEY, key[:6], strict=False))
    query = {name: value for name, value in query.items() if value}
    query["sig"] = sign(text(query, account, queue), base64.b64decode(key.value))
    return urlencode(query)


def key_of(query: Mapping[str, str], secret: bytes, now_seconds: Mapping[str, float]) -> bytes:
    """The key that a SAS says it is signed with. now_seconds: `skt` and `ske` in unix seconds.

    Raises Refusal (403) for one that the service would not have given.
    """
    for name in _OF_THE_KEY[:6]:
        if not query.get(name):
            raise denials.not_authenticated(f"{name} is mandatory. Cannot be empty")
    if query["sv"] < FIRST_VERSION:
        raise denials.not_authenticated("This sv has no user delegation SAS for queues.")
    if query["sks"] != "q" or not 0 < now_seconds["ske"] - now_seconds["skt"] <= LONGEST_S:
        raise denials.not_authenticated("The key is not one for queues, or for more than 7 days.")
    return _value(secret, tuple(query.get(name, "") for name in _OF_THE_KEY))


def text(query: Mapping[str, str], account: str, queue: str) -> str:
    """The string to sign."""
    first = [query.get(name, "") for name in ("sp", "st", "se")]
    key = [query.get(name, "") for name in (*_OF_THE_KEY, "sduoid")]
    last = [query.get(name, "") for name in ("sip", "spr", "sv")]
    return "\n".join([*first, f"/queue/{account}/{queue}", *key, *last])


def iso(at: float) -> str:
    """Unix seconds as the service writes them, without fractions."""
    return datetime.fromtimestamp(int(at), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _value(secret: bytes, fields: tuple[str, ...]) -> bytes:
    return hmac.digest(secret, "\n".join(fields).encode(), "sha256")
