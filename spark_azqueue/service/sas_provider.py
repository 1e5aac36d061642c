"""Gets a SAS from a user's callable, and gets a new SAS before the SAS expires.

A SAS that is signed with a user delegation key expires after at most seven days. A query that runs
longer needs a new SAS.
"""

from __future__ import annotations

import datetime
import re
import threading
import time
from collections.abc import Callable
from urllib.parse import parse_qsl

from spark_azqueue.errors import AccessDenied, InvalidOption
from spark_azqueue.errors.conditions import Condition

from .account import Account, SasProvider
from .providers import provided_sas
from .redaction import shown

_EARLY_S = 300.0
_AGAIN_S = 30.0
_WITHOUT_AN_END_S = 3600.0
"""Seconds after which a SAS without an expiry is renewed. Its expiry is in a stored access policy.
"""
_SAS = re.compile(r"[!-~]+")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d)(?::(\d\d)(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?")


class RenewedSas:
    """The SAS of one provider. Thread-safe. now: function that returns seconds since 1970."""

    def __init__(self, provider: SasProvider, now: Callable[[], float] = time.time) -> None:
        self._provider = provider
        self._now = now
        self._lock = threading.Lock()
        self._sas = ""
        self._ends_at = 0.0
        self._best_before = 0.0

    def current(self) -> str:
        """Return the SAS to use, without "?".

        The provider is called five minutes before the SAS expires. If the SAS is valid for less
        than ten minutes, the provider is called after half of this time. If the call fails, the
        current SAS is used until it expires, and the provider is called again every 30 seconds.
        Raises AccessDenied, InvalidOption.
        """
        with self._lock:
            now = self._now()
            if now >= self._best_before:
                self._ask(now)
            return self._sas

    def renew(self) -> None:
        """Forget the SAS, because the service has refused it. The next call of `current` calls the
        provider."""
        with self._lock:
            self._best_before = self._ends_at = 0.0

    def _ask(self, now: float) -> None:
        try:
            sas, ends_at = self._asked(now)
        except Exception:
            if now >= self._ends_at:
                raise
            self._best_before = min(now + _AGAIN_S, self._ends_at)
            return
        life_s = ends_at - now
        self._sas, self._ends_at = sas, ends_at
        self._best_before = now + max(life_s - _EARLY_S, life_s / 2)

    def _asked(self, now: float) -> tuple[str, float]:
        path = self._provider.path
        try:
            sas = provided_sas(path, self._provider.argument).lstrip("?").strip()
        except (AccessDenied, InvalidOption):
            raise
        except Exception as error:  # noqa: BLE001 (of the user's, and it may hold a secret)
            raise AccessDenied(
                f"no SAS from sasProvider '{path}': {type(error).__name__}: {shown(error)}",
                condition=Condition.NO_TOKEN,
            ) from None
        if "sig=" not in sas or not _SAS.fullmatch(sas):
            raise AccessDenied(
                f"sasProvider '{path}' gave a text that is no SAS (no 'sig=' in it, or blanks;"
                " value not shown). Correct the provider",
                condition=Condition.NO_TOKEN,
            )
        ends_at = end_of(sas)
        if ends_at is None:
            return sas, now + _WITHOUT_AN_END_S
        if ends_at <= now:
            raise AccessDenied(
                f"sasProvider '{path}' gave a SAS that has ended already. Correct the provider, or"
                " this machine's clock",
                condition=Condition.NO_TOKEN,
            )
        return sas, ends_at


def end_of(sas: str) -> float | None:
    """Return the expiry of the SAS or of its user delegation key, whichever is earlier, in seconds
    since 1970.

    Returns None if the expiry is unknown.
    """
    fields = dict(parse_qsl(sas))
    ends = [_seconds(fields[name]) for name in ("se", "ske") if name in fields]
    return min((end for end in ends if end is not None), default=None)


def is_bound_to_a_user(sas: str) -> bool:
    """Return True if the SAS works only together with a token of one user (`sduoid`)."""
    return "sduoid" in dict(parse_qsl(sas))


_sources: dict[SasProvider, RenewedSas] = {}
_lock = threading.Lock()


def renewed_sas(account: Account) -> RenewedSas:
    """Return the object with the SAS of this account's provider. All clients of a process share
    this object."""
    assert account.sas_provider
    with _lock:
        return _sources.setdefault(account.sas_provider, RenewedSas(account.sas_provider))


def _seconds(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    if not found:
        return None
    day, minute, second, zone = found.groups()
    offset = "+00:00" if zone in (None, "Z") else zone
    try:
        stamp = f"{day}T{minute or '00:00'}:{second or '00'}{offset}"
        return datetime.datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return None
