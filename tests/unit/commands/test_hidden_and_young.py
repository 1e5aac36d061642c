"""What a run does not look at, since it is hidden, or leaves, since it is young: it is said."""

import json

import pytest

from spark_azqueue.commands.command_line import main
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.testing import Fault

FROM, TO = "orders", "later"
DAY_S = 86_400


@pytest.fixture
def shop(fake, monkeypatch):
    fake.create_queue(FROM)
    fake.create_queue(TO)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    return fake


def texts(fake, queue):
    return sorted(message.text for message in fake.messages(queue))


def hide_some(fake):
    """5 visible messages, and 10 that no dequeue brings."""
    fake.put_many(FROM, [f"delayed {number}" for number in range(10)], delay=3_600)
    fake.put_many(FROM, [f"message {number}" for number in range(5)])


RUNS = [
    ["export", FROM],
    ["search", FROM, "--contains", "e"],
    ["move", FROM, "--to", TO, "--execute"],
    ["redrive", FROM, "--to", TO, "--execute"],
    ["purge", FROM, "--each", "--execute"],
]


@pytest.mark.parametrize("arguments", RUNS)
def test_hidden_messages_are_said_and_fail_the_command_if_asked(shop, capsys, arguments):
    hide_some(shop)
    assert main(arguments) == 0
    told = capsys.readouterr()
    assert "5 of 5 messages of 'orders'" in told.out + told.err
    assert "10  more at most were not looked at: leased by a consumer" in told.out + told.err

    shop.put_many(FROM, ["message"] * (5 - shop.visible(FROM)))
    assert main([*arguments, "--json", "--all-or-fail"]) == 3
    told = capsys.readouterr()
    counts = (told.err if arguments[0] in ("export", "search") else told.out).splitlines()[-1]
    assert json.loads(counts)["unseen"] == 10


@pytest.mark.parametrize("arguments", RUNS)
def test_without_hidden_messages_all_is_all(shop, capsys, arguments):
    shop.put_many(FROM, [f"message {number}" for number in range(70)])
    assert main([*arguments, "--all-or-fail"]) == 0
    told = capsys.readouterr()
    assert "not looked at" not in told.out + told.err


def test_what_cannot_be_counted_is_not_taken_for_all(shop):
    shop.put(FROM, "message")
    shop.faults.add(Fault("properties", "forbidden", every=1))
    assert main(["export", FROM]) == 0
    assert main(["export", FROM, "--all-or-fail"]) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", FROM, "--max", "5"],
        ["export", "--log", "file:/log"],
        ["move", FROM, "--to", TO, "--max", "5"],
        ["purge", FROM],
    ],
)
def test_all_or_fail_is_for_what_looks_at_all(shop, capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--all-or-fail"])
    assert ended.value.code == 2
    assert "--all-or-fail" in capsys.readouterr().err


def test_young_messages_stay_and_are_no_reason_to_fail(shop, capsys):
    """Each night the same command: a few old messages, more young ones than four answers hold."""
    shop.put_many(FROM, ["old"] * 3)
    shop.clock.advance(31 * DAY_S - 7 * DAY_S)
    shop.put_many(FROM, ["old"] * 3, ttl=-1)
    shop.clock.advance(31 * DAY_S)
    shop.put_many(FROM, [f"young {number:03}" for number in range(300)])
    shop.put(FROM, "old", ttl=-1)

    assert main(["purge", FROM, "--older-than", "30 days", "--execute", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["done"], told["young"], told["newer"], told["ended"]) == (3, 301, 0, "done")
    assert main(["purge", FROM, "--older-than", "30 days", "--execute"]) == 0
    assert "301  stay: they are younger than --older-than says" in capsys.readouterr().out
    assert len(texts(shop, FROM)) == shop.visible(FROM) == 301, "and none of them stays leased"


def test_an_old_message_behind_young_ones_is_found(shop):
    shop.put(FROM, "old", delay=2 * DAY_S)
    shop.clock.advance(2 * DAY_S - 1)
    shop.put_many(FROM, [f"young {number}" for number in range(200)])
    shop.clock.advance(2)
    assert main(["move", FROM, "--to", TO, "--older-than", "1 day", "--max", "1", "--execute"]) == 0
    assert texts(shop, TO) == ["old"]
