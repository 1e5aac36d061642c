"""Kills and interruptions in the middle: no message is lost, and few are copied."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from accounts import account_of
from budget import more

from spark_azqueue.commands.scan import LEASE_S, End, TransferPlan
from spark_azqueue.commands.transfer import Transfer
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Delete, Dequeue
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.testing import Fault

ROOT = Path(__file__).resolve().parents[3]
FROM, TO = "orders-poison", "orders"
SENT = [f"message {number}" for number in range(100)]
PATIENCE_S = 60


@pytest.fixture
def shop(fake):
    fake.create_queue(FROM)
    fake.create_queue(TO)
    for text in SENT:
        fake.put(FROM, text)
    return fake


def texts(fake, queue):
    return [message.text for message in fake.messages(queue)]


def begin(fake, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "spark_azqueue", *arguments, "--execute", "--json"],
        env=os.environ | {ENVIRONMENT_VARIABLE: fake.connection_string},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(fake, *arguments):
    process = begin(fake, *arguments)
    out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, json.loads(out)


RUNS = {
    "redrive": ["redrive", FROM],
    "move": ["move", FROM, "--to", TO, "--contains", "message"],
    "purge": ["purge", FROM, "--contains", "message"],
}
MOMENTS = [
    ("dequeue", FROM, 2),
    ("put", TO, 40),
    ("delete", FROM, 40),
    ("delete", FROM, 64),
]
KILLS = [
    (command, *moment)
    for command in RUNS
    for moment in MOMENTS
    if moment[0] != "put" or command != "purge"  # purge puts nothing
]


@pytest.mark.parametrize(("command", "op", "queue", "nth"), [*KILLS, ("purge", "delete", FROM, 1)])
def test_killed_at_any_moment_nothing_is_lost_and_the_next_run_ends_it(
    shop, command, op, queue, nth
):
    # Given a run that waits for an answer in the middle; the request has taken effect
    shop.faults.add(Fault(op, "slow", queue=queue, nth=nth, seconds=600))
    process = begin(shop, *RUNS[command])
    shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)

    # When it is killed
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    shop.faults.clear()

    # Then each message is in one of the queues, and those of one answer at most in both
    there, here = texts(shop, TO), texts(shop, FROM)
    if command == "purge":
        assert there == []
        assert len(here) >= 100 - 2 * 32  # it was not beyond the second answer
    else:
        assert {*there, *here} == set(SENT)
        assert len(there) + len(here) - len(SENT) <= 32

    # And the next run, after the leases, finishes. (What was on its way to the service at the kill
    # may have arrived after it.)
    shop.clock.advance(LEASE_S)
    status, told = run(shop, *RUNS[command])
    assert (status, told["twice"], told["maybe_twice"]) == (0, 0, 0)
    assert texts(shop, FROM) == []
    if command != "purge":
        assert set(texts(shop, TO)) == set(SENT)
        assert len(texts(shop, TO)) <= len(SENT) + 32


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *more(signal.SIGINT, signal.SIGHUP),
    ],
)
def test_an_interruption_ends_with_whole_messages_and_releases_the_others(shop, number):
    # Given a run that keeps messages that do not fit, and waits for an answer
    shop.put(FROM, "other")
    shop.faults.add(Fault("put", "slow", queue=TO, nth=40, seconds=2))
    before = signal.signal(number, signal.SIG_DFL)  # the tests may run under nohup
    try:
        process = begin(shop, "redrive", FROM, "--contains", "message")
    finally:
        signal.signal(number, before)
    shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)

    # When it is interrupted
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)

    # Then it has finished what was under way, and says so
    assert "a second signal ends it immediately" in err
    told = json.loads(out)
    assert (process.returncode, told["ended"]) == (130, "interrupted")
    there, here = texts(shop, TO), texts(shop, FROM)
    assert sorted(there + here) == sorted([*SENT, "other"])
    assert len(there) == told["done"]
    assert shop.visible(FROM) == len(here)


@pytest.mark.parametrize("number", [signal.SIGTERM, *more(signal.SIGINT, signal.SIGHUP)])
@pytest.mark.parametrize("arguments", [["redrive", FROM], ["send", TO, "-", "--pack"]])
def test_a_signal_before_a_run_has_begun_ends_it_with_the_same_status(shop, number, arguments):
    """While it checks the queues."""
    shop.faults.add(Fault("*", "slow", nth=1, seconds=600))
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "spark_azqueue", *arguments],
            env=os.environ | {ENVIRONMENT_VARIABLE: shop.connection_string},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(number, before)
    shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted"
    assert sorted(texts(shop, FROM)) == sorted(SENT)


def test_under_nohup_a_run_goes_on_when_its_terminal_is_closed(shop):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; a child inherits it
    try:
        shop.faults.add(Fault("put", "slow", queue=TO, nth=40, seconds=2))
        process = begin(shop, *RUNS["redrive"])
    finally:
        signal.signal(signal.SIGHUP, before)
    shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0
    assert sorted(texts(shop, TO)) == sorted(SENT)


def test_two_operators_at_once_move_each_message_once(shop):
    shop.faults.add(Fault("put", "slow", queue=TO, every=7, seconds=0.05))
    both = [begin(shop, "redrive", FROM) for _ in range(2)]
    ended = [(each.communicate(timeout=PATIENCE_S), each.returncode) for each in both]

    assert [status for _, status in ended] == [0, 0]
    assert sum(json.loads(out)["done"] for (out, _), _ in ended) == len(SENT)
    assert sorted(texts(shop, TO)) == sorted(SENT)
    assert texts(shop, FROM) == []


def test_what_a_stopped_run_had_leased_is_looked_at_anew(shop):
    # Given a run whose process stands still after its first dequeue, until the leases have ended
    account = account_of(shop.connection_string)
    source, target = (QueueRef(account.name, name) for name in (FROM, TO))
    told = []

    def clock():
        told.append(shop.clock.now())
        if len(told) == 2:
            shop.clock.advance(LEASE_S + 1)
            # When another operator moves everything meanwhile
            assert run(shop, *RUNS["redrive"])[0] == 0
        return shop.clock.now()

    with contextlib.closing(QueueClient(account)) as client:
        plan = TransferPlan(source, int(shop.clock.now() * 1_000_000), target)
        ended = Transfer(client, plan, clock=clock).run()

    # Then it copies nothing that is no longer its own
    assert (ended.why, ended.tally.done, ended.tally.twice) == (End.DONE, 0, 0)
    assert sorted(texts(shop, TO)) == sorted(SENT)
    assert len(told) > 1


def test_a_stopped_run_goes_on_with_what_nobody_else_took(shop):
    account = account_of(shop.connection_string)
    source, target = (QueueRef(account.name, name) for name in (FROM, TO))
    steps = iter([0, LEASE_S - 10])  # the second: it stood still, and holds its leases yet

    def clock():
        return shop.clock.advance(next(steps, 0))

    with contextlib.closing(QueueClient(account)) as client:
        plan = TransferPlan(source, int(shop.clock.now() * 1_000_000), target)
        ended = Transfer(client, plan, clock=clock).run()

    assert (ended.why, ended.tally.done, ended.tally.is_clean) == (End.DONE, len(SENT), True)
    assert sorted(texts(shop, TO)) == sorted(SENT)


def test_a_run_ends_although_a_consumer_sends_everything_back_at_once(shop):
    account = account_of(shop.connection_string)
    source, target = (QueueRef(account.name, name) for name in (FROM, TO))
    pages = []

    def send_back(tally):
        pages.append(tally.done)
        shop.clock.advance(1)
        for message, lease in client.now(Dequeue(target, 32, 60)).received:
            client.queue(source).put(message.text)
            client.now(Delete(lease))

    with contextlib.closing(QueueClient(account)) as client:
        plan = TransferPlan(source, int(shop.clock.now() * 1_000_000), target)
        run = Transfer(client, plan, is_stopped=lambda: len(pages) > 20, watch=send_back).run()

    assert (run.why, run.tally.done) == (End.DONE, len(SENT))
    assert sorted(texts(shop, FROM)) == sorted(SENT)
    assert shop.visible(FROM) == len(SENT)
