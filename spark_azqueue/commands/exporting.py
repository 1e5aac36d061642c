"""`export` and `search`: write all visible messages of a queue, or all messages of its write-ahead
log.

python -m spark_azqueue export orders --to orders.jsonl
python -m spark_azqueue search --log blob:logs/orders --where '$.id=42' --from 2026-11-17T08:00:00Z
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from spark_azqueue.commands.doctor.command_line import Parser, taken_options
from spark_azqueue.commands.doctor.finding import say
from spark_azqueue.errors import AzQueueError
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.messages import UNKNOWN_TIME, Message
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .logged import LoggedMessage, LogRange, add_log
from .report import report
from .scan import LEASE_S, MOST_EXPORTED, End, ScanCounts, TransferPlan
from .shared import (
    QUEUE_TYPE,
    ProgressBar,
    access_of,
    add_ages,
    add_all_or_fail,
    add_filters,
    add_max,
    add_unpack,
    as_json,
    count_of,
    ends_on_signals,
    fields_of,
    filter_of,
    lines_of,
    moment,
    of_type,
    parser_of,
    put_between,
)
from .transfer import Transfer, TransferResult

_HOW = (
    f"Each visible message is leased for {LEASE_S // 60} minutes at most and released at the end:"
    " nothing is deleted, and each dequeue count rises by one. Takes the SAS letters 'rup'. With"
    " --log, the committed batches of a write-ahead log are read instead, and nothing is leased or"
    " changed."
)
_BROKEN_OFF = f"Interrupted: the leased messages stay hidden for at most {LEASE_S // 60} minutes."

Shown = Callable[[Message, Encoding, LoggedMessage | None], str]


def export(arguments: list[str]) -> int:
    """Run the command line after the word `export`; return the exit status."""
    parser = parser_of(
        "export",
        "Write every visible message of a queue as one line of JSON, which `send` takes. 'text' is"
        " what the queue stores, byte for byte; 'body' is decoded.\n" + _HOW,
        "export orders --to orders.jsonl\n"
        "export orders --where '$.kind=report' | jq .body\n"
        "export --log blob:logs/orders --from 2026-11-17T08:00:00Z --to-time 2026-11-17T09:00:00Z",
    )
    _add_what(parser)
    parser.add_argument(
        "--to",
        type=of_type(_file_path),
        metavar="FILE",
        help="write to this file, named .partial until it is complete (default: standard output)",
    )
    found = parser.given(arguments)
    with _output(parser, found.to) as (out, finish):
        lines = _MessageLines(out, _line_writer(unpack=found.unpack), finish)
        return _Look(parser, found, "exported", lines, to_stderr=found.to is None).all()


def search(arguments: list[str]) -> int:
    """Run the command line after the word `search`; return the exit status."""
    parser = parser_of(
        "search",
        "Show the messages that fit, how many they are, and the times of the first and the last"
        " one.\n" + _HOW,
        "search orders --where '$.customer.id=42'\n"
        "search --log file:/data/wal --contains invoice --from 2026-11-17 --json",
    )
    _add_what(parser)
    parser.add_argument(
        "--whole", action="store_true", help="show whole bodies, with their line breaks"
    )
    found = parser.given(arguments)
    if not any((found.contains, found.where, found.reason, found.older_than, found.newer_than)):
        parser.error("name a filter: --contains, --where, --reason, --older-than or --newer-than")

    def lines(message: Message, encoding: Encoding, logged: LoggedMessage | None) -> str:
        at = logged.logged_at / 1_000_000 if logged else time.time() + shown.ahead_s
        parts = lines_of(message, encoding, at, is_whole=found.whole, unpack=found.unpack)
        if logged:
            parts[0] += f", batch {logged.batch} of {moment(logged.logged_at)}"
        return "\n".join(parts)

    as_line = _line_writer(unpack=found.unpack)
    shown = _MessageLines(sys.stdout, as_line if found.json else lines)
    return _Look(parser, found, "found", shown, to_stderr=found.json).all()


def _file_path(written: str) -> Path:
    path = Path(written)
    try:
        is_name = b"\0" not in os.fsencode(path) and path.name not in ("", "..")
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise ValueError("the name of a file")
    return path


def _add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", type=QUEUE_TYPE, nargs="?", help="the queue, without --log")
    add_filters(parser)
    add_ages(parser)
    add_max(parser)
    add_all_or_fail(parser)
    add_log(parser)
    add_unpack(parser)
    parser.add_argument(
        "--uncommitted",
        action="store_true",
        help="with --log: include uncommitted batches, which may still be abandoned",
    )


def _line_writer(*, unpack: bool) -> Shown:
    def as_line(message: Message, encoding: Encoding, logged: LoggedMessage | None) -> str:
        fields = fields_of(message, encoding, unpack=unpack)
        if logged:
            fields |= {"log_batch": logged.batch, "logged_at": moment(logged.logged_at)}
        return as_json(fields)

    return as_line


@dataclass
class _MessageLines:
    """Writes messages, and records their earliest and latest time, in microseconds since 1970.

    finish: called at the end, see `_output`. ahead_s: seconds by which the service's clock is ahead
    of this machine's clock.
    """

    out: TextIO
    shown: Shown
    finish: Callable[[bool], None] = lambda is_whole: None
    first: int = UNKNOWN_TIME
    last: int = UNKNOWN_TIME
    ahead_s: float = 0.0

    def write(
        self, message: Message, encoding: Encoding, logged: LoggedMessage | None = None
    ) -> None:
        """Write one message."""
        self.out.write(self.shown(message, encoding, logged) + "\n")
        at = logged.logged_at if logged else message.insertion_time
        if at > UNKNOWN_TIME:
            self.first = min(at, self.first or at)
            self.last = max(at, self.last)


@dataclass(frozen=True)
class _Look:
    """One run of `export` or `search`. verb: the action on a message as text. to_stderr: see
    `report`.
    """

    parser: Parser
    found: argparse.Namespace
    verb: str
    lines: _MessageLines
    to_stderr: bool
    _tally: ScanCounts = field(default_factory=ScanCounts)

    def all(self) -> int:
        """Run the command. Return the exit status."""
        found = self.found
        if (found.queue is None) == (found.log is None):
            self.parser.error("name the queue, or a log with --log: one of the two")
        if found.all_or_fail and (found.log or found.max):
            self.parser.error("--all-or-fail goes with a queue, and not with --max")
        if found.log and (found.older_than or found.newer_than):
            self.parser.error("of a log, --from and --to-time select by time")
        if found.queue and (found.since or found.until or found.batch or found.uncommitted):
            self.parser.error("--from, --to-time, --batch and --uncommitted are for --log")
        return self._from_log() if found.log else self._from_queue()

    def _from_queue(self) -> int:
        found, lines = self.found, self.lines
        access = access_of(taken_options(self.parser, found))
        only = filter_of(found, access.encoding)
        source = access.ref(found.queue)

        def write(messages: Sequence[Message]) -> None:
            for message in messages:
                lines.write(message, access.encoding)
            lines.out.flush()

        with closing(QueueClient(access.account)) as client:
            now = CONTROL(client.queue(source).check).timestamp()
            lines.ahead_s = now - time.time()
            began, most = int(now * 1_000_000), found.max
            before, after = put_between(found, now)
            plan = TransferPlan(
                *(source, began),
                only=only,
                most=most,
                most_kept=MOST_EXPORTED,
                isolation=access.isolation,
                put_before=before,
                put_after=after,
            )
            with self._progress(count_of(client, source)) as (progress, stop):
                transfer = Transfer(client, plan, stop.wait, stop.is_set, progress, write=write)
                try:
                    result = transfer.run()
                except KeyboardInterrupt:
                    say(_BROKEN_OFF, is_error=True)
                    raise
        looked = result.tally.looked
        risen = f"Of {looked:,} messages the dequeue count has risen by one. Nothing was deleted."
        return self._report(result, f"messages of '{found.queue}'", risen)

    def _from_log(self) -> int:
        found, tally = self.found, self._tally
        only = filter_of(found, Encoding.NONE)
        why, error = End.DONE, None
        options = taken_options(self.parser, found, of_log=True)
        with (
            closing(LogRange(options, found, uncommitted=found.uncommitted)) as log,
            self._progress(None) as (progress, stop),
        ):
            try:
                for each in log:
                    if stop.is_set() or tally.done == found.max:
                        why = End.INTERRUPTED if stop.is_set() else End.ENOUGH
                        break
                    tally.looked += 1
                    is_meant = replace(only, encoding=each.encoding).found_in(each.message.text)
                    tally.undecided += is_meant is None
                    if is_meant:
                        self.lines.write(each.message, each.encoding, each)
                        tally.done += 1
                    progress(tally)
            except AzQueueError as raised:
                why, error = End.FAILED, raised
            self.lines.out.flush()
        return self._report(TransferResult(tally, why, error), f"messages in {log.where}")

    @contextlib.contextmanager
    def _progress(self, total: int | None) -> Iterator[Any]:
        """Yield a progress bar, and an event that is set by a signal."""
        progress = ProgressBar(sys.stderr, self.verb, total, most=self.found.max)
        with closing(progress), ends_on_signals() as stop:
            yield progress, stop

    def _report(self, result: TransferResult, what: str, *more: str) -> int:
        found, first, last = self.found, moment(self.lines.first), moment(self.lines.last)
        about = {"command": self.parser.command, "queue": found.queue, "log": found.log}
        about |= {"first": first, "last": last}
        if first:
            put = "stored in the log" if found.log else "put"
            more = (f"The first was {put} at {first}, the last at {last}.", *more)
        again = "Start it again for all of them."
        try:  # first, because printing the report may fail
            self.lines.finish(result.why in (End.DONE, End.ENOUGH))
        except FileExistsError as error:
            say(f"--to: {error}", is_error=True)
            result, again = replace(result, why=End.FAILED), ""
        return report(
            *(result, f"{what} {self.verb}", about),
            is_json=found.json,
            more=more,
            again=again,
            to_stderr=self.to_stderr,
            all_or_fail=found.all_or_fail,
        )


@contextlib.contextmanager
def _output(
    parser: argparse.ArgumentParser, to: Path | None
) -> Iterator[tuple[TextIO, Callable[[bool], None]]]:
    """Yield a stream, and a function. The caller must call the function at the end, with True if
    all messages were written.

    The function raises FileExistsError if another process has created the file. The context and the
    function raise OSError.
    """
    if to is None:
        # See `command_line`: the stream was closed.
        if getattr(sys.stdout, "name", "") == os.devnull:
            parser.error("standard output is closed: name a file with --to")
        yield sys.stdout, lambda is_whole: None
        return
    part = to.with_name(to.name + ".partial")
    for path in (to, part):
        if os.path.lexists(path):
            parser.error(f"--to: {path.name} exists already. Name another file, or remove it")

    is_over = False

    def finish(is_whole: bool) -> None:
        nonlocal is_over
        if is_over:
            return
        if is_whole:
            out.flush()
            os.fsync(out.fileno())
            is_over = True
            _give_name(part, to)
            return
        is_over = True
        with contextlib.suppress(OSError):  # the disk may be full
            out.flush()
        if part.stat().st_size:
            say(f"{part} is not whole: it has what was exported so far.", is_error=True)
        else:
            part.unlink()

    def private(path: str, flags: int) -> int:
        return os.open(path, flags, 0o600)

    with open(part, "x", encoding="ascii", opener=private) as out:
        try:
            yield out, finish
        except BaseException:
            finish(False)
            raise


def _give_name(part: Path, to: Path) -> None:
    """Rename a file. Raises FileExistsError if a file with the new name exists."""
    try:
        os.link(part, to)
    except OSError:  # a file with the new name exists, or the file system has no links
        if os.path.lexists(to):
            raise FileExistsError(
                f"{to.name} was created by another process during the export, and was left as it"
                f" is. The whole export is in {part}"
            ) from None
        part.rename(to)
    else:
        part.unlink()
