"""Reads the settings of the blob service that keep blobs after this package has deleted them.

Lifecycle rules are not read: only Azure's resource manager returns them, and it needs other
credentials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from spark_azqueue.errors import AccessDenied

from ..wire.calls import Call
from .calls import KeptDays, LookAtBlob, LookAtContainer
from .container import Container

T = TypeVar("T")

_WITHIN_S = 10.0
_NEEDS = "an account key, or the letter 'r' of a SAS for blobs"
_IMMUTABLE = ("x-ms-has-immutability-policy", "x-ms-has-legal-hold")


@dataclass(frozen=True)
class Protection:
    """Settings that keep deleted blobs. A field is None if the credential may not read the setting.

    immutable: the container has an immutability policy or a legal hold. kept_days: days for which
    soft delete keeps a deleted blob, 0 if soft delete is off. versions: the account keeps versions.
    """

    immutable: bool | None
    kept_days: int | None
    versions: bool | None


def protection_of(container: Container, path: str) -> Protection:
    """Read the properties of the container, the account, and this blob. Raises ServiceError."""

    def unless_denied(call: Call[T]) -> T | None:
        try:
            return container.do(call, retry_s=_WITHIN_S, within_s=_WITHIN_S)
        except AccessDenied:
            return None

    of_container = unless_denied(LookAtContainer(container.ref))
    kept_days = unless_denied(KeptDays(container.ref))
    of_blob = unless_denied(LookAtBlob(container.ref, path, _NEEDS))
    return Protection(
        None if of_container is None else "true" in map(of_container.get, _IMMUTABLE),
        kept_days,
        None if of_blob is None else bool(of_blob.get("x-ms-version-id")),
    )
