"""How long one call of the SDK may take, and the error of a request that was broken off.

The time is that of all its requests and their repeats together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from azure.core.exceptions import ServiceResponseError

T = TypeVar("T")


CALL_S = 60.0
"""One call of the SDK takes no longer: connecting, sending, reading, and all that is repeated."""


_ends_at: ContextVar[float | None] = ContextVar("_ends_at", default=None)


def seconds_left() -> float:
    """How long a request of this thread may take now."""
    ends_at = _ends_at.get()
    return CALL_S if ends_at is None else ends_at - time.monotonic()


def in_time(seconds: float, work: Callable[..., T], *arguments: object) -> T:
    """work(*arguments), whose requests together take no longer than `seconds`."""
    token = _ends_at.set(time.monotonic() + seconds)
    try:
        return work(*arguments)
    finally:
        _ends_at.reset(token)


class NoAnswer(ServiceResponseError):  # noqa: N818
    """A request was broken off. untrusted: because the server's certificate is not trusted.

    excess: the answer had more bytes than were asked for, and the rest of it was not read.
    """

    def __init__(
        self, host: str, reason: str, *, untrusted: bool = False, excess: bool = False
    ) -> None:
        super().__init__(f"{reason}, asking {host}")
        self.untrusted = untrusted
        self.excess = excess
