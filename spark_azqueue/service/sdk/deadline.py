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


def in_time(seconds: float, work: Callable[..., T], *arguments: object) -> T:
    """Run work(*arguments); its requests together take no longer than `seconds`."""
    token = _ends_at.set(time.monotonic() + seconds)
    try:
        return work(*arguments)
    finally:
        _ends_at.reset(token)


class NoAnswer(ServiceResponseError):  # noqa: N818
    """A request was broken off. untrusted: because the server's certificate is not trusted.

    excess: the answer had more bytes than requested, and the rest was not read.
    """

    def __init__(
        self, host: str, reason: str, *, untrusted: bool = False, excess: bool = False
    ) -> None:
        super().__init__(f"{reason}, asking {host}")
        self.untrusted = untrusted
        self.excess = excess
