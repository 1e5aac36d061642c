"""Parts that the commands on queues share: options, account, Ctrl-C, and output.

Any sender can choose the bodies of messages. So characters that could control a terminal are
escaped.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, TextIO, TypeVar

from spark_azqueue.commands.doctor.command_line import Parser, add_options
from spark_azqueue.errors import AccessDenied, QueueNotFound
from spark_azqueue.options import parsers
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE, read_account
from spark_azqueue.options.choices import IsolationLevel
from spark_azqueue.options.option import ParsedOptions
from spark_azqueue.service.account import Account
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.message_fields import Form
from spark_azqueue.service.messages import FIELDS, UNKNOWN_TIME, Message, QueueRef, queue_name
from spark_azqueue.service.queues.calls import Count, Peeked
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.reach import check_reachable
from spark_azqueue.service.redaction import shown
from spark_azqueue.service.retry import CONTROL

from .filters import AtPath, Filter, at_path, body_of
from .packed import pack_fields, pack_lines, rows_of_pack
from .scan import ScanCounts

T = TypeVar("T")

_MOST_RATE = 1_000
_YEARS_S = 100 * 365 * 86_400.0

_STOPPING = "ending after the messages under way; a second signal ends it immediately"

_WIDTH = 79

CREDENTIAL = (
    f"The credential comes from options, or from {ENVIRONMENT_VARIABLE} in the environment. Other"
    " users can see a command line in the list of processes: keep secrets out of it.\n"
    "Exit status: 0 if all was done; 1 if something was not, or may be there twice, or after an"
    " error; 2 for a malformed command line; 3 see --all-or-fail; 130 after Ctrl-C."
)

SHOWN = 200
"""Maximum number of characters of a body on a printed line."""

_EVERY_S = 0.2
_NARROWEST, _WIDEST = 10, 30
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Access:
    """The account of a command, and how bodies are stored in its queues."""

    account: Account
    encoding: Encoding
    creates: bool = False
    """Value of `createQueue`: True to create a missing target queue."""
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED

    def ref(self, name: str) -> QueueRef:
        """Return the queue with this name."""
        return QueueRef(self.account.name, name)


def parser_of(command: str, description: str, examples: str) -> Parser:
    """Return a parser with the options that all commands have. examples: example command lines, one
    per line.
    """
    lines = "".join(f"  python -m spark_azqueue {line}\n" for line in examples.splitlines())
    paragraphs = [textwrap.fill(each, _WIDTH) for each in description.splitlines()]
    ends = [textwrap.fill(each, _WIDTH) for each in CREDENTIAL.splitlines()]
    parser = Parser(
        command,
        description="\n".join(paragraphs),
        epilog="\n".join(["examples:", lines, *ends]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    return parser


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the options that select messages. A message must match all given options."""
    group = parser.add_argument_group(
        "which messages (all conditions must hold, for a pack in one row; without any: all)"
    )
    group.add_argument(
        "--contains",
        action="append",
        default=[],
        type=of_type(_part),
        metavar="TEXT",
        help="TEXT is in the body",
    )
    group.add_argument(
        "--where",
        action="append",
        default=[],
        type=of_type(at_path),
        metavar="PATH[=VALUE]",
        help="the body is JSON, and has a value at this path (this VALUE): '$.customer.id=42'",
    )
    group.add_argument(
        "--reason",
        action="append",
        default=[],
        type=of_type(_part),
        metavar="TEXT",
        help="TEXT is in the reason of a message that was dead-lettered",
    )


def add_ages(parser: argparse.ArgumentParser) -> None:
    """Add the options that select messages by their age; see `put_between`."""
    for name, which in (("older", "at least this long ago"), ("newer", "at most this long ago")):
        parser.add_argument(
            f"--{name}-than",
            type=of_type(parsers.duration(1, _YEARS_S)),
            metavar="DURATION",
            help=f"only messages put into the queue {which}: '2 days', '90 minutes'",
        )


def put_between(found: argparse.Namespace, now: float) -> tuple[int | None, int | None]:
    """Return `put_before` and `put_after` of a `TransferPlan`.

    now: current time by the service's clock, in seconds since 1970.
    """

    def at(age: float | None) -> int | None:
        return None if age is None else int((now - age) * 1_000_000)

    return at(found.older_than), at(found.newer_than)


def add_max(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the maximum number of messages."""
    parser.add_argument(
        "--max",
        type=of_type(parsers.whole_number(1, 10**9)),
        metavar="N",
        help="end after N messages",
    )


def add_all_or_fail(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes the command fail if it may have missed messages."""
    parser.add_argument(
        "--all-or-fail",
        action="store_true",
        help="end with status 3 if the queue may hold messages that were not looked at: leased by a"
        " consumer, delayed, or put meanwhile",
    )


def add_unpack(parser: argparse.ArgumentParser) -> None:
    """Add the option that shows the rows of packed messages."""
    parser.add_argument("--unpack", action="store_true", help="show the rows of packed messages")


def add_rate(parser: argparse.ArgumentParser) -> None:
    """Add the option for the maximum number of messages per second."""
    parser.add_argument(
        "--rate",
        type=of_type(parsers.whole_number(1, _MOST_RATE)),
        metavar="N",
        help=f"at most N messages a second, 1 to {_MOST_RATE:,} (default: as fast as possible)",
    )


def add_time_to_live(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add the option for the time to live. meaning: help text, with the default."""
    parser.add_argument(
        "--time-to-live", type=of_type(parsers.time_to_live), metavar="DURATION", help=meaning
    )


def _part(written: str) -> str:
    """Check a text to search for, and return it. Raises ValueError if the text is empty.

    An empty text, for example from an unset shell variable, would match all messages.
    """
    if not written:
        raise ValueError("a text that is not empty: every message holds the empty one")
    return written


def of_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Wrap `parse` for argparse, because argparse's own message for a ValueError would show the
    value."""

    def parsed(written: str) -> T:
        try:
            return parse(written)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"expected {error}") from None

    return parsed


QUEUE_TYPE = of_type(queue_name)


def access_of(options: ParsedOptions) -> Access:
    """Return the account in the options of a command, after checking that the account can be
    reached.

    Raises InvalidOption, ServiceUnavailable.
    """
    account = read_account(options, os.environ)
    check_reachable(account)
    return Access(
        account, options["messageEncoding"], options["createQueue"], options["isolationLevel"]
    )


def check_target(client: QueueClient, access: Access, name: str, *, executed: bool) -> None:
    """Raise ServiceError if the credential may not put messages into this queue.

    With createQueue=true, a missing queue is created if the command is `executed`.
    """
    try:
        CONTROL(client.queue(access.ref(name)).check_put)
    except QueueNotFound:
        if not access.creates:
            raise
        if executed:
            client.create(access.ref(name))


def filter_of(found: argparse.Namespace, encoding: Encoding) -> Filter:
    """Return the filter that the arguments describe."""
    paths: list[AtPath] = found.where
    parts = tuple(found.contains), tuple(paths), tuple(found.reason)
    return Filter(*parts, encoding, rows_of=rows_of_pack)


def count_of(client: QueueClient, queue: QueueRef) -> int | None:
    """Return the approximate number of messages; None if the credential may not read it."""
    try:
        found: int = CONTROL(client.now, Count(queue))
        return found
    except AccessDenied:
        return None


@contextlib.contextmanager
def ends_on_signals(said: str = _STOPPING) -> Iterator[threading.Event]:
    """Yield an event that is set by the first SIGINT, SIGTERM or SIGHUP. said: text that is printed
    to stderr at this signal.

    The second signal raises KeyboardInterrupt. Under `nohup`, SIGHUP is ignored.
    """
    stop = threading.Event()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        for each in numbers:
            signal.signal(each, signal.default_int_handler)
        # the signal may have interrupted `print` in the middle of a line
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"\n{said}\n".encode())

    before: dict[signal.Signals, Any] = {each: signal.signal(each, handle) for each in numbers}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


# ── what they print ───────────────────────────────────────────────────────────────────────────────


def as_json(value: Mapping[str, Any]) -> str:
    """Return one line of JSON, in printable ASCII."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def age_of(seconds: float) -> str:
    """Return a duration in its two largest units: "3 d 4 h", "12 s"."""
    left = max(0, int(seconds))
    parts = []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def now_of(peeked: Peeked) -> float:
    """Return the time of an answer, in seconds since 1970; this machine's time if the answer has
    none.
    """
    return time.time() if peeked.answered_at is None else peeked.answered_at / 1_000_000


def fields_of(message: Message, encoding: Encoding, *, unpack: bool = False) -> dict[str, Any]:
    """Return the fields of a message for the JSON output: its stored text, its body, and the fields
    of its envelope.

    unpack: True to include the rows of a packed message.
    """
    body = body_of(message.text, encoding)
    fields: dict[str, Any] = {
        each.name: _plain(each.form, getattr(message, each.name))
        for each in FIELDS
        if each.form is not Form.RECEIPT
    }
    fields |= {"bytes": message.size, "body": body.text, "text": fields.pop("text")}
    if body.envelope:
        fields["envelope"] = {
            "reason": body.envelope.reason,
            "queue": body.envelope.queue,
            "message_id": body.envelope.message_id,
        }
    if pack := pack_fields(message.text, body, rows=unpack):
        fields["pack"] = pack
    return fields


def lines_of(
    message: Message,
    encoding: Encoding,
    now: float,
    *,
    is_whole: bool = False,
    unpack: bool = False,
) -> list[str]:
    """Return a message as lines to print. now: seconds since 1970. is_whole: True to return the
    body uncut.

    For a packed message, the lines show its format. unpack: True to show the rows as well.
    """
    body = body_of(message.text, encoding)
    age = age_of(now - message.insertion_time / 1_000_000)
    if message.insertion_time == UNKNOWN_TIME:
        age = "unknown"
    head = (
        f"{message.message_id}  age {age}, dequeued {message.dequeue_count:,} times,"
        f" {message.size:,} bytes"
    )
    lines = [head]
    if not message.intact:
        lines.append("  (damaged: it holds a character that XML does not allow)")
    if body.envelope:
        came = f"{shown(body.envelope.queue, 64)} {shown(body.envelope.message_id, 64)}"
        lines.append(f"  dead-lettered from {came}: {shown(body.reason or 'no reason', 400)}")
    if pack := pack_fields(message.text, body, rows=unpack):
        return [*lines, *(f"  {line}" for line in pack_lines(pack, is_whole=is_whole))]
    most = len(body.text) if is_whole else SHOWN
    text = shown(body.text, max(1, most), lines=is_whole)
    lines += [f"  {line}" for line in text.split("\n")]
    return lines


def _plain(form: Form, value: Any) -> Any:
    if form is Form.QUEUE:
        return value.name
    return moment(value or UNKNOWN_TIME) if form in (Form.TIME, Form.MAYBE_TIME) else value


def moment(microseconds: int) -> str | None:
    """Convert a time in microseconds since 1970 to text for JSON; None if the time is unknown."""
    if microseconds == UNKNOWN_TIME:
        return None
    try:
        at = datetime.datetime.fromtimestamp(microseconds / 1_000_000, datetime.timezone.utc)
    # the time may be from a log, which other programs can write
    except (ValueError, OverflowError, OSError):
        return None
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


class ProgressBar:
    """A progress bar on one line of a terminal. Writes nothing if the stream is not a terminal."""

    def __init__(
        self,
        stream: TextIO,
        verb: str,
        total: int | None,
        clock: Callable[[], float] = time.monotonic,
        *,
        most: int | None = None,
        columns: int | None = None,
    ) -> None:
        """verb: the action, such as "moved". total: approximate number of messages, or None if
        unknown. clock: returns a time in seconds.

        most: maximum number of messages of the run. columns: width of the terminal; None to ask the
        terminal.
        """
        self._stream, self._verb, self._total, self._clock = stream, verb, total, clock
        self._most, self._columns = most, columns
        self._is_shown = stream.isatty()
        self._began = clock()
        self._written_at = float("-inf")
        self._width = 0

    def __call__(self, tally: ScanCounts) -> None:
        """Show the progress, at most a few times per second."""
        now = self._clock()
        if not self._is_shown or now - self._written_at < _EVERY_S:
            return
        self._written_at = now
        took = max(now - self._began, _EVERY_S)
        of = "" if self._total is None else f" of about {self._total:,}"
        looked = f"{tally.looked:,}{of} looked at"
        text = f"{tally.done:,} {self._verb}, {looked}, {tally.done / took:,.0f}/s"
        columns = self._columns or shutil.get_terminal_size().columns
        part = _part_done(tally, self._total, self._most)
        # The last column stays free, because some terminals begin a new line after it.
        self._write((text if part is None else bar_of(part, took, text, columns))[: columns - 1])

    def close(self) -> None:
        """Remove the line of the bar."""
        if self._is_shown and self._width:
            self._write("")
            self._write("")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the run must not end because the terminal was closed
            self._stream.write(f"\r{text:<{self._width}}")
            self._stream.flush()
        self._width = len(text)


def bar_of(part: float, took: float, text: str, columns: int) -> str:
    """Return a bar followed by a text. The bar has the width that the text leaves. took: seconds so
    far.
    """
    left = f", {age_of(took / part - took)} left" if 0 < part < 1 else ""
    about = f" {part:4.0%}{left}  {text}"
    width = min(_WIDEST, max(_NARROWEST, columns - len(about) - len("[]") - 1))
    done = int(part * width)
    return f"[{'#' * done}{'.' * (width - done)}]{about}"


def _part_done(tally: ScanCounts, total: int | None, most: int | None) -> float | None:
    """Return the share of the run that is finished; None if the total is unknown."""
    looked = [tally.looked / total] if total else []
    done = [tally.done / most] if most else []
    # The total includes leased messages, and may be older than the run.
    return min(1.0, max(looked + done)) if looked or done else None
