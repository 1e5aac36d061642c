"""A fault run: messages through the source while its Spark program is killed again and again.

    make soak MESSAGES=100000 KILLS=30 FAULTS=0.05 QUEUES=3 SEED=1
    make soak LOG=blob DELETE_AFTER=log
    make soak LOG=file DELETE_AFTER=log LEASE_ON=executors QUEUES=6
    make soak CHAIN=1
    make soak LOG=blob CHANGE_DECODING=1
    make soak TARGET=azurite

The service is the strict fake, faults on a share of all requests to the end, or Azurite without
faults. At random moments the program is killed (or stopped politely now and then), and started
again as a job scheduler would. When all is sent and drained, every message is accounted for.
With LOG the query has a write-ahead log and a sink that skips batches that it has: then no message
may come twice. Faults hit the requests to blobs as well, and the query is started twice at times.
With CHAIN the program has two queries with logs: from the queues by transactions into another
queue, and from there into a table. No message may be lost on the way, or come twice.

Exit status: 0 where nothing was lost, messages came twice only where the promises allow it, and
the queue is empty; 1 where not; 130 after Ctrl-C. Works in `.soak/`, and leaves its files there
after a failure.
"""

from __future__ import annotations

import argparse
import operator
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from audit import audit
from campaign import Campaign
from chain_audit import audit_chain
from decoding import is_body
from outcomes import given_up
from report import Findings, report
from targets import AzuriteTarget, Fake, Target
from work import Chain, Hop

_DEFAULTS = {"fake": (20_000, 10, 0.05, 5_000), "azurite": (600, 5, 0.0, 300)}
"""Messages, kills, faults, backlog. Azurite gets slow when it holds many messages."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", choices=_DEFAULTS, default="fake")
    parser.add_argument("--messages", type=int, help="how many to send")
    parser.add_argument("--kills", type=int, help="how many kills (polite stops not counted)")
    parser.add_argument("--faults", type=float, help="share of requests that go wrong, 0 to 0.5")
    parser.add_argument("--backlog", type=int, help="most messages in the queue at a time")
    parser.add_argument("--visibility", type=int, default=30, help="visibilityTimeout, seconds")
    parser.add_argument("--queues", type=int, default=1, help="how many queues one stream reads")
    parser.add_argument("--log", choices=("file", "blob"), help="with a write-ahead log there")
    parser.add_argument(
        "--chain", action="store_true", help="two hops, the first by transactions; --log is blob"
    )
    parser.add_argument("--delete-after", choices=("commit", "log"), help="option deleteAfter")
    parser.add_argument("--lease-on", choices=("driver", "executors"), help="option leaseOn")
    parser.add_argument("--max-dequeue-count", type=int, help="option maxDequeueCount, with a log")
    parser.add_argument(
        "--change-decoding",
        action="store_true",
        help="other messageEncoding, bodyType, … in a life",
    )
    parser.add_argument("--seed", type=int, help="default: a new one")
    given = parser.parse_args()
    defaults = dict(zip(("messages", "kills", "faults", "backlog"), _DEFAULTS[given.target]))  # noqa: B905
    for name, value in defaults.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1_000_000)
    if given.chain:
        given.log = given.log or "blob"
    if given.chain and (given.target == "azurite" or given.max_dequeue_count):
        parser.error("--chain needs the fake, and goes without --max-dequeue-count")
    if given.target == "azurite" and given.faults:
        parser.error("Azurite has no faults to order: leave --faults away")
    if given.target == "azurite" and given.queues != 1:
        parser.error("with Azurite there is one queue: leave --queues away")
    if given.target == "azurite" and given.log == "blob":
        parser.error("this Azurite has no blobs: take --log file")
    if given.delete_after and not given.log:
        parser.error("--delete-after goes with --log")
    if given.lease_on == "executors" and (given.delete_after != "log" or given.chain):
        parser.error("--lease-on executors goes with --delete-after log, and without --chain")
    if given.max_dequeue_count and (not given.log or given.delete_after == "log"):
        parser.error("--max-dequeue-count goes with --log, and not with --delete-after log")
    if given.max_dequeue_count and given.target == "azurite":
        parser.error("--max-dequeue-count needs poison queues, which the fake alone has")
    if given.change_decoding and not given.log:
        parser.error("--change-decoding goes with --log, or --chain")
    if not 1 <= given.queues <= 64:
        parser.error("--queues from 1 to 64")
    if given.messages < 1 or given.kills < 0 or not 0 <= given.faults <= 0.5:
        parser.error("--messages from 1, --kills from 0, --faults from 0 to 0.5")
    return given


def _made(given: argparse.Namespace, folder: Path) -> tuple[Target, Hop | Chain]:
    """The service, and what Spark does with it."""
    if given.target == "azurite":
        azurite = AzuriteTarget()
        return azurite, Hop(given, azurite, folder)
    fake = Fake(given.seed, given.faults, given.queues)
    return fake, (Chain if given.chain else Hop)(given, fake, folder)


def _audited(
    given: argparse.Namespace, campaign: Campaign, target: Target, work: Hop | Chain
) -> Findings:
    """Account for every message."""
    same = is_body if given.change_decoding else operator.eq
    if isinstance(work, Chain):
        return audit_chain(campaign.sent, work.table, work.middle(), work.told, is_body=same)
    return audit(
        campaign.sent,
        work.sink,
        campaign.lives,
        target,
        exact=work.is_exact,
        given_up=given_up(work.options) if given.max_dequeue_count else {},
        aside=target.set_aside(),
        is_body=same,
    )


def main() -> int:
    """Run it; return the exit status."""
    given = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    folder = Path(__file__).resolve().parents[2] / ".soak" / f"{given.target}-{given.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(
        f"soak: {given.messages} messages, {given.queues} queues, {given.kills} kills,"
        f" faults {given.faults:g}, {'a chain, ' if given.chain else ''}target {given.target},"
        f" log {given.log}, deletes after {given.delete_after or 'commit'},"
        f" leases on {given.lease_on or 'driver'},"
        f"{' decoding changes,' if given.change_decoding else ''} seed {given.seed}",
        flush=True,
    )
    began = time.monotonic()
    target: Target | None = None
    campaign: Campaign | None = None
    try:
        target, work = _made(given, folder)
        campaign = Campaign(given, target, work, folder)
        problems = campaign.run()
        findings = _audited(given, campaign, target, work)
        good, text = report(given, campaign, target, findings, problems, time.monotonic() - began)
        print(text, flush=True)
        (folder.parent / "report.txt").write_text(text + "\n", encoding="utf-8")
        if good:
            shutil.rmtree(folder)
        else:
            print(f"FAILED: seed {given.seed}; its files are in {folder}", flush=True)
        return 0 if good else 1
    except KeyboardInterrupt:
        print(f"\nInterrupted (seed {given.seed})", flush=True)
        return 130
    finally:
        # A second Ctrl-C must not leave a process behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if campaign:
            campaign.close()
        if target:
            target.stop()


if __name__ == "__main__":
    sys.exit(main())
