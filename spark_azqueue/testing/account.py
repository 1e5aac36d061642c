"""The queues of one account, by name. Like `model`: no network, no clock, no threads."""

from __future__ import annotations

import re

from . import errors
from .errors import Refusal
from .minting import Minter
from .model import ModelQueue

_QUEUE_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9])*")
_METADATA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_A_HEADER = re.compile(r"[^\t -~\x80-\xff]")


class ModelAccount:
    """Queues and their metadata. Refusals raise `Refusal`. `seed`: makes ids repeatable."""

    def __init__(self, seed: int | str = 0) -> None:
        self._minter = Minter(seed)
        self._queues: dict[str, ModelQueue] = {}
        self._metadata: dict[str, dict[str, str]] = {}
        self._blocked: dict[str, float] = {}  # deleted names, and until when they are refused

    def create(
        self, name: str, metadata: dict[str, str] | None = None, *, now: float = float("inf")
    ) -> bool:
        """Create a queue; return False if it existed already with the same metadata.

        now: unix seconds, to see whether the name is free again. Raises Refusal for an illegal name
        (400), a queue with other metadata (409), or one that is being deleted (409).
        """
        check_queue_name(name)
        self._check_not_blocked(name, now)
        wanted = _checked_metadata(metadata or {})
        if name not in self._queues:
            self._blocked.pop(name, None)
            self._queues[name] = ModelQueue(self._minter)
            self._metadata[name] = wanted
            return True
        if self._metadata[name] != wanted:
            raise Refusal(409, "QueueAlreadyExists", "The specified queue already exists.")
        return False

    def queue(self, name: str, *, now: float = float("inf")) -> ModelQueue:
        """Return the queue. now: as in `create`.

        Raises Refusal: illegal name (400), no such queue (404), being deleted (409).
        """
        self._check_not_blocked(name, now)
        try:
            return self._queues[name]
        except KeyError:
            check_queue_name(name)
            raise errors.queue_not_found(name) from None

    def delete(self, name: str, *, now: float = float("inf"), blocked_for: float = 0.0) -> None:
        """Remove the queue with its messages.

        blocked_for: so many seconds after `now` the name gets 409 QueueBeingDeleted, on the service
        40 or more ("Delete Queue").
        """
        self.queue(name, now=now)
        del self._queues[name], self._metadata[name]
        if blocked_for:
            self._blocked[name] = now + blocked_for

    def _check_not_blocked(self, name: str, now: float) -> None:
        if now < self._blocked.get(name, now):
            raise errors.queue_being_deleted(name)

    def metadata(self, name: str) -> dict[str, str]:
        """Return a copy of the queue's metadata."""
        self.queue(name)
        return dict(self._metadata[name])

    def set_metadata(self, name: str, metadata: dict[str, str]) -> None:
        """Replace the queue's metadata."""
        self.queue(name)
        self._metadata[name] = _checked_metadata(metadata)

    def names(self) -> list[str]:
        """Return the names of all queues, sorted."""
        return sorted(self._queues)


def check_queue_name(name: str) -> None:
    """Raise Refusal for an illegal queue name ("Naming queues and metadata")."""
    if not 3 <= len(name) <= 63:
        raise errors.out_of_range_name(name)
    if not _QUEUE_NAME.fullmatch(name):
        raise errors.invalid_name(name)


def _checked_metadata(metadata: dict[str, str]) -> dict[str, str]:
    for name, value in metadata.items():
        if not _METADATA_NAME.fullmatch(name) or _NOT_IN_A_HEADER.search(value):
            raise Refusal(
                400, "InvalidMetadata", "The metadata specified is invalid.", (("Name", name),)
            )
    return dict(metadata)
