"""`redrive` puts a message back once, although two dead letters are about it; and loses none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_azqueue.commands import scan
from spark_azqueue.commands.command_line import main
from spark_azqueue.commands.scan import LEASE_S
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.service.envelopes import BodyEncoding, envelope_of, envelope_text
from spark_azqueue.testing import Fault

ROOT = Path(__file__).resolve().parents[3]
FROM, TO = "orders-poison", "orders"
PATIENCE_S = 60


@pytest.fixture
def shop(fake, monkeypatch):
    fake.create_queue(FROM)
    fake.create_queue(TO)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    return fake


def letter(number, body=None, **more):
    text = f"order {number}" if body is None else body
    return envelope_text("orders", f"id-{number}", "why", text, BodyEncoding.STORED, **more)


def texts(fake, queue):
    return sorted(message.text for message in fake.messages(queue))


def redriven(capsys, *more, status=0):
    assert main(["redrive", FROM, "--execute", "--json", *more]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("far", [1, 20, 70])
def test_two_letters_about_one_message_are_one_order(shop, capsys, far):
    """In one answer of the service, or in two."""
    for number in range(far):
        shop.put(FROM, letter(number))
    shop.put(FROM, letter(0).replace("why", "another reason"))

    counts = redriven(capsys)

    assert texts(shop, TO) == sorted(f"order {number}" for number in range(far))
    assert texts(shop, FROM) == []
    assert (counts["looked"], counts["done"], counts["twins"]) == (far + 1, far, 1)


def test_people_are_told_before_and_after(shop, capsys):
    for number in (1, 2, 1, 1):
        shop.put(FROM, letter(number))

    assert main(["redrive", FROM]) == 0
    assert "2 of these repeat others' messages" in capsys.readouterr().out
    assert main(["redrive", FROM, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["twins"] == 2
    assert main(["redrive", FROM, "--execute"]) == 0
    assert "2  further dead letters of the same messages" in capsys.readouterr().out


def test_what_is_not_the_same_is_put_back(shop, capsys):
    """Two equal rows of a message, a message that was updated between, one of another queue."""
    letters = [
        *(letter(1, "row", message_row=row) for row in (0, 1)),
        *(letter(2, body) for body in ("before", "after")),
        letter(3, "of a queue"),
        letter(3, "of a queue").replace('"orders"', '"others"'),
        *("no envelope", "no envelope"),
    ]
    for each in letters:
        shop.put(FROM, each)

    assert redriven(capsys)["twins"] == 0

    assert texts(shop, TO) == sorted((envelope_of(each) or Bare(each)).body for each in letters)


class Bare:
    def __init__(self, body):
        self.body = body


def test_closed_envelopes_are_not_compared(shop, capsys):
    for _ in range(2):
        shop.put(FROM, letter(1))
    assert redriven(capsys, "--as-is")["twins"] == 0
    assert texts(shop, TO) == [letter(1)] * 2


def test_while_none_was_put_back_all_stay(shop, capsys):
    for number in (1, 1):
        shop.put(FROM, letter(number))
    shop.faults.add(Fault("put", "forbidden", queue=TO, nth=2))  # the first one is a check

    counts = redriven(capsys, status=1)

    assert (counts["done"], counts["twins"]) == (0, 0)
    assert texts(shop, FROM) == [letter(1)] * 2
    assert shop.visible(FROM) == 2


def test_only_the_newest_are_remembered(shop, capsys, monkeypatch):
    monkeypatch.setattr(scan, "MOST_REMEMBERED", 64)
    for number in (*range(200), 199, 0):
        shop.put(FROM, letter(number))
    assert redriven(capsys)["twins"] == 1
    assert len(texts(shop, TO)) == 201


@pytest.mark.parametrize("op", ["put", "delete"])
@pytest.mark.parametrize("nth", [2, 5, 9, 20])
def test_a_kill_loses_no_message_of_which_there_are_two(shop, op, nth):
    numbers = [*range(10), *range(10), *range(3)]
    for number in numbers:
        shop.put(FROM, letter(number))
    queue = TO if op == "put" else FROM
    shop.faults.add(Fault(op, "slow", queue=queue, nth=nth, seconds=600))
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_azqueue", "redrive", FROM, "--execute"],
        env=os.environ | {ENVIRONMENT_VARIABLE: shop.connection_string},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if op == "delete" or nth < 11:  # one is put of each message, and a check
        shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)
        process.kill()
    process.communicate(timeout=PATIENCE_S)
    shop.faults.clear()

    left = [envelope_of(text).body for text in texts(shop, FROM)]
    expected = {f"order {number}" for number in range(10)}
    assert {*texts(shop, TO), *left} == expected

    shop.clock.advance(LEASE_S)
    assert main(["redrive", FROM, "--execute"]) == 0
    assert texts(shop, FROM) == []
    assert {*texts(shop, TO)} == expected
    assert len(texts(shop, TO)) <= 20
