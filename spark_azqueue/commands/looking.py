"""`peek` and `count`: show the contents of queues without changing them.

python -m spark_azqueue peek orders-poison --contains invoice
python -m spark_azqueue count 'orders*'
"""

from __future__ import annotations

import contextlib
import re
from contextlib import closing
from fnmatch import fnmatchcase
from typing import NamedTuple

from spark_azqueue.commands.doctor.command_line import taken_options
from spark_azqueue.commands.doctor.finding import advice_on, say
from spark_azqueue.errors import AzQueueError, QueueNotFound
from spark_azqueue.options import parsers
from spark_azqueue.options.choices import IsolationLevel
from spark_azqueue.options.selection import POISON_SUFFIX, QueueSelection, is_pattern
from spark_azqueue.service.messages import MAX_PER_REQUEST, QueueRef
from spark_azqueue.service.queues.calls import Count, Peek
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .shared import (
    QUEUE_TYPE,
    Access,
    access_of,
    add_filters,
    add_unpack,
    age_of,
    as_json,
    fields_of,
    filter_of,
    lines_of,
    now_of,
    of_type,
    parser_of,
)


def peek(arguments: list[str]) -> int:
    """Run the command line after the word `peek`; return the exit status."""
    parser = parser_of(
        "peek",
        "Show the first messages of a queue that are visible: 32 at most, since the service shows"
        " no more. Changes nothing: no lease, no dequeue count. Takes the SAS letter 'r'.",
        "peek orders-poison\n"
        "peek orders-poison --where '$.customer.id=42' --whole\n"
        "peek orders --option messageEncoding=base64 --json | jq .body",
    )
    parser.add_argument("queue", type=QUEUE_TYPE, help="the queue")
    add_filters(parser)
    parser.add_argument(
        "--number",
        type=of_type(parsers.whole_number(1, MAX_PER_REQUEST)),
        metavar="N",
        help=f"look at the first N (1 to {MAX_PER_REQUEST}, default: peekMessages, or"
        f" {MAX_PER_REQUEST})",
    )
    parser.add_argument(
        "--whole", action="store_true", help="show whole bodies, with their line breaks"
    )
    add_unpack(parser)
    found = parser.given(arguments)
    options = taken_options(parser, found)
    access, number = access_of(options), found.number or options["peekMessages"]
    only = filter_of(found, access.encoding)
    is_committed = access.isolation is IsolationLevel.READ_COMMITTED
    with closing(QueueClient(access.account)) as client:
        peeked = CONTROL(client.now, Peek(access.ref(found.queue), number))
    found_in = [only.found_in(each.text) for each in peeked.messages]
    fitting = [
        each
        for each, is_meant in zip(peeked.messages, found_in, strict=True)
        if is_meant and not (is_committed and each.is_in_its_last(peeked.answered_at))
    ]
    for message in fitting:
        if found.json:
            print(as_json(fields_of(message, access.encoding, unpack=found.unpack)))
        else:
            how = {"is_whole": found.whole, "unpack": found.unpack}
            lines = lines_of(message, access.encoding, now_of(peeked), **how)
            say("\n".join(lines))
    if not found.json:
        seen = len(peeked.messages)
        fit = f"; {len(fitting)} fit" if only else ""
        if undecided := found_in.count(None):
            fit += f"; {undecided} packs cannot be opened"
        say(f"{seen} visible messages looked at{fit}" if seen else "no visible message")
    return 0


def count(arguments: list[str]) -> int:
    """Run the command line after the word `count`; return the exit status."""
    parser = parser_of(
        "count",
        "Show about how many messages queues hold, how many of them are visible and hidden (leased"
        " or delayed), the age of the first visible one, and what the poison queue holds. Changes"
        " nothing. Takes the SAS letter 'r'; a pattern, the list of the account's queues.",
        "count orders\ncount 'orders*' --json",
    )
    parser.add_argument(
        "queue",
        type=of_type(parsers.queue_names),
        help="the queue, or several: a,b; * stands for any characters, also in poison queues",
    )
    found = parser.given(arguments)
    options = taken_options(parser, found)
    access = access_of(options)
    selection = QueueSelection(access.account.name, found.queue, options["poisonQueue"])
    status = 0
    with closing(QueueClient(access.account)) as client:
        queues = _named(client, access, found.queue)
        if not queues:
            say("no queue has such a name", is_error=True)
            return 1
        width = max(len(queue.name) for queue in queues)
        for queue in queues:
            try:
                seen = _seen(client, queue, selection)
            except AzQueueError as error:
                say(advice_on(error), is_error=True)
                status = 1
                continue
            say(as_json(seen._asdict()) if found.json else seen.line(width))
    return status


class _QueueLine(NamedTuple):
    """Counts of a queue, which are the fields of the JSON output.

    visible: number of visible messages, at most 32. hidden: number of leased or delayed messages;
    None if 32 messages are visible, because there may be more visible messages. poison_messages:
    number of messages in the poison queue; None if there is no poison queue, or if the queue itself
    is a poison queue.
    """

    queue: str
    messages: int
    visible: int
    hidden: int | None
    first_visible_age_seconds: float | None
    poison_queue: str | None
    poison_messages: int | None

    def line(self, width: int) -> str:
        """Return the counts as a line to print. width: width of the column with the queue's
        name."""
        if self.hidden is None:
            parts = [f"{self.visible} or more visible"]
        else:
            parts = [f"{self.visible} visible, {self.hidden:,} hidden"]
        if (age := self.first_visible_age_seconds) is not None:
            parts.append(f"first visible: {age_of(age)} old")
        if self.poison_messages is not None:
            parts.append(f"{self.poison_queue}: {self.poison_messages:,}")
        return f"{self.queue:<{width}}  {self.messages:>9,}  {'; '.join(parts)}"


def _seen(client: QueueClient, queue: QueueRef, selection: QueueSelection) -> _QueueLine:
    number = CONTROL(client.now, Count(queue))
    head = CONTROL(client.now, Peek(queue, MAX_PER_REQUEST))
    visible, age = len(head.messages), None
    if head.messages:
        age = max(0, now_of(head) - head.messages[0].insertion_time / 1_000_000)
    poison = selection.poison_queue_for(queue)
    held = None
    if queue != poison and not queue.name.endswith(POISON_SUFFIX):
        with contextlib.suppress(QueueNotFound):
            held = CONTROL(client.now, Count(poison))
    return _QueueLine(
        queue.name,
        max(number, visible),
        visible,
        max(0, number - visible) if visible < MAX_PER_REQUEST else None,
        age,
        None if held is None else poison.name,
        held,
    )


def _named(client: QueueClient, access: Access, parts: tuple[str, ...]) -> list[QueueRef]:
    """Return the queues with these names or patterns. Each queue occurs once."""
    names: dict[str, None] = {}
    for part in parts:
        if is_pattern(part):
            prefix = re.split(r"[*?]", part)[0]
            found = CONTROL(client.names, prefix)
            names |= dict.fromkeys(each for each in found if fnmatchcase(each, part))
        else:
            names[part] = None
    return [access.ref(name) for name in names]
