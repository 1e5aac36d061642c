"""`send --pack`: packs lines of JSON into messages."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event

from spark_azqueue.errors import InvalidRow
from spark_azqueue.rows.packing.bodies import FORMATS
from spark_azqueue.rows.packing.bounds import MAX_ROWS, CorruptPack
from spark_azqueue.rows.packing.filling import Filled, Filling
from spark_azqueue.rows.packing.json_values import parsed

from .lines import LinesToSend
from .scan import ScanCounts
from .sending import Outgoing

_SURROGATE = "\\ud"


def row_of(line: str) -> str:
    """Return a line as a row of a pack. Raises ValueError with the reason if the line is not a
    row."""
    try:
        row = parsed(line)
    except CorruptPack as error:
        raise ValueError(str(error)) from None
    if not isinstance(row, dict):
        raise ValueError("it is no JSON object")
    # A reader would refuse the whole message because of a lone surrogate, which JSON can contain.
    if _SURROGATE in line.lower():
        try:
            json.dumps(row, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError("a text in it has half of a pair of surrogates") from None
    return line.strip()


@dataclass
class PackedLines:
    """The lines of a file, packed into messages. The `place` of a message is the number of its
    first line.
    """

    lines: LinesToSend
    _waiting: deque[Outgoing] = field(default_factory=deque)
    """Lines that are not in a message yet."""
    _messages_made: int = 0

    @property
    def at(self) -> int:
        """Number of the first line that is in no yielded message yet."""
        return self._waiting[0].place if self._waiting else self.lines.at

    def groups(self, stop: Event, tally: ScanCounts) -> Iterator[list[Outgoing]]:
        """Yield each message when it is full.

        Raises InvalidRow for a broken line, after all lines before it were yielded.
        """
        filling = Filling(FORMATS["json"], MAX_ROWS)
        try:
            for group in self.lines.groups(stop, tally):
                self._waiting.extend(group)
                rows = [each.text.encode() for each in group]
                yield self._messages(filling.add(rows), tally)
        except InvalidRow:
            yield self._messages(filling.rest(), tally)
            raise
        finally:
            tally.looked = self._messages_made
        if not stop.is_set():
            yield self._messages(filling.rest(), tally)

    def _messages(self, packs: Iterator[Filled], tally: ScanCounts) -> list[Outgoing]:
        """Return the packs as messages. In the tally, the number of their lines is replaced by the
        number of messages.
        """
        messages = []
        for pack in packs:
            self._messages_made += 1
            packed = [self._waiting.popleft() for _ in range(pack.rows)]
            text = base64.b64encode(pack.data).decode()
            messages.append(Outgoing(packed[0].place, text, [each.text for each in packed]))
        tally.looked = self._messages_made
        return messages
