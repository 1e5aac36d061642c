"""How long one call of the SDK may take, and the error for a request that was broken off.

The time covers all requests of the call, retries included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from azure.core.exceptions import ServiceResponseError

from spark_azqueue.errors import Outcome, ServiceError, ServiceUnavailable

T = TypeVar("T")


CALL_S = 60.0
"""The longest that one call of the SDK takes, with connecting, sending, reading and retries."""


_ends_at: ContextVar[float | None] = ContextVar("_ends_at", default=None)


def seconds_left() -> float:
    """How long a request of this thread may take now."""
    ends_at = _ends_at.get()
    return CALL_S if ends_at is None else ends_at - time.monotonic()


_sent_twice: ContextVar[bool] = ContextVar("_sent_twice", default=False)


def note_sent_twice() -> None:
    """Note that a request of this thread may have been sent twice, though it had one answer."""
    _sent_twice.set(True)


def sent_twice() -> bool:
    """True if `note_sent_twice` was called in the work of `in_time` that this thread is doing."""
    return _sent_twice.get()


def in_time(seconds: float, work: Callable[..., T], *arguments: object) -> T:
    """Run work(*arguments); its requests together take no longer than `seconds`.

    Within the work of another `in_time`, no longer than that allows.
    """
    ends_at, outer = time.monotonic() + seconds, _ends_at.get()
    token = _ends_at.set(ends_at if outer is None else min(ends_at, outer))
    noted = _sent_twice.set(False)
    try:
        return work(*arguments)
    finally:
        _ends_at.reset(token)
        _sent_twice.reset(noted)


class BrokenOff(ServiceResponseError):  # noqa: N818
    """A request was broken off. untrusted: because the server's certificate is not trusted.

    excess: the answer had more bytes than requested, and the rest was not read. sent: False if no
    byte of the request was sent.
    """

    def __init__(
        self,
        host: str,
        reason: str,
        *,
        untrusted: bool = False,
        excess: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(f"{reason}, asking {host}")
        self.untrusted = untrusted
        self.excess = excess
        self.sent = sent


def all_pages(
    within_s: float,
    doing: str,
    page: Callable[[str | None], tuple[list[T], str | None]],
    most: int,
) -> list[T]:
    """Return what is on all pages of a list; of a longer one the first, with more than `most`.

    doing: for the error, as in "list the queues of account 'shop'". page: gives what is on one page
    and the marker of the next ("" or None after the last), within the deadline of `in_time`; its
    argument is that page's own marker, None for the first. Raises what `page` raises, and
    ServiceUnavailable if the pages have not ended within `within_s` seconds.
    """

    def collected() -> list[T]:
        found: list[T] = []
        marker: str | None = None
        pages = 0
        while (marker or not pages) and len(found) <= most:
            try:
                more, marker = page(marker)
            except ServiceError as error:
                if not pages or seconds_left() > 0 or error.outcome is not Outcome.RETRY:
                    raise
                raise ServiceUnavailable(
                    f"could not {doing}: {pages:,} pages with {len(found):,} names came in"
                    f" {within_s:g} s, and more were to follow. Try again; if that does not help,"
                    " look for a proxy that answers in place of the service",
                    outcome=Outcome.RETRY,
                ) from error
            found += more
            pages += 1
        return found

    return in_time(within_s, collected)
