"""The offset of one micro-batch: its leases, in the form that Spark's checkpoint stores.

Spark compares offsets as text, keeps the last hundred offsets, and copies offsets into progress
events, logs and error messages. So the text is small, and equal offsets have the same text. An
offset contains no bodies and no credentials. (A pop receipt is useless without a credential.) The
offsets of two batches never have the same text, because no two dequeues return the same receipt.

    {"version": 1, "batch": 7, "account": "myaccount", "oldest": "2026-11-21T10:00:00Z",
     "queues": {"orders": {"messages": 32, "leases": "<packed>"}}}

If bodies are in blobs, each queue also has `"blobs": "<packed>"`: the names of the blobs, in the
order of the leases. With deleteOnCommit=false, the offset has `"deleteOnCommit": false`, so that no
later run deletes the messages, even if the option has changed. If leases may be longer than a new
process would assume, the offset has the length of the longest lease (`"leasedFor": 1800`, in
seconds). While suspects are isolated, the offset has their histories (`"suspects": {…}`, see
`findings.py`).

If a batch may be the last batch of a run, its offset has a digest of each message's text (`"texts":
"<packed>"`, in the order of the leases) and the latest expiry of the messages (`"expires"`).
Unconfirmed deletes of messages of earlier batches are stored as pending deletes:

    "pending": {"orders": {"messages": 2, "deletes": "<packed>"}},
    "hiddenUntil": "2026-11-21T10:05:00Z"

See docs/decisions/0034.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_azqueue.journal.pending import PENDING_AT_MOST, PendingDelete
from spark_azqueue.service.messages import (
    MAX_VISIBILITY_S,
    MOST_IN_A_BATCH,
    Lease,
    QueueRef,
    is_queue_name,
)

from .findings import Findings
from .offset_columns import (
    NO_BLOB,
    DamagedOffset,
    pack_blobs,
    pack_leases,
    pack_pending,
    pack_texts,
    unpack_blobs,
    unpack_leases,
    unpack_pending,
    unpack_texts,
)
from .refusals import (
    offset_of_another_account,
    offset_of_executors,
    offset_of_newer_release,
    offset_of_reader,
    offset_with_log,
    unreadable_offset,
)

OFFSET_VERSION = 1
_PLAN_VERSION = 3
HISTORY_VERSION = NEWEST_VERSION = 4
"""Newest version of an offset. Version 2 is a position in a write-ahead log (see `log/state.py`).
Version 3 is a plan of leaseOn=executors (see `executors/plan.py`). Version 4 is the offset of a
stream that reads a log (see `replay/batches.py`)."""

OffsetJson = dict[str, Any]

_MOST_BATCHES = 2**63

_DELETE_ON_COMMIT = "deleteOnCommit"
_LEASED_FOR = "leasedFor"
_SUSPECTS = "suspects"
ISOLATION = "isolation"
"""Name of the field with a line of text about the isolation of poison messages. `run_until_done`
shows this line."""
STATUS_AT_MOST = 300
_EXPIRES = "expires"
_PENDING = "pending"
_HIDDEN_UNTIL = "hiddenUntil"


@dataclass(frozen=True, slots=True)
class QueueOffset:
    """One micro-batch: its number (0 = nothing read yet), its account and its leases.

    `oldest`: insertion time of the oldest message, in seconds since 1970; None if unknown. `blobs`:
    for each lease of a message whose body is in a blob, the name of the blob.
    `is_deleted_on_commit`: False with deleteOnCommit=false. `leased_s`: longest lease or renewal of
    the messages in seconds; 0 if a new process would assume a lease at least this long. `texts`:
    `fingerprint` of the message's text, by lease; may be empty. `expires`: latest expiry of a
    message, in seconds since 1970; None if unknown. `pending`: pending deletes of messages of
    earlier batches, whose rows were committed. `hidden_until`: time at which the last lease of a
    message with a pending delete ends, in seconds since 1970. `findings`: findings about suspects
    when the offset was made. `status`: a line of text about the isolation.
    """

    account: str
    batch: int = 0
    leases: tuple[Lease, ...] = ()
    oldest: int | None = None
    blobs: Mapping[Lease, str] = field(default_factory=dict)
    is_deleted_on_commit: bool = True
    leased_s: int = 0
    findings: Findings = field(default_factory=Findings)
    status: str = ""
    texts: Mapping[Lease, int] = field(default_factory=dict)
    expires: int | None = None
    pending: tuple[PendingDelete, ...] = ()
    hidden_until: int = 0

    def to_json(self) -> OffsetJson:
        """Return the offset for Spark, as dicts. Their keys always have the same order."""
        by_queue: dict[str, list[Lease]] = {}
        for lease in self.leases:
            by_queue.setdefault(lease.queue.name, []).append(lease)
        offset: OffsetJson = {
            "version": OFFSET_VERSION,
            "batch": self.batch,
            "account": self.account,
        }
        if self.oldest is not None:
            offset["oldest"] = moment(self.oldest)
        offset["queues"] = {
            queue: {
                "messages": len(leases),
                "leases": pack_leases(leases),
                **self._blobs_of(leases),
                **self._texts_of(leases),
            }
            for queue, leases in sorted(by_queue.items())
        }
        if not self.is_deleted_on_commit:
            offset[_DELETE_ON_COMMIT] = False
        if self.leased_s:
            offset[_LEASED_FOR] = self.leased_s
        if self.expires is not None:
            offset[_EXPIRES] = moment(self.expires)
        if self.pending:
            offset[_PENDING] = _packed(self.pending[-PENDING_AT_MOST:])
            offset[_HIDDEN_UNTIL] = moment(self.hidden_until)
        if self.findings:
            offset[_SUSPECTS] = self.findings.to_json()
        if self.status:
            offset[ISOLATION] = self.status[:STATUS_AT_MOST]
        return offset

    def _blobs_of(self, leases: list[Lease]) -> dict[str, str]:
        if not self.blobs:
            return {}
        names = [self.blobs.get(lease, NO_BLOB) for lease in leases]
        return {} if set(names) == {NO_BLOB} else {"blobs": pack_blobs(names)}

    def _texts_of(self, leases: list[Lease]) -> dict[str, str]:
        if not self.texts:
            return {}
        return {"texts": pack_texts(self.texts[lease] for lease in leases)}

    @classmethod
    def from_json(cls, offset: Mapping[str, Any], *, account: str) -> QueueOffset:
        """Parse an offset of a checkpoint. `account`: the account that this query reads.

        Queue names in the offset become parts of the URLs of deletes, so they are checked like
        options. Raises CheckpointMismatch for a newer version, another account, or a damaged
        offset.
        """
        batch = batch_of(offset, account=account)
        with refusing_damage():
            oldest = seconds(offset["oldest"], "oldest message") if "oldest" in offset else None
            expires = seconds(offset[_EXPIRES], "last expiry") if _EXPIRES in offset else None
            is_deleted = offset.get(_DELETE_ON_COMMIT, True)
            if not isinstance(is_deleted, bool):
                raise DamagedOffset(f"its '{_DELETE_ON_COMMIT}' is not valid")
            leased_s = offset.get(_LEASED_FOR, 0)
            if type(leased_s) is not int or not 0 <= leased_s <= MAX_VISIBILITY_S:
                raise DamagedOffset(f"its '{_LEASED_FOR}' is not valid")
            findings = Findings.from_json(offset.get(_SUSPECTS, {}), account)
            leases: list[Lease] = []
            blobs: dict[Lease, str] = {}
            texts: dict[Lease, int] = {}
            for queue, count, packed in _counted(offset.get("queues"), MOST_IN_A_BATCH):
                some = unpack_leases(QueueRef(account, queue), packed.get("leases"), count)
                leases += some
                if "blobs" in packed:
                    named = zip(some, unpack_blobs(packed["blobs"], count), strict=True)
                    blobs |= {lease: name for lease, name in named if name != NO_BLOB}
                if "texts" in packed:
                    texts |= zip(some, unpack_texts(packed["texts"], count), strict=True)
            pending: list[PendingDelete] = []
            for queue, count, packed in _counted(offset.get(_PENDING, {}), PENDING_AT_MOST):
                pending += unpack_pending(QueueRef(account, queue), packed.get("deletes"), count)
            hidden = seconds(offset.get(_HIDDEN_UNTIL), "last hidden message") if pending else 0
            status = status_in(offset)
        return cls(
            *(account, batch, tuple(leases), oldest, blobs, is_deleted, leased_s),
            texts=texts,
            expires=expires,
            pending=tuple(pending),
            hidden_until=hidden,
            findings=findings,
            status=status,
        )


def batch_of(offset: Mapping[str, Any], *, account: str) -> int:
    """Return the batch number of an offset, without unpacking leases. Raises CheckpointMismatch."""
    version, batch = version_and_batch(offset, account=account)
    check_lease_on_driver(version)
    if version != OFFSET_VERSION:
        raise offset_with_log()
    return batch


def check_lease_on_driver(version: int) -> None:
    """Raise CheckpointMismatch for an offset of leaseOn=executors."""
    if version == _PLAN_VERSION:
        raise offset_of_executors()


def version_and_batch(offset: Mapping[str, Any], *, account: str) -> tuple[int, int]:
    """Return the version and the batch number of an offset of any version. Raises
    CheckpointMismatch."""
    with refusing_damage():
        if not isinstance(offset, Mapping):
            raise DamagedOffset("it is not a JSON object")
        version, found, batch = (offset.get(key) for key in ("version", "account", "batch"))
        if type(version) is not int or version < OFFSET_VERSION:
            raise DamagedOffset("its version is missing or not valid")
    if version == HISTORY_VERSION:
        raise offset_of_reader()
    if version > NEWEST_VERSION:
        shown = version if version < 1_000_000 else "unknown"
        raise offset_of_newer_release(shown, NEWEST_VERSION)
    with refusing_damage():
        if not isinstance(found, str):
            raise DamagedOffset("its account is missing")
        if type(batch) is not int or not 0 <= batch < _MOST_BATCHES:
            raise DamagedOffset("its batch number is missing or not valid")
    if found != account:
        shown = found if _ACCOUNT.fullmatch(found) else "(not shown: no account has such a name)"
        raise offset_of_another_account(shown, account)
    return version, batch


def status_in(offset: Mapping[str, Any]) -> str:
    """Return the offset's line of text about isolation; "" without such a line. Raises
    DamagedOffset."""
    status = offset.get(ISOLATION, "")
    if not isinstance(status, str) or not _STATUS.fullmatch(status):
        raise DamagedOffset(f"its '{ISOLATION}' is not valid")
    return status


_STATUS = re.compile(rf"[ -~]{{0,{STATUS_AT_MOST}}}")
_ACCOUNT = re.compile(r"[0-9A-Za-z.-]{1,63}")


def _packed(pending: Sequence[PendingDelete]) -> dict[str, Any]:
    by_queue: dict[str, list[PendingDelete]] = {}
    for each in pending:
        by_queue.setdefault(each.key.queue.name, []).append(each)
    return {
        queue: {"messages": len(some), "deletes": pack_pending(some)}
        for queue, some in sorted(by_queue.items())
    }


def _counted(queues: object, most: int) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield each queue's name, number of messages, and packed values. Raises DamagedOffset.

    most: maximum number of messages of all queues.
    """
    if not isinstance(queues, Mapping):
        raise DamagedOffset("its queues are missing")
    total = 0
    for queue in sorted(queues, key=str):
        if not isinstance(queue, str) or not is_queue_name(queue):
            raise DamagedOffset("the name of one of its queues is not valid")
        packed = queues[queue]
        count = packed.get("messages") if isinstance(packed, Mapping) else None
        if type(count) is not int or count < 1:
            raise DamagedOffset("the number of messages of one of its queues is not valid")
        total += count
        if total > most:
            raise DamagedOffset(f"it counts more than {most:,} messages")
        yield queue, count, packed


@contextlib.contextmanager
def refusing_damage() -> Iterator[None]:
    """Catch a DamagedOffset, and raise a CheckpointMismatch with advice in its place."""
    try:
        yield
    except DamagedOffset as error:
        raise unreadable_offset(error) from None


def offset_text(offset: Mapping[str, Any]) -> str:
    """Return the text of an offset. Equal offsets have the same text."""
    return json.dumps(offset, sort_keys=True, separators=(",", ":"))


def moment(seconds: int) -> str:
    """Format seconds since 1970 as ISO 8601 in UTC."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def seconds(text: object, what: str = "oldest message") -> int:
    """Parse a result of `moment` into seconds since 1970. Raises DamagedOffset.

    what: names the time in the error.
    """
    if isinstance(text, str):
        with contextlib.suppress(ValueError, OverflowError):
            parsed = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
            found = int(parsed.replace(tzinfo=datetime.timezone.utc).timestamp())
            if moment(found) == text:
                return found
    raise DamagedOffset(f"the time of its {what} is not valid")
