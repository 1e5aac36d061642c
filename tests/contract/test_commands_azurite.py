"""The commands on Azurite: bodies as they are, lives, releases, and the call that clears."""

from __future__ import annotations

import json

import pytest
from accounts import account_of
from file_logs import write_log

from spark_azqueue.commands.command_line import main
from spark_azqueue.journal.store import log_store
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.options.log import log_place
from spark_azqueue.options.parse import replay_config
from spark_azqueue.service.envelopes import BodyEncoding, envelope_text
from spark_azqueue.service.messages import NEVER_EXPIRES, QueueRef
from spark_azqueue.service.queues.calls import Count, Dequeue
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.management import create_queue, delete_queue

ODD = ["", "a\r\nb\tc", "<&>\"'", "ü€😀", "aGVsbG8=", "x" * 65_536]


@pytest.fixture
def client(azurite_connection_string, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, azurite_connection_string)
    made = QueueClient(account_of(azurite_connection_string))
    yield made
    made.close()


@pytest.fixture
def pair(client, azurite_connection_string, queue):
    """A queue and its poison queue."""
    account = account_of(azurite_connection_string)
    refs = [QueueRef(account.name, name) for name in (queue, f"{queue}-poison")]
    for each in refs:
        create_queue(account, each.name)
    yield refs
    for each in refs:
        delete_queue(account, each.name)


def all_of(client, queue):
    found = []
    while received := client.now(Dequeue(queue, 32, 600)).received:
        found += [each.message for each in received]
    return found


def test_redrive_of_odd_bodies_and_envelopes(client, pair, capsys):
    target, poison = pair
    for text in ODD:
        client.queue(poison).put(text, 0, NEVER_EXPIRES)
    envelope = envelope_text(target.name, "id", "why", "in an envelope", BodyEncoding.STORED)
    client.queue(poison).put(envelope, 0, 1_000)

    assert main(["redrive", poison.name]) == 0
    assert client.now(Count(poison)) == len(ODD) + 1
    capsys.readouterr()
    assert main(["redrive", poison.name, "--execute", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["done"], told["opened"]) == (len(ODD) + 1, 1)
    assert client.now(Count(poison)) == 0
    moved = {message.text: message for message in all_of(client, target)}
    assert set(moved) == {*ODD, "in an envelope"}
    kept = moved["in an envelope"]
    assert 0 < (kept.expiration_time - kept.insertion_time) / 1_000_000 <= 1_000


def test_what_does_not_fit_is_visible_again(client, pair, capsys):
    target, poison = pair
    for number in range(40):
        client.queue(poison).put(json.dumps({"id": number}))

    assert main(["move", poison.name, "--to", target.name, "--where", "id=7", "--execute"]) == 0
    assert [message.text for message in all_of(client, target)] == ['{"id": 7}']
    left = all_of(client, poison)
    assert len(left) == 39
    assert {message.dequeue_count for message in left} == {2}


def test_peek_count_and_purge(client, pair, capsys):
    _, poison = pair
    for number in range(3):
        client.queue(poison).put(f"body {number}")
    client.queue(poison).put("delayed", 600)

    assert main(["peek", poison.name]) == 0
    assert "3 visible messages" in capsys.readouterr().out
    assert main(["count", f"{poison.name[:-3]}*", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 4
    assert main(["purge", poison.name, "--contains", "body 1", "--execute"]) == 0
    assert client.now(Count(poison)) == 3
    assert main(["purge", poison.name, "--execute"]) == 0
    assert client.now(Count(poison)) == 0


def test_what_is_exported_can_be_sent_and_is_the_same(client, pair, tmp_path, capsys):
    target, poison = pair
    for text in ODD:
        client.queue(poison).put(text)
    file = tmp_path / "lines"

    assert main(["export", poison.name, "--to", str(file)]) == 0
    assert main(["send", target.name, str(file)]) == 0

    assert sorted(message.text for message in all_of(client, target)) == sorted(ODD)
    assert {message.dequeue_count for message in all_of(client, poison)} == {2}


def test_a_log_in_blobs_is_exported_and_replayed(client, pair, blobs, capsys):
    target, _ = pair
    place = log_place(f"blob:{blobs.container_name}/wal")
    options = {"readLog": f"blob:{blobs.container_name}/wal"}
    account = replay_config(options).account
    write_log(log_store(place, account), [ODD[:2], ODD[2:4]], 2)
    log = ["--log", options["readLog"]]

    assert main(["export", *log]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["text"] for each in told] == ODD[:4]
    assert main(["replay", *log, "--batch", "2", "--into", target.name, "--execute"]) == 0
    assert sorted(message.text for message in all_of(client, target)) == sorted(ODD[2:4])
