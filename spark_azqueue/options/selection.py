"""Selection of the queues that a source reads: by name, by pattern, or both.

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
"""Azure Functions uses the same suffix."""


@dataclass(frozen=True)
class QueueSelection:
    """The names and patterns of the option `queue`, in its order.

    account: the name of the account. poison_queue: of the option `poisonQueue`.
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
        """The patterns; none if the option has only names."""
        return tuple(filter(is_pattern, self.parts))

    @property
    def patterns_in_words(self) -> str:
        """The patterns in words: "'orders-*', 'returns-*'"."""
        return ", ".join(f"'{pattern}'" for pattern in self.patterns)

    @property
    def template(self) -> str:
        """The option for a report, "" without patterns: at most 200 characters."""
        return ",".join(self.parts)[:200] if self.patterns else ""

    @property
    def prefix(self) -> str:
        """The common beginning of all matching queues' names; often empty."""
        starts = [re.split("[*?]", pattern)[0] for pattern in self.patterns] or [""]
        first, last = min(starts), max(starts)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        return "".join(letter for letter, _ in same)

    def among(self, names: Iterable[str]) -> tuple[QueueRef, ...]:
        """Return the queues to read if the account has these: in the option's order, then by name.

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
        """Return the queue for this queue's poison messages, in the same account."""
        return QueueRef(queue.account, self.poison_queue or queue.name + POISON_SUFFIX)

    def includes(self, queue: QueueRef) -> bool:
        """True if this queue is read, provided that it exists."""
        return queue.account == self.account and (
            queue.name in self.parts or self.comes_and_goes(queue)
        )

    def not_read(self, queues: Iterable[QueueRef]) -> list[str]:
        """Return the names of the queues among these that are not read, each once."""
        return sorted({queue.name for queue in queues if not self.includes(queue)})

    def comes_and_goes(self, queue: QueueRef) -> bool:
        """True if only a pattern matches this queue, so that it is read while it exists."""
        return queue.name not in self.parts and any(
            self._matches(pattern, queue.name) for pattern in self.patterns
        )

    def _matches(self, pattern: str, name: str) -> bool:
        is_poison = name.endswith(POISON_SUFFIX) or name == self.poison_queue
        return not is_poison and fnmatchcase(name, pattern)


def is_pattern(part: str) -> bool:
    """True for a pattern, False for a name."""
    return "*" in part or "?" in part
