"""`send` and `replay`: put lines, or the messages of a write-ahead log, into a queue.

python -m spark_azqueue send orders orders.jsonl
python -m spark_azqueue replay --log blob:logs/orders --batch 7-12 --into orders --execute
"""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Protocol

from spark_azqueue.commands.doctor.command_line import taken_options
from spark_azqueue.commands.doctor.finding import say
from spark_azqueue.errors import AzQueueError, InvalidRow
from spark_azqueue.options import parsers
from spark_azqueue.options.option import ParsedOptions
from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.options.transaction import MOST_VERSION
from spark_azqueue.options.transaction import app_id as parse_app_id
from spark_azqueue.service.blobs.references import looks_like_reference
from spark_azqueue.service.encoding import BodyType, Encoding, decode, encode
from spark_azqueue.service.envelopes import BodyEncoding, envelope_text
from spark_azqueue.service.messages import MAX_VISIBILITY_S
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.redaction import shown

from .lines import LinesToSend, pass_over
from .logged import LoggedMessage, LogRange, add_log
from .once import OnceSending
from .report import report
from .scan import ScanCounts
from .sending import AT_ONCE, Groups, Outgoing, Sending
from .shared import (
    QUEUE_TYPE,
    Access,
    ProgressBar,
    access_of,
    add_filters,
    add_max,
    add_rate,
    add_time_to_live,
    as_json,
    check_target,
    ends_on_signals,
    filter_of,
    lines_of,
    moment,
    of_type,
    parser_of,
)

_SHOWN = 5

_SENDER = "spark-azqueue send"

_ONCE = (
    "\nAt least once: the counts say how many further copies there may be. With --transaction-log"
    " each message is there once or not at all; after a kill, repeat it with the same"
    " --txn-version. Takes the SAS letter 'a'; a transaction also 'up'."
)


def send(arguments: list[str]) -> int:
    """Run the command line after the word `send`; return the exit status."""
    parser = parser_of(
        "send",
        "Put lines of JSON as `export` writes them, or raw lines, into a queue. Of a line, 'text'"
        " is put as it is; without it 'body', stored as messageEncoding says. All lines of a file"
        " are checked before the first is sent." + _ONCE,
        "send orders orders.jsonl\n"
        "send orders --raw --rate 100 <bodies.txt\n"
        "send orders rows.jsonl --pack\n"
        "send orders orders.jsonl --transaction-log file:/data/sent --txn-version 7",
    )
    parser.add_argument("queue", type=QUEUE_TYPE, help="the queue")
    parser.add_argument("file", nargs="?", metavar="FILE", help="(default: standard input)")
    parser.add_argument("--raw", action="store_true", help="each line is a body")
    parser.add_argument(
        "--pack",
        action="store_true",
        help="each line is a row, a JSON object: put many into one message, for `unpack`",
    )
    parser.add_argument(
        "--skip-broken", action="store_true", help="skip lines that cannot be sent, and continue"
    )
    _add_put(parser)
    found = parser.given(arguments)
    if found.raw and found.pack:
        parser.error("--raw and --pack both say what a line is: one of the two")
    run = _PutRun.of(parser, found, found.queue, taken_options(parser, found))
    with contextlib.ExitStack() as opened:
        from_file = found.file not in (None, "-")
        try:
            file = opened.enter_context(open(found.file, "rb")) if from_file else sys.stdin
        # ValueError: the name has characters that no file name can have
        except (OSError, ValueError) as error:
            parser.error(f"FILE cannot be read: {getattr(error, 'strerror', None) or error}")
        if file is None:
            parser.error("standard input is closed: name a FILE")
        name = shown(found.file if from_file else "standard input")
        lines = LinesToSend(file.fileno(), name, run.access.encoding, found)
        to_send: _ToSend = _packed(lines) if found.pack else lines
        what = f"packed messages of {name}" if found.pack else f"lines of {name}"
        if stat.S_ISREG(os.fstat(lines.descriptor).st_mode) and not found.skip_broken:
            begin = os.lseek(lines.descriptor, 0, os.SEEK_CUR)
            for _ in lines.groups(Event(), ScanCounts()):
                pass
            os.lseek(lines.descriptor, begin, os.SEEK_SET)
        about = {"command": "send", "queue": found.queue, "file": found.file}
        return run.all(to_send, f"{what} sent to '{found.queue}'", "line", about)


def _packed(lines: LinesToSend) -> _ToSend:
    """Pack the lines. The module is imported here, because packing needs pyarrow."""
    from .packing import PackedLines, row_of

    lines.as_row = row_of
    return PackedLines(lines)


def replay(arguments: list[str]) -> int:
    """Run the command line after the word `replay`; return the exit status."""
    parser = parser_of(
        "replay",
        "Send again what a query has read and committed, from its write-ahead log. A dry run"
        " without --execute." + _ONCE,
        "replay --log blob:logs/orders --from 2026-11-17T08:00:00Z --to-time 2026-11-17T09:00:00Z"
        " --into orders\n"
        "replay --log file:/data/wal --batch 7-12 --where '$.kind=report' --into again --execute",
    )
    parser.add_argument(
        "--into", required=True, type=QUEUE_TYPE, metavar="QUEUE", help="the queue to send it to"
    )
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument(
        "--mark",
        action="store_true",
        help="put them in envelopes (JSON): the text in 'body', the batch in 'replayed_from'",
    )
    add_log(parser, required=True)
    add_filters(parser)
    add_max(parser)
    _add_put(parser)
    found = parser.given(arguments)
    if not found.batch and not (found.since and found.until):
        parser.error("name the batches to send again: --from and --to-time, or --batch")
    options = taken_options(parser, found)
    run = _PutRun.of(parser, found, found.into, options)
    with closing(LogRange(options, found, uncommitted=False)) as log:
        again = _ReplayRun(log, found)
        about = {"command": "replay", "log": found.log, "to": found.into}
        about |= {"executed": found.execute}
        if found.execute:
            what = f"messages in {log.where} sent to '{found.into}'"
            return run.all(again, what, "batch", about)
        run.check()
        again.tell_dry_run(about)
        return 0


def _add_put(parser: argparse.ArgumentParser) -> None:
    add_rate(parser)
    parser.add_argument(
        "--delay",
        type=of_type(parsers.duration(0, MAX_VISIBILITY_S, whole=True)),
        metavar="DURATION",
        help="time until the messages are visible: '10 minutes' (or visibilityDelay)",
    )
    add_time_to_live(
        parser,
        "time until the messages expire; -1: never (default: timeToLive, or 7 days); with"
        " --transaction-log a day more",
    )
    parser.add_argument(
        "--transaction-log",
        metavar="PLACE",
        help="exactly once: as for transactionLog, blob:<container>/<folder> or file:/…",
    )
    parser.add_argument(
        "--txn-version",
        type=of_type(parsers.whole_number(0, MOST_VERSION)),
        metavar="N",
        help="the number of this run: higher than the last one; the same number repeats a run",
    )
    parser.add_argument(
        "--txn-app-id",
        type=of_type(parse_app_id),
        metavar="NAME",
        help=f"whose numbers these are (default: txnAppId, or {_SENDER!r})",
    )


_OF_THE_LOG = frozenset({"blobAccountUrl", "secret.blobConnectionString", "failOnDataLoss"})


class _ToSend(Protocol):
    """Messages to send. at: number of the first line or batch that was not completely yielded
    yet."""

    @property
    def at(self) -> int: ...

    def groups(self, stop: Event, tally: ScanCounts) -> Groups:
        """Yield messages until `stop` is set.

        Raises AzQueueError after all messages before the error were yielded.
        """


@dataclass(frozen=True)
class _PutRun:
    """Common part of `send` and `replay`: the target, the settings, and the report."""

    found: argparse.Namespace
    access: Access
    config: SinkConfig

    @classmethod
    def of(
        cls,
        parser: argparse.ArgumentParser,
        found: argparse.Namespace,
        queue: str,
        options: ParsedOptions,
    ) -> _PutRun:
        """Check arguments and options. Raises InvalidOption, ServiceUnavailable."""
        arguments = {
            "visibilityDelay": found.delay,
            "timeToLive": found.time_to_live,
            "transactionLog": found.transaction_log,
            "txnAppId": found.txn_app_id,
            "txnVersion": found.txn_version,
        }
        given = {name: str(value) for name, value in arguments.items() if value is not None}
        given = options.written | given | {"queue": queue}
        if ("transactionLog" in given) != ("txnVersion" in given):
            parser.error(
                "--transaction-log and --txn-version go together (or transactionLog and txnVersion"
                " of the options): the place, and the number of this run"
            )
        if "transactionLog" in given:
            if found.rate:
                parser.error("--rate: with a transaction log all become visible at the end")
            given.setdefault("txnAppId", _SENDER)
        elif "log" in found:  # these options may be for the log that is read
            given = {name: text for name, text in given.items() if name not in _OF_THE_LOG}
        config = sink_config(given)
        # the texts that are read are already encoded
        return cls(found, access_of(options), replace(config, encoding=Encoding.NONE))

    @property
    def queue(self) -> str:
        """The target queue."""
        assert self.config.queue
        return self.config.queue

    def check(self) -> None:
        """Raise ServiceError if the queue does not exist, or the credential may not put into it."""
        executed = getattr(self.found, "execute", True)
        with closing(QueueClient(self.access.account)) as client:
            check_target(client, self.access, self.queue, executed=executed)

    def all(
        self,
        source: _ToSend,
        what: str,
        place: str,
        about: dict[str, Any],
    ) -> int:
        """Send the messages, and return the exit status. what: text that follows the counts in the
        report. place: "line" or "batch".
        """
        found, tally, again = self.found, ScanCounts(), ""
        said: list[str] = []
        progress = ProgressBar(sys.stderr, "sent", None, most=getattr(found, "max", None))
        self.check()
        with (
            closing(QueueClient(self.access.account)) as client,
            closing(progress),
            ends_on_signals() as stop,
        ):
            if self.config.transaction:
                once = OnceSending(self.config, tally, stop)
                result = once.run(source.groups(stop, tally))
                said, again = once.said, once.again
                about |= {"recorded_before": once.is_before}
                if once.is_before:
                    what += (
                        f": --txn-version {once.version} was recorded before, and nothing was sent"
                        " by this run"
                    )
            else:
                sending = Sending(
                    client,
                    self.access.ref(self.queue),
                    *(tally, stop, progress, place),
                    *(self.config.visibility_delay, self.config.time_to_live, found.rate),
                    most=self.config.parallelism,
                    skips=getattr(found, "skip_broken", False),
                )
                result = sending.run(source.groups(stop, tally))
                if left := sending.first_left or source.at:
                    again = f"All before {place} {left:,} are sent"
                    is_cut = sending.first_left or place == "batch"
                    again += ", and perhaps some from it on." if is_cut else "."
        return report(result, what, about, is_json=found.json, more=said, again=again)


@dataclass(frozen=True)
class _ReplayRun:
    """Messages of a log that the arguments select, to put into a queue."""

    log: LogRange
    found: argparse.Namespace

    def groups(self, stop: Event, tally: ScanCounts) -> Iterator[list[Outgoing]]:
        """Yield the messages to put. Messages that cannot be put are counted and skipped.

        Raises the errors of `LogRange`, after all messages before the error were yielded.
        """
        group: list[Outgoing] = []
        try:
            for _, each in self._meant(tally, stop):
                group.append(each)
                if len(group) == AT_ONCE:
                    yield group
                    group = []
        except AzQueueError:
            yield group
            raise
        yield group

    @property
    def at(self) -> int:
        """Number of the batch that is being read."""
        return self.log.at

    def _meant(self, tally: ScanCounts, stop: Event) -> Iterator[tuple[LoggedMessage, Outgoing]]:
        only, meant = filter_of(self.found, Encoding.NONE), 0
        for each in self.log:
            if stop.is_set():
                return
            tally.looked += 1
            is_meant = replace(only, encoding=each.encoding).found_in(each.message.text)
            tally.undecided += is_meant is None
            if not is_meant:
                continue
            if meant == self.found.max:
                return
            meant += 1
            try:
                yield each, Outgoing(each.batch, self._text(each))
            except InvalidRow as error:
                named = f"message {shown(each.message.message_id, 64)} of batch {each.batch}"
                pass_over(tally, InvalidRow(f"{named}: {error.sentence}"))

    def _text(self, each: LoggedMessage) -> str:
        message = each.message
        if not message.intact:
            raise InvalidRow("its text was damaged when it was read")
        if looks_like_reference(decode(message.text, Encoding.AUTO, BodyType.BINARY)):
            raise InvalidRow(
                "its body is in a blob, which is deleted with its batch: read it with 'readLog',"
                " and write it with largeBody=blob"
            )
        if not self.found.mark:
            return message.text
        marked = envelope_text(
            *(message.queue.name, message.message_id, None, message.text, BodyEncoding.STORED),
            insertion_time=moment(message.insertion_time) or "",
            dequeue_count=message.dequeue_count,
            replayed_from=f"batch {each.batch} of {self.log.where}",
        )
        return encode(marked, each.encoding)

    def tell_dry_run(self, about: dict[str, Any]) -> None:
        """Print which messages a run with `--execute` would send."""
        tally, meant, is_json = ScanCounts(), 0, self.found.json
        first: list[LoggedMessage] = []
        last = None
        for last, _ in self._meant(tally, Event()):
            meant += 1
            if len(first) < _SHOWN:
                first.append(last)
        if is_json:
            print(as_json({**about, "looked": tally.looked, "meant": meant}))
            return
        say(
            f"Of {tally.looked:,} messages in {self.log.where}, {meant:,} would be sent to"
            f" '{self.found.into}'."
        )
        if last:
            said = " to ".join(
                f"{each.batch} ({moment(each.logged_at)})" for each in (first[0], last)
            )
            say(f"They are of batches {said}.")
        for each in first:
            now = max(each.logged_at, each.message.insertion_time) / 1_000_000
            say("\n".join(lines_of(each.message, each.encoding, now)))
        say("Nothing was sent. To do it, add --execute.")
