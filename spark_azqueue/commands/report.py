"""The report and the exit status of a command that has processed many messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from spark_azqueue.commands.doctor.finding import advice_on, say

from .scan import LEASE_S, MOST_PAGES_WITHOUT_NEWS, End, ScanCounts
from .shared import as_json
from .transfer import TransferResult

NOT_ALL = 3
"""Exit status with --all-or-fail if the run may have missed messages, because they were
invisible."""


def report(
    result: TransferResult,
    done_what: str,
    about: Mapping[str, Any],
    *,
    is_json: bool,
    more: Sequence[str] = (),
    again: str = "Start it again to continue.",
    to_stderr: bool = False,
    all_or_fail: bool = False,
) -> int:
    """Print the results of a run, and return the exit status.

    done_what: text that follows the count, such as "messages of 'orders' moved". about: further
    fields of the JSON. more: further lines of the text. again: what to do if the run did not
    finish. to_stderr: True if the messages are written to standard output. all_or_fail: True to
    return `NOT_ALL` if the run may have missed messages.
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
        (tally.twins, "further dead letters of the same messages were deleted, not put back"),
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
        (tally.broken, "were skipped: they cannot be sent"),
        (tally.taken, "were not deleted: another consumer had them first, or they have expired"),
        (
            tally.twice,
            "are copied and not deleted: another consumer had them, they expired, or an error",
        ),
        (
            tally.maybe_twice,
            "further copies at most: as many answers were lost, or only parts were put",
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
        f"Ended after {MOST_PAGES_WITHOUT_NEWS} answers with only newer messages. Messages behind"
        " them were not read."
    ),
    End.INTERRUPTED: "Interrupted. {}",
    End.FAILED: "Ended by an error. {}",
    End.TOO_MANY_KEPT: (
        "Ended: the run cannot keep more messages leased. Later messages were not read."
    ),
}
