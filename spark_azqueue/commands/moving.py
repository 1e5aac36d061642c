"""`move`, `redrive` and `purge`: a dry run, unless `--execute` is given.

python -m spark_azqueue redrive orders-poison --rate 50 --execute
python -m spark_azqueue move orders --to orders-later --where '$.kind=report' --execute
python -m spark_azqueue purge orders-poison --older-than '30 days' --execute
"""

from __future__ import annotations

import argparse

from spark_azqueue.options import parsers
from spark_azqueue.options.selection import POISON_SUFFIX
from spark_azqueue.service.messages import MAX_PER_REQUEST

from .running import clear, run
from .scan import LEASE_S
from .shared import QUEUE_TYPE, add_filters, of_type, parser_of

_MOST_RATE = 1_000
_YEARS_S = 100 * 365 * 86_400.0

_HOW = (
    f"Each message that a run looks at is leased for {LEASE_S // 60} minutes at most, and its"
    " dequeue count rises by one, also if it stays. Messages that are put after the start stay. A"
    " run that was ended can be started again: it goes on with what is left."
)
_COPIES = (
    " A message is copied before it is deleted, so none is lost; a kill can leave copies of at most"
    f" {MAX_PER_REQUEST} messages in both queues. Takes the SAS letters 'rup' for the queue and 'a'"
    " for the target."
)


def move(arguments: list[str]) -> int:
    """Run the command line behind the word `move`; return the exit status."""
    parser = parser_of(
        "move",
        "Move messages to another queue, their texts unchanged. A dry run without --execute.\n"
        + _HOW
        + _COPIES,
        "move orders --to orders-later --contains report\n"
        "move orders --to orders-later --contains report --execute",
    )
    parser.add_argument("queue", type=QUEUE_TYPE, help="the queue to take them from")
    parser.add_argument(
        "--to", required=True, type=QUEUE_TYPE, metavar="TARGET", help="the queue to put them into"
    )
    _add_run(parser)
    _add_time_to_live(parser)
    found = parser.given(arguments)
    return run(parser, found, "move", "moved", found.to)


def redrive(arguments: list[str]) -> int:
    """Run the command line behind the word `redrive`; return the exit status."""
    parser = parser_of(
        "redrive",
        "Move messages of a poison queue back. What was set aside in a letter (poisonFormat=letter,"
        " or settle) is taken out of it. A dry run without --execute.\n" + _HOW + _COPIES,
        "redrive orders-poison\n"
        "redrive orders-poison --rate 50 --execute\n"
        "redrive trash --to orders --reason Timeout --execute",
    )
    parser.add_argument("queue", type=QUEUE_TYPE, help="the poison queue, such as orders-poison")
    parser.add_argument(
        "--to",
        type=QUEUE_TYPE,
        metavar="TARGET",
        help=f"the queue to put them into (default: that of the name without '{POISON_SUFFIX}')",
    )
    parser.add_argument("--as-is", action="store_true", help="put letters back as they are")
    _add_run(parser)
    _add_time_to_live(parser)
    found = parser.given(arguments)
    target = found.to or found.queue.removesuffix(POISON_SUFFIX)
    if target == found.queue and not found.to:
        parser.error(
            f"the name of the queue does not end with '{POISON_SUFFIX}': name the poison queue"
            f" ({found.queue}{POISON_SUFFIX}?), or the target with --to"
        )
    return run(parser, found, "redrive", "moved back", target, opens_letters=not found.as_is)


def purge(arguments: list[str]) -> int:
    """Run the command line behind the word `purge`; return the exit status."""
    parser = parser_of(
        "purge",
        "Delete messages. Without any of the options below that select or limit, one call clears"
        " the queue: also of messages that are leased or delayed, and of those that are put"
        " meanwhile. A dry run without --execute.\n" + _HOW + " Takes the SAS letters 'rup'; the"
        " one call, an account SAS with 'd'.",
        "purge orders-poison\n"
        "purge orders-poison --contains test-customer --execute\n"
        "purge orders-poison --older-than '30 days' --execute\n"
        "purge orders-poison --each --execute",
    )
    parser.add_argument("queue", type=QUEUE_TYPE, help="the queue")
    parser.add_argument(
        "--each", action="store_true", help="delete one by one what is visible, not by the one call"
    )
    _add_run(parser)
    found = parser.given(arguments)
    selects = (found.contains, found.where, found.reason, found.each)
    if not any((*selects, found.max, found.rate, found.older_than)):
        return clear(parser, found)
    return run(parser, found, "purge", "deleted", None)


def _add_run(parser: argparse.ArgumentParser) -> None:
    add_filters(parser)
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument(
        "--older-than",
        type=of_type(parsers.duration(1, _YEARS_S)),
        metavar="DURATION",
        help="only what was put into the queue so long ago: '2 days', '90 minutes'",
    )
    parser.add_argument(
        "--max",
        type=of_type(parsers.whole_number(1, 10**9)),
        metavar="N",
        help="end after N messages",
    )
    parser.add_argument(
        "--rate",
        type=of_type(parsers.whole_number(1, _MOST_RATE)),
        metavar="N",
        help=f"at most N messages a second, 1 to {_MOST_RATE:,} (default: as fast as it goes)",
    )


def _add_time_to_live(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-to-live",
        type=of_type(parsers.time_to_live),
        metavar="DURATION",
        help="of the copies; -1: they never expire (default: what is left of the original's)",
    )
