"""Runs a plan, or tells what it would do; and says at the end what was done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from spark_azqueue.doctor.finding import advice_on, say
from spark_azqueue.errors import AccessDenied
from spark_azqueue.service.messages import MAX_PER_REQUEST, QueueRef
from spark_azqueue.service.queues.calls import Count, Peek
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.management import clear_queue
from spark_azqueue.service.retry import CONTROL

from .output import Progress, as_json, lines_of, now_of
from .scan import LEASE_S, MOST_KEPT, MOST_PAGES_WITHOUT_NEWS, End, Tally, TransferPlan
from .shared import access_of, ends_on_signals, filter_of
from .transfer import Transfer, TransferResult

_SHOWN = 5

_BROKEN_OFF = (
    f"Broken off in the middle: up to {MAX_PER_REQUEST} messages may be copied and not deleted, and"
    f" what was leased is hidden for {LEASE_S // 60} minutes at most. Start it again to go on."
)


def run(
    parser: argparse.ArgumentParser,
    found: argparse.Namespace,
    command: str,
    verb: str,
    target: str | None,
    *,
    opens_letters: bool = False,
) -> int:
    """Move or delete what the arguments select, or tell what would be; return the exit status.

    verb: what was done to a message, for texts. target: None to delete. Raises InvalidOption, and
    ServiceError if a queue cannot be used: then nothing was leased.
    """
    if target == found.queue:
        parser.error("the queue and the target are the same queue")
    access = access_of(parser, found)
    only = filter_of(found, access.encoding)
    source = access.ref(found.queue)
    with closing(QueueClient(access.account)) as client:
        now = CONTROL(client.queue(source).check).timestamp()
        if target:
            CONTROL(client.queue(access.ref(target)).check_put)
        plan = TransferPlan(
            source,
            int((now - (found.older_than or 0)) * 1_000_000),
            access.ref(target) if target else None,
            only,
            found.rate,
            found.max,
            getattr(found, "time_to_live", None),
            opens_letters,
        )
        total = _count(client, source)
        about = {"command": command, "queue": found.queue, "to": target}
        about |= {"executed": found.execute, "messages_before": total}
        if not found.execute:
            _tell_dry_run(client, plan, about, verb, is_json=found.json)
            return 0
        progress = Progress(sys.stderr, verb, total, most=found.max)
        with ends_on_signals() as stop:
            try:
                transfer = Transfer(client, plan, stop.wait, stop.is_set, progress)
                result = transfer.run()
            except KeyboardInterrupt:
                say(_BROKEN_OFF, is_error=True)
                raise
            finally:
                progress.close()
    if found.json:
        print(as_json(about | asdict(result.tally) | {"ended": result.why.name.lower()}))
    else:
        say("\n".join(summary(result, plan, verb)))
    if result.error:
        say(advice_on(result.error), is_error=True)
    if result.why is End.INTERRUPTED:
        return 130
    is_whole = result.why in (End.DONE, End.ENOUGH) and result.tally.is_clean
    return 0 if is_whole else 1


def _count(client: QueueClient, queue: QueueRef) -> int | None:
    """About how many messages there are, None if we may not know."""
    try:
        found: int = CONTROL(client.now, Count(queue))
        return found
    except AccessDenied:
        return None


def _tell_dry_run(
    client: QueueClient, plan: TransferPlan, about: Mapping[str, Any], verb: str, *, is_json: bool
) -> None:
    """Say what is there, by a peek: that changes nothing, and shows the first messages only."""
    peeked = CONTROL(client.now, Peek(plan.source, MAX_PER_REQUEST))
    seen = peeked.messages
    meant = [
        each
        for each in seen
        if each.intact and each.insertion_time <= plan.cutoff and plan.only.matches(each.text)
    ][: plan.most]
    if is_json:
        print(as_json({**about, "looked": len(seen), "meant": len(meant)}))
        return
    total = about["messages_before"]
    name = plan.source.name
    if total is not None:
        say(f"'{name}' holds about {total:,} messages, leased and delayed ones included.")
    where = f" to '{plan.target.name}'" if plan.target else ""
    say(f"Of the first {len(seen)} visible ones, {len(meant)} would be {verb}{where}.")
    for message in meant[:_SHOWN]:
        say("\n".join(lines_of(message, plan.encoding, now_of(peeked))))
    if len(meant) > _SHOWN:
        say(f"… and {len(meant) - _SHOWN} more; `peek` shows them")
    say("Nothing was changed. To do it, add --execute.")


def summary(result: TransferResult, plan: TransferPlan, verb: str) -> list[str]:
    """What a run did, for people."""
    tally, name = result.tally, plan.source.name
    where = f" to '{plan.target.name}'" if plan.target else ""
    done = f"{tally.done:,} of {tally.looked:,} messages of '{name}' {verb}{where}"
    if tally.opened:
        done += f", {tally.opened:,} of them out of their letters"
    lines = [done + "."]
    for number, words in _notes(tally):
        if number:
            lines.append(f"  {number:>9,}  {words}")
    if result.why not in (End.DONE, End.ENOUGH):
        lines.append(_ENDS[result.why])
    return lines


def _notes(tally: Tally) -> tuple[tuple[int, str], ...]:
    minutes = LEASE_S // 60
    return (
        (tally.other, "stay: they do not fit"),
        (tally.newer, "stay: they are newer than the start of the run, or than --older-than"),
        (tally.beyond, "stay: more than --max"),
        (
            tally.damaged,
            "stay: they hold characters that XML does not allow, so they cannot be read",
        ),
        (
            tally.closed,
            "stay: letters that cannot be opened. In base64? Then --option messageEncoding=base64."
            " --as-is moves them closed",
        ),
        (tally.refused, "stay: the target does not take such a message"),
        (tally.taken, "were not deleted: another consumer had them first, or they have expired"),
        (
            tally.twice,
            "are copied and not deleted: another consumer had them, they expired, or an error",
        ),
        (tally.maybe_twice, "further copies at most: so many answers were lost"),
        (tally.maybe_hidden, f"at most are hidden for {minutes} minutes: an answer was lost"),
        (tally.not_released, f"stay, and are hidden for {minutes} minutes at most"),
    )


_ENDS = {
    End.NEWER: (
        f"Ended after {MOST_PAGES_WITHOUT_NEWS} answers with nothing but newer messages. What may"
        " stand behind them was not looked at."
    ),
    End.INTERRUPTED: "Interrupted. Start it again to go on.",
    End.FAILED: "Ended by an error. Start it again to go on.",
    End.TOO_MANY_KEPT: (
        f"Ended: {MOST_KEPT:,} messages that stay are leased. Nothing behind them was looked at."
    ),
}


def clear(parser: argparse.ArgumentParser, found: argparse.Namespace) -> int:
    """Delete all messages by one call, or tell what it would delete; return the exit status."""
    access = access_of(parser, found)
    with closing(QueueClient(access.account)) as client:
        total = _count(client, access.ref(found.queue))
    number = "an unknown number of" if total is None else f"about {total:,}"
    about = {"command": "purge", "queue": found.queue, "to": None, "executed": found.execute}
    if found.execute:
        clear_queue(access.account, found.queue)
    if found.json:
        print(as_json(about | {"messages_before": total}))
    elif found.execute:
        say(f"'{found.queue}' was cleared of {number} messages.")
    else:
        say(
            f"One call would delete {number} messages in '{found.queue}', those that"
            " are leased or delayed included.\nNothing was changed. To do it, add --execute."
        )
    return 0
