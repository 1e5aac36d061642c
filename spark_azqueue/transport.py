"""HTTP to one storage account: pooled connections, authentication, errors translated.

Makes exactly one attempt per call; who calls decides about retries (`retry.py`). Never shared by
two processes: whoever needs it builds it there. Ring: edge.
"""

from __future__ import annotations

import logging
import os
import re
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import urllib3

from .account import Account
from .credentials import authority_for
from .errors import service_error

API_VERSION = "2021-12-02"
"""Old enough for every Azurite in use, new enough for endless TTLs and 64 KiB messages."""

_CONNECT_TIMEOUT_S = 10.0
_READ_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Response:
    """A successful answer. `sent_at`: monotonic time at which the request left."""

    headers: Mapping[str, str]
    body: bytes
    sent_at: float


class Transport:
    """Requests to the queues of one account, from any number of threads of one process."""

    def __init__(self, account: Account, connections: int) -> None:
        self._account = account
        self._connections = _connections(account.url, connections)
        self._authority = authority_for(account)

    def request(
        self,
        method: str,
        queue: str,
        path: str = "",
        query: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
        *,
        doing: str,
        needs: str,
        by_receipt: bool = False,
    ) -> Response:
        """One attempt. `doing` and `needs` word the error ("dequeue", "the SAS letter 'p'…").

        Raises ServiceError for every answer but 2xx, and where none comes.
        """
        what = f"{doing} queue '{queue}' of account '{self._account.name}'"
        url = f"{self._account.url}/{queue}{path}?{urlencode(query or {}, quote_via=quote)}"
        answer, sent_at = self._send(method, queue, url, body, what)
        if _not_believed(answer) and self._authority.refresh():
            answer, sent_at = self._send(method, queue, url, body, what)
        if 200 <= answer.status < 300:
            return Response(answer.headers, answer.data, sent_at)
        raise service_error(
            what,
            status=answer.status,
            code=_code(answer),
            needs=needs,
            by_receipt=by_receipt,
            retry_after=_seconds(answer.headers.get("Retry-After")),
            date=answer.headers.get("Date"),
        )

    def _send(
        self, method: str, queue: str, url: str, body: bytes | None, what: str
    ) -> tuple[urllib3.BaseHTTPResponse, float]:
        headers = {"x-ms-version": API_VERSION, "x-ms-date": _http_date(int(time.time()))}
        if body is not None:
            headers["Content-Type"] = "application/xml"
        signed = self._authority.sign(queue, url, headers)
        sent_at = time.monotonic()
        try:
            answer = self._connections.urlopen(
                method,
                signed,
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=_CONNECT_TIMEOUT_S, read=_READ_TIMEOUT_S),
            )
        except urllib3.exceptions.HTTPError as error:
            detail = f"{type(error).__name__}: {hide_signatures(str(error))}"
            raise service_error(what, status=None, detail=detail) from None
        return answer, sent_at

    def close(self) -> None:
        """Close the connections. What comes later opens new ones."""
        self._connections.clear()


def _connections(url: str, at_most: int) -> urllib3.PoolManager:
    """Kept-alive connections; proxies and certificates from the environment, as the SDK does."""
    parts = urlsplit(url)
    settings: dict[str, Any] = {"maxsize": at_most, "block": False}
    if parts.scheme == "https":
        authorities = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
        settings |= {"cert_reqs": "CERT_REQUIRED", "ca_certs": authorities}
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or urllib.request.proxy_bypass(parts.hostname or ""):
        return urllib3.PoolManager(**settings)
    login = urlsplit(proxy)
    if login.username:
        user = f"{unquote(login.username)}:{unquote(login.password or '')}"
        settings["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=user)
    return urllib3.ProxyManager(proxy, **settings)


def _not_believed(answer: urllib3.BaseHTTPResponse) -> bool:
    """The service did not accept the credential itself (rather than what it may do)."""
    return answer.status == 401 or (
        answer.status == 403 and _code(answer) == "AuthenticationFailed"
    )


def _code(answer: urllib3.BaseHTTPResponse) -> str:
    if code := answer.headers.get("x-ms-error-code", ""):
        return code
    found = _CODE.search(answer.data)
    return found[1].decode() if found else ""


_SECRET = re.compile(r"(sig=)[^&\s'\"]+", re.IGNORECASE)
_CODE = re.compile(rb"<Code>([A-Za-z0-9]+)</Code>")


def hide_signatures(text: str) -> str:
    """Take the signature of a SAS out of a text meant for people."""
    return _SECRET.sub(r"\1…", text)


class _HideSignatures(logging.Filter):
    """urllib3 logs every URL at debug level (and odd answers' at any), and a SAS is part of it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "sig=" in message.lower():
            record.msg, record.args = hide_signatures(message), ()
        return True


for _name in ("urllib3.connectionpool", "urllib3.connection"):
    logging.getLogger(_name).addFilter(_HideSignatures())

_date_cache = (0, "")


def _http_date(now: int) -> str:
    global _date_cache
    second, text = _date_cache
    if second != now:
        text = formatdate(now, usegmt=True)
        _date_cache = (now, text)
    return text


def _seconds(header: str | None) -> float | None:
    return float(header) if header and header.isdigit() else None
