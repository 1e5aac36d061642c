"""A finding of the doctor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of one check. `good` None: for information. `advice`: what to do about it."""

    good: bool | None
    text: str
    advice: str = ""
