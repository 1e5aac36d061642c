"""`move`, `redrive` and `purge`. Without `--execute`, they only make a dry run.

python -m spark_azqueue redrive orders-poison --rate 50 --execute
python -m spark_azqueue move orders --to orders-later --where '$.kind=report' --execute
python -m spark_azqueue purge orders-poison --older-than '30 days' --execute
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from spark_azqueue.commands.doctor.command_line import Parser, taken_options
from spark_azqueue.commands.doctor.finding import say
from spark_azqueue.errors import InvalidRow
from spark_azqueue.options.selection import POISON_SUFFIX
from spark_azqueue.service.messages import MAX_PER_REQUEST, Message
from spark_azqueue.service.queues.calls import Peek
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.management import clear_queue
from spark_azqueue.service.retry import CONTROL

from .report import report
from .scan import LEASE_S, End, TransferPlan, copy_of
from .shared import (
    QUEUE_TYPE,
    ProgressBar,
    access_of,
    add_ages,
    add_all_or_fail,
    add_filters,
    add_max,
    add_rate,
    add_time_to_live,
    as_json,
    check_target,
    count_of,
    ends_on_signals,
    filter_of,
    lines_of,
    now_of,
    parser_of,
    put_between,
)
from .transfer import Transfer

_HOW = (
    f"Each message that a run reads is leased for at most {LEASE_S // 60} minutes, and its dequeue"
    " count rises by one, even if the message stays. Messages that are put after the start stay. An"
    " interrupted run can be started again: it continues with the remaining messages."
)
_COPIES = (
    " A message is copied before it is deleted, so none is lost; a kill can leave copies of at most"
    f" {MAX_PER_REQUEST} messages in both queues. Takes the SAS letters 'rup' for the queue and 'a'"
    " for the target."
)
_LIFE = "time to live of the copies; -1: no end (default: the rest of the original's)"
_SHOWN = 5

_BROKEN_OFF = (
    f"Interrupted: up to {MAX_PER_REQUEST} messages may be copied and not deleted, and the leased"
    f" messages stay hidden for at most {LEASE_S // 60} minutes. Start it again to continue."
)


def move(arguments: list[str]) -> int:
    """Run the command line after the word `move`; return the exit status."""
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
    add_time_to_live(parser, _LIFE)
    found = parser.given(arguments)
    return _run(parser, found, "move", "moved", found.to)


def redrive(arguments: list[str]) -> int:
    """Run the command line after the word `redrive`; return the exit status."""
    parser = parser_of(
        "redrive",
        "Move messages of a poison queue back. A message in an envelope (of a source, or"
        " settle) is put back without the envelope; if several envelopes are about one message,"
        " one is put back, and the others are deleted. A dry run without --execute.\n"
        + _HOW
        + _COPIES,
        "redrive orders-poison\n"
        "redrive orders-poison --rate 50 --execute\n"
        "redrive orders-poison --split --execute\n"
        "redrive trash --to orders --reason Timeout --execute",
    )
    parser.add_argument("queue", type=QUEUE_TYPE, help="the poison queue, such as orders-poison")
    parser.add_argument(
        "--to",
        type=QUEUE_TYPE,
        metavar="TARGET",
        help=f"the queue to put them into (default: the name without '{POISON_SUFFIX}')",
    )
    parser.add_argument("--as-is", action="store_true", help="put envelopes back unopened")
    parser.add_argument(
        "--split",
        action="store_true",
        help="put each row of a packed message back as a message of its own, so that the next"
        " isolation finds the bad row",
    )
    _add_run(parser)
    add_time_to_live(parser, _LIFE)
    found = parser.given(arguments)
    target = found.to or found.queue.removesuffix(POISON_SUFFIX)
    if target == found.queue and not found.to:
        parser.error(
            f"the name of the queue does not end with '{POISON_SUFFIX}': name the poison queue"
            f" ({found.queue}{POISON_SUFFIX}?), or the target with --to"
        )
    if found.split and found.as_is:
        parser.error("--split opens envelopes, so it does not go with --as-is")
    return _run(parser, found, "redrive", "moved back", target, opens_envelopes=not found.as_is)


def purge(arguments: list[str]) -> int:
    """Run the command line after the word `purge`; return the exit status."""
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
        "--each",
        action="store_true",
        help="delete the visible messages one by one, not by one call",
    )
    _add_run(parser)
    found = parser.given(arguments)
    selects = (found.contains, found.where, found.reason, found.each)
    if not any((*selects, found.max, found.rate, found.older_than, found.newer_than)):
        if found.all_or_fail:
            parser.error("--all-or-fail goes with --each: the one call also deletes what is hidden")
        return _clear(parser, found)
    return _run(parser, found, "purge", "deleted", None)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(split=False, time_to_live=None)  # only some commands have these arguments
    add_filters(parser)
    parser.add_argument("--execute", action="store_true", help="do it")
    add_ages(parser)
    add_max(parser)
    add_all_or_fail(parser)
    add_rate(parser)


def _run(
    parser: Parser,
    found: argparse.Namespace,
    command: str,
    verb: str,
    target: str | None,
    *,
    opens_envelopes: bool = False,
) -> int:
    """Move or delete the selected messages, or print a dry run; return the exit status.

    verb: the action on a message as text, such as "moved". target: target queue; None to delete the
    messages. Raises InvalidOption. Raises ServiceError before a message is leased if a queue cannot
    be used.
    """
    if target == found.queue:
        parser.error("the queue and the target are the same queue")
    if found.all_or_fail and found.max:
        parser.error("--all-or-fail does not go with --max")
    access = access_of(taken_options(parser, found))
    only = replace(filter_of(found, access.encoding), whole=target is None)
    source = access.ref(found.queue)
    with closing(QueueClient(access.account)) as client:
        now = CONTROL(client.queue(source).check).timestamp()
        if target:
            check_target(client, access, target, executed=found.execute)
        before, after = put_between(found, now)
        plan = TransferPlan(
            source,
            int(now * 1_000_000),
            access.ref(target) if target else None,
            only,
            found.rate,
            found.max,
            found.time_to_live,
            opens_envelopes,
            isolation=access.isolation,
            put_before=before,
            put_after=after,
            splits=found.split,
        )
        total = count_of(client, source)
        about = {"command": command, "queue": found.queue, "to": target}
        about |= {"executed": found.execute, "messages_before": total}
        if not found.execute:
            _tell_dry_run(client, plan, about, verb, is_json=found.json)
            return 0
        progress = ProgressBar(sys.stderr, verb, total, most=found.max)
        with ends_on_signals() as stop:
            try:
                result = Transfer(client, plan, stop.wait, stop.is_set, progress).run()
            except KeyboardInterrupt:
                say(_BROKEN_OFF, is_error=True)
                raise
            finally:
                progress.close()
    where = f" to '{target}'" if target else ""
    return report(
        *(result, f"messages of '{found.queue}' {verb}{where}", about),
        is_json=found.json,
        all_or_fail=found.all_or_fail,
    )


def _tell_dry_run(
    client: QueueClient, plan: TransferPlan, about: Mapping[str, Any], verb: str, *, is_json: bool
) -> None:
    """Print a dry run. The dry run shows only the messages that a peek returns: the first messages
    of the queue.
    """
    peeked = CONTROL(client.now, Peek(plan.source, MAX_PER_REQUEST))
    seen = peeked.messages
    meant = [
        each
        for each in seen
        if each.intact and not plan.kept_for_its_age(each) and plan.only.matches(each.text)
    ][: plan.most]
    twins = _twins(meant, plan)
    is_all = len(seen) < MAX_PER_REQUEST
    if is_json:
        counts = {"looked": len(seen), "meant": len(meant), "twins": twins, "is_all": is_all}
        print(as_json({**about, **counts}))
        return
    total = about["messages_before"]
    name = plan.source.name
    if total is not None:
        say(f"'{name}' holds about {total:,} messages, leased and delayed ones included.")
    where = f" to '{plan.target.name}'" if plan.target else ""
    say(f"Of the first {len(seen)} visible ones, {len(meant)} would be {verb}{where}.")
    if twins:
        say(f"{twins} of these repeat others' messages, and would be deleted, not put back.")
    for message in meant[:_SHOWN]:
        say("\n".join(lines_of(message, plan.encoding, now_of(peeked))))
    if len(meant) > _SHOWN:
        say(f"… and {len(meant) - _SHOWN} more; `peek` shows them")
    if plan.selects and not is_all:
        say(
            f"A peek shows {MAX_PER_REQUEST} at most, so further ones may match: `search` with the"
            " same filter looks at all of them, and raises each dequeue count by one."
        )
    say("Nothing was changed. To do it, add --execute.")


def _twins(messages: Sequence[Message], plan: TransferPlan) -> int:
    """Return how many of these dead letters have the same message as an earlier dead letter."""
    dead = []
    for message in messages:
        with suppress(InvalidRow):
            dead.append(copy_of(message, plan, plan.began).dead)
    known = [each for each in dead if each is not None]
    return len(known) - len(set(known))


def _clear(parser: Parser, found: argparse.Namespace) -> int:
    """Delete all messages of the queue in one call, or print a dry run; return the exit status."""
    access = access_of(taken_options(parser, found))
    with closing(QueueClient(access.account)) as client:
        total = count_of(client, access.ref(found.queue))
    number = "an unknown number of" if total is None else f"about {total:,}"
    about = {"command": "purge", "queue": found.queue, "to": None, "executed": found.execute}
    counts: dict[str, Any] = {"messages_before": total}
    if found.execute:
        say(f"Clearing '{found.queue}' of {number} messages: up to ten minutes", is_error=True)
        clear_queue(access.account, found.queue)
        counts |= {"done": total, "ended": End.DONE.name.lower()}
    if found.json:
        print(as_json(about | counts))
    elif found.execute:
        say(f"'{found.queue}' was cleared of {number} messages.")
    else:
        say(
            f"One call would delete {number} messages in '{found.queue}', those that"
            " are leased or delayed included.\nNothing was changed. To do it, add --execute."
        )
    return 0
