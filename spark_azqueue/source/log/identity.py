"""The log's identity object: written first, and never changed."""

from __future__ import annotations

import re
import uuid
from typing import Any, NamedTuple

from spark_azqueue.errors import LogConflict, LogDamaged

from . import names
from .codec import sealed, unsealed

IDENTITY_AT_MOST = 4_096
"""Bytes of the object."""

_UUID = re.compile(r"[0-9a-f]{32}")


class Identity(NamedTuple):
    """Of a log: its own id, and the storage account of its queues."""

    uuid: str
    account: str

    @classmethod
    def new(cls, account: str) -> Identity:
        """For a log that begins now."""
        return cls(uuid.uuid4().hex, account)

    @classmethod
    def read(cls, data: bytes | None, where: str) -> Identity:
        """Read the object. where: the folder, for the error. Raises LogDamaged."""
        try:
            found: Any = unsealed(data or b"")
            read = cls(found["log"], found["account"])
            if (
                found["version"] == 1
                and _UUID.fullmatch(read.uuid)
                and isinstance(read.account, str)
            ):
                return read
        except (ValueError, TypeError, KeyError):
            pass
        raise unreadable(where)

    def to_bytes(self) -> bytes:
        """The object to store."""
        return sealed({"version": 1, "log": self.uuid, "account": self.account})

    def check(self, account: str, where: str) -> None:
        """Raise LogConflict if the options name another account."""
        if self.account != account:
            raise LogConflict(
                f"the write-ahead log {where} belongs to the account '{self.account}', but the"
                f" options name '{account}': name another folder"
            )


def unreadable(where: str) -> LogDamaged:
    """The error for an invalid identity object. where: the folder."""
    return LogDamaged(
        f"'{names.IDENTITY}' in the write-ahead log {where} is not as spark-azqueue wrote it, or a"
        " newer one did: restore it, upgrade, or name another folder"
    )
