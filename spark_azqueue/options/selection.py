"""Selects the queues that a source reads, by names and patterns.

In a pattern, `*` matches any number of characters, and `?` matches one. A pattern never matches a
poison queue, because a stream that reads its own dead letters would never end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile

from spark_azqueue.service.messages import QueueRef

POISON_SUFFIX = "-poison"
"""Suffix of the names of poison queues. Azure Functions uses the same suffix."""


@dataclass(frozen=True)
class QueueSelection:
    """The names and patterns in the option `queue`, in the order of the option.

    account: name of the account. poison_queue: value of the option `poisonQueue`.
    """

    account: str
    parts: tuple[str, ...]
    poison_queue: str | None = None

    @property
    def named(self) -> tuple[QueueRef, ...]:
        """The queues that the option names."""
        return tuple(QueueRef(self.account, part) for part in self.parts if not is_pattern(part))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns. Empty if the option has only names."""
        return tuple(filter(is_pattern, self.parts))

    @property
    def patterns_in_words(self) -> str:
        """The patterns as text: "'orders-*', 'returns-*'"."""
        return ", ".join(f"'{pattern}'" for pattern in self.patterns)

    @property
    def template(self) -> str:
        """Text of the option `queue`, cut to 200 characters, for reports; "" if the option has no
        patterns.
        """
        return ",".join(self.parts)[:200] if self.patterns else ""

    @property
    def prefix(self) -> str:
        """Longest prefix that the names of all selected queues must have. Often empty."""
        starts = [re.split("[*?]", pattern)[0] for pattern in self.patterns] or [""]
        first, last = min(starts), max(starts)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        return "".join(letter for letter, _ in same)

    def among(self, names: Iterable[str]) -> tuple[QueueRef, ...]:
        """Return the queues to read, in the order of the option, then by name. names: names of the
        account's queues.

        Named queues are always included.
        """
        candidates = sorted(set(names))
        found: dict[str, None] = {}
        for part in self.parts:
            if is_pattern(part):
                found.update(
                    dict.fromkeys(name for name in candidates if self._matches(part, name))
                )
            else:
                found[part] = None
        return tuple(QueueRef(self.account, name) for name in found)

    def poison_queue_for(self, queue: QueueRef) -> QueueRef:
        """Return the poison queue of this queue, in the same account."""
        return QueueRef(queue.account, self.poison_queue or queue.name + POISON_SUFFIX)

    def includes(self, queue: QueueRef) -> bool:
        """Return True if the source reads this queue, or would read it if it existed."""
        return queue.account == self.account and (
            queue.name in self.parts or self.comes_and_goes(queue)
        )

    def not_read(self, queues: Iterable[QueueRef]) -> list[str]:
        """Return the names of the queues in `queues` that the source does not read. Each name
        occurs once."""
        return sorted({queue.name for queue in queues if not self.includes(queue)})

    def comes_and_goes(self, queue: QueueRef) -> bool:
        """Return True if only a pattern selects this queue. Such a queue may be created and deleted
        during the run.
        """
        return queue.name not in self.parts and any(
            self._matches(pattern, queue.name) for pattern in self.patterns
        )

    def _matches(self, pattern: str, name: str) -> bool:
        is_poison = name.endswith(POISON_SUFFIX) or name == self.poison_queue
        return not is_poison and fnmatchcase(name, pattern)


def is_pattern(part: str) -> bool:
    """Return True for a pattern, False for a name."""
    return "*" in part or "?" in part
