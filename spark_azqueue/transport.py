"""HTTP to one storage account: kept-alive connections, authentication, errors translated.

Over libcurl, which takes a tenth of the CPU that the SDK's own road takes (docs/decisions/0005).
Makes exactly one attempt per call; who calls decides about retries (`retry.py`). Never shared by
two processes: whoever needs it builds it there. Ring: edge.
"""

from __future__ import annotations

import os
import re
import time
import urllib.request
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import quote, urlencode, urlsplit

import certifi
import pycurl

from .account import Account
from .credentials import authority_for
from .errors import Outcome, ServiceError, service_error
from .redaction import hide_signatures
from .version import __version__

API_VERSION = "2021-12-02"
"""Old enough for every Azurite in use, new enough for endless TTLs and 64 KiB messages."""

_CONNECT_TIMEOUT_MS = 10_000
_TIMEOUT_MS = 40_000


@dataclass(frozen=True, slots=True)
class Response:
    """An answer. Header names are in lower case; `sent_at`: monotonic time the request left."""

    status: int
    header_lines: list[bytes]
    body: bytes
    sent_at: float

    @property
    def headers(self) -> Mapping[str, str]:
        """Parsed when asked for: most answers to a delete are not."""
        fields = (line.decode("latin-1").partition(":") for line in self.header_lines)
        return {name.strip().lower(): value.strip() for name, colon, value in fields if colon}

    @property
    def code(self) -> str:
        """The service's own word for what went wrong."""
        if code := self.headers.get("x-ms-error-code", ""):
            return code
        found = _CODE.search(self.body)
        return found[1].decode() if found else ""


class Transport:
    """Requests to the queues of one account, from any number of threads of one process.

    Keeps as many connections as requests were ever under way at once.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._authority = authority_for(account)
        self._idle: deque[_Connection] = deque()

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
        url = f"{self._account.url}/{queue}{path}?{urlencode(query or {}, quote_via=quote)}"
        answer = self._send(method, queue, url, body, doing)
        if 200 <= answer.status < 300:
            return answer
        if _not_believed(answer) and self._authority.refresh():
            answer = self._send(method, queue, url, body, doing)
            if 200 <= answer.status < 300:
                return answer
        raise service_error(
            self._what(doing, queue),
            status=answer.status,
            code=answer.code,
            needs=needs,
            by_receipt=by_receipt,
            retry_after=_seconds(answer.headers.get("retry-after")),
            date=answer.headers.get("date"),
        )

    def _send(self, method: str, queue: str, url: str, body: bytes | None, doing: str) -> Response:
        headers = {"x-ms-version": API_VERSION, "x-ms-date": _http_date(int(time.time()))}
        if method in ("POST", "PUT"):
            headers["Content-Type"] = "application/xml"
        signed = self._authority.sign(queue, url, headers)
        try:
            connection = self._idle.pop()  # the one used last: the others may rest, and close
        except IndexError:
            connection = _Connection(self._account.url)
        try:
            return connection.perform(method, signed, headers, body)
        except pycurl.error as error:
            number, text = error.args
            detail = hide_signatures(str(text))
            what = self._what(doing, queue)
            if number in _CANNOT_BE_TRUSTED:
                raise ServiceError(
                    f"could not {what}: the service's certificate is not trusted ({detail}). Where"
                    " it comes from an authority of your own, name its file in the environment"
                    " variable REQUESTS_CA_BUNDLE",
                    outcome=Outcome.FATAL,
                ) from None
            raise service_error(what, status=None, detail=detail) from None
        finally:
            self._idle.append(connection)

    def _what(self, doing: str, queue: str) -> str:
        return f"{doing} queue '{queue}' of account '{self._account.name}'"

    def close(self) -> None:
        """Close the connections. What comes later opens new ones."""
        while self._idle:
            self._idle.pop().close()


class _Connection:
    """A libcurl handle, which keeps its connection open and notices when that has gone stale."""

    def __init__(self, url: str) -> None:
        self._curl = curl = pycurl.Curl()
        self._header_lines: list[bytes] = []
        self._body: list[bytes] = []
        self._method = ""
        self._headers: Mapping[str, str] = {}
        curl.setopt(pycurl.NOSIGNAL, 1)  # signals are no business of a thread's
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.USERAGENT, f"spark-azqueue/{__version__}")
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, _CONNECT_TIMEOUT_MS)
        curl.setopt(pycurl.TIMEOUT_MS, _TIMEOUT_MS)
        curl.setopt(pycurl.TCP_KEEPALIVE, 1)
        curl.setopt(pycurl.HEADERFUNCTION, self._header_lines.append)
        curl.setopt(pycurl.WRITEFUNCTION, self._body.append)
        curl.setopt(pycurl.PROXY, _proxy_for(url))
        curl.setopt(pycurl.CAINFO, trusted_authorities())
        curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)

    def perform(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        """Send one request and wait for its answer. Raises pycurl.error."""
        curl = self._curl
        if method != self._method:
            self._method = method
            curl.setopt(pycurl.HTTPGET, 1)
            if method in ("POST", "PUT"):
                curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.CUSTOMREQUEST, method)
        if method in ("POST", "PUT"):
            curl.setopt(pycurl.POSTFIELDS, body or b"")
        if headers != self._headers:
            self._headers = headers
            lines = [f"{name}: {value}" for name, value in headers.items()]
            curl.setopt(pycurl.HTTPHEADER, [*lines, "Expect:"])  # "Expect:" = no 100-continue
        self._header_lines.clear()
        self._body.clear()
        curl.setopt(pycurl.URL, url)
        sent_at = time.monotonic()
        curl.perform()
        return Response(
            curl.getinfo(pycurl.RESPONSE_CODE),
            self._header_lines.copy(),
            b"".join(self._body),
            sent_at,
        )

    def close(self) -> None:
        """Close the connection."""
        self._curl.close()


def trusted_authorities() -> str:
    """File of the authorities to trust: what the environment names, else what the SDK trusts."""
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    return next(filter(None, map(os.environ.get, names)), None) or certifi.where()


def _proxy_for(url: str) -> str:
    """The proxy that the environment names for this address, "" for none."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    return "" if not proxy or urllib.request.proxy_bypass(parts.hostname or "") else proxy


def _not_believed(answer: Response) -> bool:
    """The service did not accept the credential itself (rather than what it may do)."""
    return answer.status == 401 or (answer.status == 403 and answer.code == "AuthenticationFailed")


_CODE = re.compile(rb"<Code>([A-Za-z0-9]+)</Code>")
_CANNOT_BE_TRUSTED = (pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE)

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
