"""Checks, when a query starts, whether the account can be reached. A check takes at most some
seconds.

After the start, an unreachable account counts as an outage, and requests are retried for much
longer.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar

import pycurl

from spark_azqueue.errors import Outcome, ServiceError, ServiceUnavailable

from .. import fields
from ..account import Account
from ..answers import CONTRIBUTOR
from ..incoming import Answer
from ..messages import Lease, QueueRef
from ..network import new_handle, proxy_for
from ..wire.calls import Call, Request
from .calls import Update


@dataclass(frozen=True, slots=True)
class ProbeUpdate(Call[datetime]):
    """Check the permission to update: try to update a message that cannot exist.

    The service answers 404 or 400 if the credential may update, and 403 if not. Returns the
    service's time.
    """

    queue: QueueRef
    kind: ClassVar[str] = "update"
    doing: ClassVar[str] = "read from"
    needs: ClassVar[str] = CONTRIBUTOR
    by_receipt: ClassVar[bool] = True

    def request(self, now: float) -> Request:
        return Update(unknown_lease(self.queue), 0).request(now)

    def result(self, answer: Answer) -> datetime:
        return moment_of(answer.headers.get("date"))

    def refused(self, error: ServiceError) -> datetime:
        return moment_of(error.date)


def unknown_lease(queue: QueueRef) -> Lease:
    """Return the lease of a message that cannot exist, for checks of permissions."""
    return Lease(queue, "00000000-0000-0000-0000-000000000000", "AgAAAAMAAAAAAAAAAAAAAAAAAAA=")


def moment_of(http_date: str | None) -> datetime:
    """Return the time in this header of an answer. Without a readable header, returns this
    machine's time.
    """
    at = fields.moment(http_date or "")
    now = datetime.now(timezone.utc)
    return now if at is None else datetime.fromtimestamp(at, timezone.utc)


REACHED_WITHIN_S = 3.0
_PAUSE_S = 0.5

_UNRESOLVED = (pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY)
_UNCONNECTED = (pycurl.E_COULDNT_CONNECT, pycurl.E_OPERATION_TIMEDOUT)


def check_reachable(account: Account, within_s: float = REACHED_WITHIN_S) -> None:
    """Connect to the account's queue service without sending a request. Retries for up to
    `within_s` seconds.

    Raises ServiceUnavailable if the host name does not resolve or no connection can be made. Raises
    ServiceError if the proxy's address is malformed. Other problems are not checked, because for
    them the first request raises a more precise error.
    """
    ends_at = time.monotonic() + within_s
    while (cause := _connected(account.url, ends_at - time.monotonic())) is not None:
        if time.monotonic() + _PAUSE_S >= ends_at:
            raise unreachable(account, cause)
        time.sleep(_PAUSE_S)


def _connected(url: str, within_s: float) -> str | None:
    """Try to connect once. Return None on success, or the cause of the failure."""
    curl = new_handle(url)
    try:
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.CONNECT_ONLY, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, max(1, int(within_s * 1000)))
        curl.perform()
    except pycurl.error as error:
        number = error.args[0]
        if number in _UNRESOLVED:
            return _NO_NAME
        if number in _UNCONNECTED and not curl.getinfo(pycurl.CONNECT_TIME):
            system = curl.getinfo(pycurl.OS_ERRNO)
            return os.strerror(system) if system else "no connection within the time"
    finally:
        curl.close()
    return None


_NO_NAME = "its name does not resolve"


def unreachable(account: Account, cause: str) -> ServiceUnavailable:
    """Make the error for an account to which no connection can be made. cause: the cause as
    text."""
    proxy = proxy_for(account.url).address
    through = f" through the proxy {proxy}" if proxy else ""
    check = (
        "the account's name in the options, DNS on this machine, and the private endpoint, if the"
        " account has one (an account of kind premium has no queues)"
        if cause == _NO_NAME
        else "host and port in the options, the account's firewall, and the proxy (https_proxy)"
    )
    return ServiceUnavailable(
        f"could not reach the account '{account.name}' at {account.host_and_port}{through}:"
        f" {cause}. Check {check}. Nothing was sent",
        outcome=Outcome.RETRY,
        sent=False,
    )
