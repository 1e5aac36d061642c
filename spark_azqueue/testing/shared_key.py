"""Verifies requests that are signed with the account's key: SharedKey and SharedKeyLite.

Written only from the REST reference, "Authorize with Shared Key", and not from the code that signs,
because this module tests that code. As with the storage emulators, the path contains the account.
So the canonicalized resource contains the account twice.
"""

from __future__ import annotations

import base64
import functools
import hmac
import re
from datetime import timezone
from email.utils import parsedate_to_datetime

from . import errors
from .wire import HttpRequest, parameters

MAX_AGE_S = 15 * 60
"""Maximum difference between a request's date and its arrival, in seconds, in either direction."""

_STANDARD = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type"),
    *("date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)
_LITE = ("content-md5", "content-type", "date")
_EMPTY_LENGTH_SINCE = "2015-02-21"
_EMPTY_HEADERS_SINCE = "2016-05-31"
_DATE = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
_QUOTED_OR_SPACE = re.compile(r'("[^"]*")|[ \t\r\n]+')


def verify(request: HttpRequest, account: str, key: bytes, now: float) -> None:
    """Raise Refusal if a request's date is not current, or its signature is wrong."""
    scheme, _, credential = request.fields["authorization"].partition(" ")
    name, colon, signature = credential.strip().partition(":")
    if not (name and colon and signature):
        raise errors.malformed()
    if len(request.fields) != len(request.headers):
        raise errors.duplicated_header()
    _check_date(request.fields, now)
    if name != account:
        raise errors.not_authenticated(f"The account {name!r} is not the one addressed.")
    lite = scheme == "SharedKeyLite"
    text = string_to_sign(request, account, lite=lite)
    if sign(text, key) == signature:
        return
    # The reference says that several white-space characters in a row are replaced by one space.
    # Azure's own clients do not replace them.
    if sign(string_to_sign(request, account, lite=lite, as_sent=True), key) != signature:
        raise errors.not_authenticated(
            "The MAC signature found in the HTTP request is not the same as any computed "
            f"signature. Server used following string to sign: {text!r}."
        )


def sign(text: str, key: bytes) -> str:
    """Return the signature: base64 of the HMAC-SHA256 of the text in UTF-8."""
    return base64.b64encode(hmac.digest(key, text.encode(), "sha256")).decode("ascii")


def string_to_sign(
    request: HttpRequest, account: str, *, lite: bool = False, as_sent: bool = False
) -> str:
    """Return the string to sign of a request. as_sent: True to keep white space unchanged."""
    fields = request.fields
    version = fields.get("x-ms-version", "")
    standard = {name: fields.get(name, "") for name in (_LITE if lite else _STANDARD)}
    if "x-ms-date" in fields:
        standard["date"] = ""
    if standard.get("content-length") == "0" and version >= _EMPTY_LENGTH_SINCE:
        standard["content-length"] = ""
    own = sorted((name for name in fields if name.startswith("x-ms-")), key=_order)
    headers = [
        f"{name}:{fields[name] if as_sent else _one_space(fields[name])}"
        for name in own
        if fields[name] or version >= _EMPTY_HEADERS_SINCE
    ]
    resource = f"/{account}{request.path}" + (_comp(request) if lite else _parameters(request))
    return "\n".join([request.method, *standard.values(), *headers, resource])


@functools.lru_cache(maxsize=1024)
def _order(name: str) -> tuple[str, str]:
    """Return the key that sorts headers in dictionary order: hyphens last, `_` before digits."""
    return name.replace("-", "").replace("_", " "), name


def _one_space(value: str) -> str:
    if "  " not in value and "\t" not in value:
        return value
    return _QUOTED_OR_SPACE.sub(lambda found: found[1] or " ", value)


def _parameters(request: HttpRequest) -> str:
    if not request.query:
        return ""
    values: dict[str, list[str]] = {}
    for name, value in parameters(request.query):
        values.setdefault(name.lower(), []).append(value)
    return "".join(f"\n{name}:{','.join(sorted(values[name]))}" for name in sorted(values))


def _comp(request: HttpRequest) -> str:
    query = dict(parameters(request.query))
    return f"?comp={query['comp']}" if "comp" in query else ""


def _check_date(fields: dict[str, str], now: float) -> None:
    text = fields.get("x-ms-date") or fields.get("date")
    if not text:
        raise errors.not_authenticated("Request date header not specified.")
    at = _seconds(text)
    if at is None:
        raise errors.not_authenticated(f"The Date header in the request is incorrect: {text!r}.")
    if abs(now - at) > MAX_AGE_S:
        raise errors.not_authenticated(
            f"Request date header too {'old' if at < now else 'new'}: {text!r}."
        )


@functools.lru_cache(maxsize=1024)
def _seconds(date: str) -> float | None:
    """Parse an RFC 1123 date to unix seconds."""
    if not _DATE.fullmatch(date):
        return None
    try:
        return parsedate_to_datetime(date).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
