"""What the commands on queues share: their options, the account, and how Ctrl-C ends them."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from spark_azqueue.doctor.command_line import Parser, add_options, options_of
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.options.parse import account_options
from spark_azqueue.service.account import Account
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.messages import QueueRef, queue_name
from spark_azqueue.service.queues.reach import check_reachable

from .filters import AtPath, Filter, at_path

T = TypeVar("T")

_STOPPING = b"\nending, after the messages under way; once more ends it at once\n"

_WIDTH = 79

CREDENTIAL = (
    f"The credential comes from options, or from {ENVIRONMENT_VARIABLE} in the environment. Other"
    " users can see a command line in the list of processes: keep secrets out of it.\n"
    "Exit status: 0 if all was done; 1 if something was not, or may be there twice, or after an"
    " error; 2 for a malformed command line; 130 after Ctrl-C."
)


@dataclass(frozen=True)
class Access:
    """The account of a command, and how bodies are stored in its queues."""

    account: Account
    encoding: Encoding

    def ref(self, name: str) -> QueueRef:
        """The queue of this name."""
        return QueueRef(self.account.name, name)


def parser_of(command: str, description: str, examples: str) -> Parser:
    """A parser with the options that all commands have. examples: one per line."""
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
    """The options that select messages; a message must fit all that are given."""
    group = parser.add_argument_group("which messages (all of them must fit; without any: all)")
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
        help="TEXT is in the reason of a message that was set aside with poisonFormat=letter, or"
        " by settle",
    )


def _part(written: str) -> str:
    """A text to look for. An empty one, of a variable that is not set, would fit all messages."""
    if not written:
        raise ValueError("a text that is not empty: every message holds the empty one")
    return written


def of_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """`parse` for argparse, whose own message for a ValueError would repeat the value."""

    def parsed(written: str) -> T:
        try:
            return parse(written)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"expected {error}") from None

    return parsed


QUEUE_TYPE = of_type(queue_name)


def access_of(parser: argparse.ArgumentParser, found: argparse.Namespace) -> Access:
    """The account that the options name; checked to be reachable.

    Raises InvalidOption, ServiceUnavailable.
    """
    options = options_of(parser, found)
    parsed, account = account_options(options)
    check_reachable(account)
    return Access(account, parsed["messageEncoding"])


def filter_of(found: argparse.Namespace, encoding: Encoding) -> Filter:
    """The filter that the arguments describe."""
    paths: list[AtPath] = found.where
    return Filter(tuple(found.contains), tuple(paths), tuple(found.reason), encoding)


@contextlib.contextmanager
def ends_on_signals() -> Iterator[threading.Event]:
    """Give an event that the first SIGINT, SIGTERM or SIGHUP sets.

    The second raises KeyboardInterrupt. SIGHUP is left alone under `nohup`, which ignores it.
    """
    stop = threading.Event()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        for each in numbers:
            signal.signal(each, signal.default_int_handler)
        with contextlib.suppress(OSError):  # `print` may be in the middle of a line
            os.write(sys.stderr.fileno(), _STOPPING)

    before: dict[signal.Signals, Any] = {each: signal.signal(each, handle) for each in numbers}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
