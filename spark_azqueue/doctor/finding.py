"""One thing that the doctor found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `good` None: worth knowing, neither good nor bad."""

    good: bool | None
    text: str
    advice: str = ""
