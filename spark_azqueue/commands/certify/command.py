"""`python -m spark_azqueue certify`: tests the assumptions of this package on an account.

    python -m spark_azqueue certify --options-file conf/source.options
    python -m spark_azqueue certify --report certified        (certified.md and certified.json)
    python -m spark_azqueue certify --load

Exit status: 0 if the account matches all assumptions, 1 if an assumption differs or the account
cannot be used, 2 for a malformed command line, 130 after Ctrl-C. The created queues and container
are always removed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_azqueue.errors import AzQueueError
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE, read_account
from spark_azqueue.options.blobs import read_blob_account
from spark_azqueue.service.account import Account
from spark_azqueue.service.queues.reach import check_reachable
from spark_azqueue.service.redaction import escaped

from ..doctor.command_line import Parser, add_options, taken_options
from ..doctor.finding import advice_on, say
from .assumptions import ASSUMPTIONS
from .measures import LOAD_REQUESTS, LOAD_S, Measure, introduction, latencies, load
from .sandbox import MOST_REQUESTS, PREFIX, WITHIN_S, NotTried, Sandbox
from .trial import Results, Trial, line, rows, write

_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)
USUAL_REQUESTS = 400
"""Approximate number of requests of a run without `--load`."""


def main(arguments: Sequence[str]) -> int:
    """Run the command line after the word `certify`; return the exit status."""
    parser = Parser(
        "certify",
        description="Try on an account what this package assumes about the service, in queues and a"
        f" container of its own ({PREFIX}…), which are removed at the end.",
        epilog=f"The credential comes from options, or from {ENVIRONMENT_VARIABLE} in the"
        " environment. It may create queues and containers: a key, an account SAS, or a role.",
    )
    add_options(parser)
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write FILE.md and FILE.json, without secrets"
    )
    parser.add_argument(
        "--load",
        action="store_true",
        help=f"also put into one queue until it throttles: {LOAD_S:.0f} s or"
        f" {LOAD_REQUESTS:,} requests",
    )
    given = parser.given(arguments)
    # If a shell starts the command in the background, the command ignores both signals by default.
    for number in _INTERRUPTIONS:
        signal.signal(number, signal.default_int_handler)
    try:
        account, blobs = accounts(taken_options(parser, given))
        check_reachable(account)
    except AzQueueError as error:
        say(advice_on(error), is_error=True)
        return 1
    return run(account, blobs, report=given.report, with_load=given.load)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore further signals while the context is entered."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _INTERRUPTIONS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def accounts(options: Mapping[str, Any]) -> tuple[Account, Account | None]:
    """Return the account of the queues, and the account of the blobs (None if the options name
    none).

    options: parsed options by name. Raises InvalidOption.
    """
    account = read_account(options, os.environ)
    try:
        blobs = read_blob_account(options, account)
    except AzQueueError:
        return account, None
    return account, blobs


def run(
    account: Account,
    blobs: Account | None,
    *,
    report: Path | None = None,
    with_load: bool = False,
    wait: Callable[[float], object] = time.sleep,
) -> int:
    """Test all assumptions, print the results, and return the exit status. wait: sleeps for a
    number of seconds.
    """
    price = f"about {USUAL_REQUESTS} requests, {MOST_REQUESTS:,} at most, in {WITHIN_S:.0f} s"
    if with_load:
        price += f"; with --load up to {LOAD_REQUESTS:,} more in {LOAD_S:.0f} s"
    say(f"Trying {len(ASSUMPTIONS)} assumptions on account '{account.name}': {price}.")
    say(f"All of it in queues and a container of its own, {PREFIX}…, removed at the end.")
    began = time.monotonic()
    found: list[Trial] = []
    measures: list[Measure] = []
    status = 0
    box = Sandbox(account, blobs, wait=wait)
    try:
        try:
            measures += introduction(box)
        except NotTried as reason:
            say(f"BAD  {reason}", is_error=True)
            return 1
        for row in rows(box):
            if not found or found[-1].assumption.area is not row.assumption.area:
                say(f"\n{row.assumption.area.value}:")
            found.append(row)
            say(line(row))
        try:
            measures += latencies(box)
            if with_load:
                measures += load(box)
        except NotTried as reason:
            measures.append(Measure("not measured", str(reason)))
    except AzQueueError as error:
        say(advice_on(error), is_error=True)
        status = 1
    except KeyboardInterrupt:
        say("\ninterrupted: removing what was made", is_error=True)
        status = 130
    finally:
        with _undisturbed():
            left = box.close()
    for each in left:
        say(f"BAD  could not remove {escaped(each)}", is_error=True)
    results = Results(found, measures, box.requests, time.monotonic() - began, left)
    print()
    for measure in measures:
        say(f"     {measure.name}: {escaped(measure.value)}")
    say(f"\n{results.summary}")
    if report is not None and found:
        try:
            say("written: " + ", ".join(map(str, write(results, report, account.name))))
        except OSError as error:
            say(f"the report cannot be written: {type(error).__name__}", is_error=True)
            status = status or 1
    return status or (1 if results.differ or left else 0)
