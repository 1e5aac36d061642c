"""A finding of the doctor."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from spark_azqueue.errors import AzQueueError
from spark_azqueue.explanation import explain


@dataclass(frozen=True)
class Finding:
    """The result of one check. `good` None: for information. `advice`: what to do about it.

    Raises ValueError for a bad result without advice.
    """

    good: bool | None
    text: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.good is False and not self.advice:
            raise ValueError(f"no advice: {self.text}")


def advice_on(error: AzQueueError) -> str:
    """What happened, and what to do, on a line each."""
    return f"{error}\nWhat to do: {explain(error).remedy}"


def moment_of(seconds: float) -> str:
    """A time in seconds since 1970, for texts."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
