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


# ── by age ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def aged(fake, monkeypatch):
    """A queue with messages of three hours, one hour and now, and a target."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    for name in ("orders", "later", "orders-poison"):
        fake.create_queue(name)
    for body, hours in (("three", 2), ("one", 1), ("now", 0)):
        fake.put("orders", body)
        fake.clock.advance(3_600 * hours)
    return fake


def bodies(fake, queue):
    return sorted(message.text for message in fake.messages(queue))


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        (["--newer-than", "2 hours"], ["now", "one"]),
        (["--older-than", "30 minutes"], ["one", "three"]),
        (["--newer-than", "2 hours", "--older-than", "30 minutes"], ["one"]),
        (["--newer-than", "1 minutes", "--older-than", "2 hours"], []),
    ],
)
def test_ages_select_for_each_command(aged, capsys, ages, expected):
    assert main(["search", "orders", *ages, "--json"]) == 0
    assert sorted(json.loads(line)["text"] for line in lines_out(capsys)) == expected
    assert main(["export", "orders", *ages]) == 0
    assert sorted(json.loads(line)["text"] for line in lines_out(capsys)) == expected
    assert main(["move", "orders", "--to", "later", *ages, "--json"]) == 0
    assert json.loads(lines_out(capsys)[0])["meant"] == len(expected)
    assert main(["move", "orders", "--to", "later", *ages, "--execute"]) == 0
    assert bodies(aged, "later") == expected
    assert main(["purge", "later", *ages, "--execute"]) == 0


def lines_out(capsys):
    return capsys.readouterr().out.splitlines()


def test_what_stays_for_its_age_is_counted(aged, capsys):
    command = ["purge", "orders", "--newer-than", "2 hours", "--older-than", "30 minutes"]
    assert main([*command, "--execute", "--json"]) == 0
    counts = json.loads(lines_out(capsys)[0])
    assert (counts["done"], counts["young"], counts["old"]) == (1, 1, 1)
    assert main([*command, "--execute"]) == 0
    assert "stay: they are older than --newer-than says" in capsys.readouterr().out


def test_of_a_log_the_times_of_batches_select(capsys):
    with pytest.raises(SystemExit):
        main(["search", "--log", "file:/log", "--newer-than", "2 hours"])
    assert "--from and --to-time select by time" in capsys.readouterr().err


def test_a_dry_run_with_a_filter_says_that_it_looked_at_32(aged, capsys):
    command = ["move", "orders", "--to", "later", "--contains", "order 3"]
    assert main(command) == 0
    assert "A peek shows 32" not in capsys.readouterr().out, "all were looked at"
    aged.put_many("orders", [f"order {number}" for number in range(60)])

    assert main(command) == 0
    out = capsys.readouterr().out
    assert "Of the first 32 visible ones, 1 would be moved to 'later'." in out
    assert "A peek shows 32 at most, so further ones may match: `search`" in out
    assert main([*command, "--json"]) == 0
    assert json.loads(lines_out(capsys)[0])["is_all"] is False


# ── count ─────────────────────────────────────────────────────────────────────────────────────────


def test_count_shows_visible_hidden_and_the_poison_queue(aged, capsys):
    aged.put("orders-poison", "bad")
    aged.put("orders", "delayed", delay=600)
    assert main(["count", "orders*", "--json"]) == 0
    orders, poison = [json.loads(line) for line in lines_out(capsys)]
    age = orders.pop("first_visible_age_seconds")
    assert 3 * 3_600 - 2 <= age <= 3 * 3_600 + 10
    assert orders == {
        "queue": "orders",
        "messages": 4,
        "visible": 3,
        "hidden": 1,
        "poison_queue": "orders-poison",
        "poison_messages": 1,
    }
    assert (poison["visible"], poison["poison_queue"]) == (1, None)

    assert main(["count", "orders"]) == 0
    line = capsys.readouterr().out
    assert "4  3 visible, 1 hidden; first visible: 3 h old; orders-poison: 1" in line
    aged.put_many("orders", ["x"] * 40)
    assert main(["count", "orders", "--option", "poisonQueue=later"]) == 0
    line = capsys.readouterr().out
    assert "44  32 or more visible; first visible: 3 h old; later: 0" in line
