"""Are so many bodies undecodable that the option, and not the senders, may be wrong?"""

from __future__ import annotations

from spark_azqueue.errors import TooManyPoison
from spark_azqueue.options.source_config import SourceConfig

_PART = 10
_WINDOW = 10_000


class DecodingRecord:
    """Counts rows and undecodable bodies of about the newest ten thousand messages of a process.

    Each process begins anew. Used by one thread.
    """

    def __init__(self, config: SourceConfig) -> None:
        self._most = config.max_poison_messages
        self._encoding = config.encoding
        self._rows = self._undecodable = 0

    def check(self, *, rows: int = 0, undecodable: int = 0) -> None:
        """Raise TooManyPoison if these, with those before, are too many for the poison queue."""
        undecodable += self._undecodable
        read = rows + self._rows + undecodable
        if undecodable <= self._most or undecodable * _PART <= read:
            return
        raise TooManyPoison(
            f"{undecodable:,} of {read:,} bodies do not decode with messageEncoding="
            f"{self._encoding.value}, and at most {self._most:,} and a tenth are dead-lettered for"
            " that. If senders changed their encoding, set 'messageEncoding' ('auto' reads both)."
            " Else raise 'maxPoisonMessages'"
        )

    def add(self, *, rows: int = 0, undecodable: int = 0) -> None:
        """Count rows that were made, and bodies that were dead-lettered."""
        self._rows += rows
        self._undecodable += undecodable
        if self._rows + self._undecodable >= _WINDOW:
            self._rows, self._undecodable = self._rows // 2, self._undecodable // 2
