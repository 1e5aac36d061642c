"""What a command that went through many messages says at its end, and its exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from spark_azqueue.commands.doctor.finding import advice_on, say

from .scan import LEASE_S, MOST_PAGES_WITHOUT_NEWS, End, ScanCounts
from .shared import as_json
from .transfer import TransferResult

NOT_ALL = 3
"""Exit status with --all-or-fail: messages were hidden, or it is not known that none was."""


def report(
    result: TransferResult,
    done_what: str,
    about: Mapping[str, Any],
    *,
    is_json: bool,
    more: Sequence[str] = (),
    again: str = "Start it again to go on.",
    to_stderr: bool = False,
    all_or_fail: bool = False,
) -> int:
    """Print what a run did; return the exit status.

    done_what: behind the counts, "messages of 'orders' moved". about: further fields, with
    `is_json`. more: further lines, without. again: what to do if it did not end by itself.
    to_stderr: standard output has the messages. all_or_fail: `NOT_ALL` if there may be messages
    that were not looked at.
    """
    if is_json:
        text = as_json({**about, **asdict(result.tally), "ended": result.why.name.lower()})
    else:
        text = "\n".join([*_summary(result, done_what, again), *more])
    say(text, is_error=to_stderr)
    if result.error:
        say(advice_on(result.error), is_error=True)
    if result.why is End.INTERRUPTED:
        return 130
    is_whole = result.why in (End.DONE, End.ENOUGH) and result.tally.is_clean
    if is_whole and all_or_fail and result.tally.unseen != 0:
        return NOT_ALL
    return 0 if is_whole else 1


def _summary(result: TransferResult, done_what: str, again: str) -> list[str]:
    tally = result.tally
    done = f"{tally.done:,} of {tally.looked:,} {done_what}"
    if tally.opened:
        done += f", {tally.opened:,} of them out of their envelopes"
    lines = [done + "."]
    for number, words in _notes(tally):
        if number:
            lines.append(f"  {number:>9,}  {words}")
    if result.why not in (End.DONE, End.ENOUGH):
        lines.append(_ENDS[result.why].format(again).rstrip())
    return lines


def _notes(tally: ScanCounts) -> tuple[tuple[int, str], ...]:
    minutes = LEASE_S // 60
    return (
        (tally.twins, "dead letters more of the same messages: they were deleted, not put back"),
        (tally.other, "do not match"),
        (
            tally.undecided,
            "stay: packs that cannot be opened, or (`purge`) of which only some rows match",
        ),
        (tally.newer, "stay: they were put after the start of the run"),
        (tally.young, "stay: they are younger than --older-than says"),
        (tally.old, "stay: they are older than --newer-than says"),
        (tally.beyond, "stay: more than --max"),
        (tally.expiring, "stay: they expire at once, and isolationLevel=readCommitted is set"),
        (
            tally.damaged,
            "stay: they hold characters that XML does not allow, so they cannot be read",
        ),
        (
            tally.closed,
            "stay: envelopes that cannot be opened. In base64? Then --option"
            " messageEncoding=base64. --as-is moves them closed",
        ),
        (tally.refused, "stay: the target does not take such a message"),
        (tally.broken, "were passed over: they cannot be sent as they are"),
        (tally.taken, "were not deleted: another consumer had them first, or they have expired"),
        (
            tally.twice,
            "are copied and not deleted: another consumer had them, they expired, or an error",
        ),
        (
            tally.maybe_twice,
            "further copies at most: so many answers were lost, or parts are put alone",
        ),
        (
            tally.maybe_left,
            "of these may be left: the answer to their delete was lost, and its repeat refused",
        ),
        (tally.maybe_hidden, f"at most are hidden for {minutes} minutes: an answer was lost"),
        (
            tally.unseen or 0,
            "more at most were not looked at: leased by a consumer, delayed, or put meanwhile",
        ),
        (tally.left_hidden, "at most were put, and stay hidden until they expire"),
        (tally.not_released, f"stay, and are hidden for {minutes} minutes at most"),
    )


_ENDS = {
    End.NEWER: (
        f"Ended after {MOST_PAGES_WITHOUT_NEWS} answers with nothing but newer messages. What may"
        " stand behind them was not looked at."
    ),
    End.INTERRUPTED: "Interrupted. {}",
    End.FAILED: "Ended by an error. {}",
    End.TOO_MANY_KEPT: (
        "Ended: no more messages that stay can be leased. Nothing behind them was looked at."
    ),
}
