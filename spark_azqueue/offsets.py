"""The offset: exactly the leases of one micro-batch, in a form fit for Spark's checkpoint.

Spark compares offsets as text, keeps the last hundred, and copies them into progress events,
logs and error messages. So the text is canonical and small, and holds neither bodies nor anything
that gives access by itself (a pop receipt is worth nothing without a credential). Two batches never
share a text, because no two dequeues give the same receipt. Ring: core (standard library only).

    {"version": 1, "batch": 7, "account": "myaccount", "oldest": "2026-11-21T10:00:00Z",
     "queues": {"orders": {"messages": 32, "leases": "<packed>"}}}

Where bodies are in blobs, a queue also has `"blobs": "<packed>"`: their names, in the order of the
leases.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import CheckpointMismatch
from .leases import Lease

VERSION = 1

OffsetJson = dict[str, Any]

_NO_BLOB = "0" * 32


@dataclass(frozen=True, slots=True)
class QueueOffset:
    """One micro-batch: its number (0 = nothing read yet), its account and its leases.

    `oldest`: insertion time of its oldest message, seconds since 1970 UTC, None where it has none.
    `blobs`: lease -> name of the blob that holds its message's body, where one does.
    """

    account: str
    batch: int = 0
    leases: tuple[Lease, ...] = ()
    oldest: int | None = None
    blobs: Mapping[Lease, str] = field(default_factory=dict)

    def to_json(self) -> OffsetJson:
        """The value handed to Spark: plain dicts, always in the same key order."""
        by_queue: dict[str, list[Lease]] = {}
        for lease in self.leases:
            by_queue.setdefault(lease.queue, []).append(lease)
        offset: OffsetJson = {"version": VERSION, "batch": self.batch, "account": self.account}
        if self.oldest is not None:
            moment = datetime.datetime.fromtimestamp(self.oldest, datetime.timezone.utc)
            offset["oldest"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        offset["queues"] = {
            queue: {"messages": len(leases), "leases": _pack(leases), **self._blobs_of(leases)}
            for queue, leases in sorted(by_queue.items())
        }
        return offset

    def _blobs_of(self, leases: list[Lease]) -> dict[str, str]:
        if not self.blobs:
            return {}
        names = [self.blobs.get(lease, _NO_BLOB) for lease in leases]
        if set(names) == {_NO_BLOB}:
            return {}
        return {"blobs": base64.b64encode(_column(names, _hex_bytes)).decode("ascii")}

    @classmethod
    def from_json(cls, offset: Mapping[str, Any], *, account: str) -> QueueOffset:
        """Read an offset back. `account` is the one this query reads.

        Raises CheckpointMismatch for a future version, another account, or damage.
        """
        batch = batch_of(offset, account=account)
        with _refusing_damage():
            oldest = _seconds(offset["oldest"]) if "oldest" in offset else None
            leases: list[Lease] = []
            blobs: dict[Lease, str] = {}
            for queue, packed in dict(offset["queues"]).items():
                some = _unpack(queue, packed)
                leases += some
                blobs |= _unpack_blobs(some, packed)
        return cls(account, batch, tuple(leases), oldest, blobs)


def batch_of(offset: Mapping[str, Any], *, account: str) -> int:
    """The number of the batch, its leases left packed. Raises CheckpointMismatch."""
    version = offset.get("version") if isinstance(offset, Mapping) else None
    if isinstance(version, int) and version > VERSION:
        raise CheckpointMismatch(
            f"the checkpoint was written by a newer spark-azqueue (offset version {version};"
            f" this one reads up to {VERSION}): upgrade spark-azqueue, or start with a new"
            " checkpointLocation (messages not yet deleted will come again)"
        )
    with _refusing_damage():
        found = str(offset["account"])
        batch = int(offset["batch"])
        if version != VERSION or batch < 0:
            raise ValueError(f"version {version!r}, batch {batch}")
    if found != account:
        raise CheckpointMismatch(
            f"the checkpoint belongs to the storage account '{found}', but the options name"
            f" '{account}': use that account, or another checkpointLocation"
        )
    return batch


@contextlib.contextmanager
def _refusing_damage() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise CheckpointMismatch(
            "the checkpoint holds an offset that spark-azqueue cannot read"
            f" ({type(error).__name__}: {error}): restore the checkpoint, or start with a new"
            " checkpointLocation (messages not yet deleted will come again)"
        ) from error


def text_of(offset: Mapping[str, Any]) -> str:
    """The identity of an offset: equal for equal offsets, whatever their key order."""
    return json.dumps(offset, sort_keys=True, separators=(",", ":"))


# Packing. Ids and receipts stand in two columns; a column whose values all shrink to the same
# number of bytes (GUIDs to 16, receipts to what their base64 encodes) is stored as those bytes,
# any other as a JSON list. Receipts of one time look alike, so deflate does well on them.


def _pack(leases: Iterable[Lease]) -> str:
    rows = list(leases)
    ids = _column([lease.message_id for lease in rows], _guid_bytes)
    receipts = _column([lease.pop_receipt for lease in rows], _base64_bytes)
    payload = len(ids).to_bytes(4, "big") + ids + receipts
    return base64.b64encode(zlib.compress(payload, 6)).decode("ascii")


def _unpack(queue: str, packed: Mapping[str, Any]) -> list[Lease]:
    payload = zlib.decompress(base64.b64decode(packed["leases"], validate=True))
    split = 4 + int.from_bytes(payload[:4], "big")
    ids = _values(payload[4:split], _guid)
    receipts = _values(payload[split:], lambda raw: base64.b64encode(raw).decode("ascii"))
    if not len(ids) == len(receipts) == packed["messages"]:
        raise ValueError(f"{len(ids)} ids, {len(receipts)} receipts for {packed['messages']}")
    return [Lease(queue, *pair) for pair in zip(ids, receipts, strict=True)]


def _unpack_blobs(leases: list[Lease], packed: Mapping[str, Any]) -> dict[Lease, str]:
    if "blobs" not in packed:
        return {}
    names = _values(base64.b64decode(packed["blobs"], validate=True), bytes.hex)
    pairs = zip(leases, names, strict=True)
    return {lease: name for lease, name in pairs if name != _NO_BLOB}


def _column(values: list[str], shrink: Callable[[str], bytes | None]) -> bytes:
    small = [shrink(value) for value in values]
    width = len(small[0] or b"") if small else 0
    if 0 < width < 256 and all(item is not None and len(item) == width for item in small):
        return bytes([width]) + b"".join(item for item in small if item is not None)
    return b"\0" + json.dumps(values).encode()


def _values(column: bytes, grow: Callable[[bytes], str]) -> list[str]:
    width, body = column[0], column[1:]
    if width == 0:
        return [str(value) for value in json.loads(body)]
    if len(body) % width:
        raise ValueError(f"{len(body)} bytes do not divide into values of {width}")
    return [grow(body[at : at + width]) for at in range(0, len(body), width)]


_GUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _hex_bytes(value: str) -> bytes:
    return bytes.fromhex(value)


def _guid_bytes(value: str) -> bytes | None:
    return bytes.fromhex(value.replace("-", "")) if _GUID.fullmatch(value) else None


def _guid(raw: bytes) -> str:
    if len(raw) != 16:
        raise ValueError(f"an id of {len(raw)} bytes")
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _base64_bytes(value: str) -> bytes | None:
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode("ascii") == value else None


def _seconds(moment: str) -> int:
    parsed = datetime.datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ")
    return int(parsed.replace(tzinfo=datetime.timezone.utc).timestamp())
