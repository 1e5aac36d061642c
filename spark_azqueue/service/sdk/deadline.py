"""How long one call of the SDK may take, and the error for a request that was broken off.

The time covers all requests of the call, retries included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from azure.core.exceptions import ServiceResponseError

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
