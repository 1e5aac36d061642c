"""`send` by a transaction: a number is one run, and what is left of it is said."""

import errno
import itertools
import json
import os
import threading

import pytest

from spark_azqueue.commands.command_line import main
from spark_azqueue.commands.once import OnceSending
from spark_azqueue.commands.scan import End, ScanCounts
from spark_azqueue.commands.sending import Outgoing
from spark_azqueue.journal import file_store
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.options.parse import sink_config
from spark_azqueue.sink.transaction import show
from spark_azqueue.testing import Fault

QUEUE = "orders"
FIFTY = [f"line {number:02}" for number in range(50)]


@pytest.fixture
def shop(fake, monkeypatch):
    fake.create_queue(QUEUE)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    return fake


@pytest.fixture
def send(shop, tmp_path, capsys):
    """Sends these lines with this number; returns status, counts and what was said on stderr."""

    def run(lines, version=7, *more):
        file = tmp_path / "lines"
        file.write_text("".join(json.dumps({"text": each}) + "\n" for each in lines))
        place = ["--transaction-log", f"file:{tmp_path}/log", "--txn-version", str(version)]
        status = main(["send", QUEUE, str(file), *place, "--json", *more])
        told = capsys.readouterr()
        return status, json.loads(told.out), told.err

    return run


def texts(fake):
    return sorted(message.text for message in fake.messages(QUEUE))


def test_the_same_lines_again_are_done_and_others_are_refused(send, shop):
    assert send(["a", "b"])[0] == 0
    status, counts, _ = send(["a", "b"])
    assert (status, counts["recorded_before"], counts["done"]) == (0, True, 0)
    for others in (["a", "c"], ["b", "a"], ["ab", ""], ["a"], []):
        status, counts, err = send(others)
        assert (status, counts["recorded_before"], counts["done"]) == (1, True, 0)
        assert "--txn-version 7 was recorded before, with 2 messages, and other texts" in err
        assert "take a higher number" in err
    assert texts(shop) == ["a", "b"]


def test_of_an_older_number_it_is_not_known_and_so_not_done(send, shop):
    assert send(["a"], 7)[0] == send(["b"], 8)[0] == 0
    status, _, err = send(["c"], 7)
    assert (status, "whether with these texts is not known" in err) == (1, True)
    assert texts(shop) == ["a", "b"]


def test_no_line_uses_up_no_number(send, shop, tmp_path):
    status, counts, _ = send([])
    assert (status, counts["recorded_before"]) == (0, False)
    status, counts, _ = send(["a"])
    assert (status, counts["recorded_before"], texts(shop)) == (0, False, ["a"])


@pytest.mark.parametrize(("lines", "is_same"), [(["b"], False), (["a"], True)])
def test_two_at_once_with_one_number(send, shop, tmp_path, lines, is_same):
    """The other one records its lines while these are put."""
    options = {"queue": QUEUE, "transactionLog": f"file:{tmp_path}/log"}
    config = sink_config(options | {"txnAppId": "spark-azqueue send", "txnVersion": "7"})

    def groups():
        yield [Outgoing(1, each) for each in lines]
        assert send(["a"])[0] == 0

    run = OnceSending(config, ScanCounts(), threading.Event())
    result = run.run(groups())

    assert (result.why, run.is_before) == (End.DONE if is_same else End.FAILED, True)
    assert ("other texts than these" in str(result.error)) == (not is_same)
    assert texts(shop) == ["a"], "and nothing of this one stays hidden"


def cut_off(send, shop):
    """The service refuses after 17 of 50 are visible: the log is recorded."""
    faults = [Fault("update", "forbidden", nth=number) for number in range(20, 53)]
    for fault in faults:
        shop.faults.add(fault)
    found = send(FIFTY, 7, "--option", "parallelism=1")
    shop.faults.clear()
    return found


def test_what_is_visible_after_an_error_is_counted(send, shop):
    status, counts, _ = cut_off(send, shop)
    assert (status, counts["done"], counts["ended"]) == (1, 17, "failed")
    assert shop.visible(QUEUE) == 17
    assert send(FIFTY)[0] == 0
    assert (shop.visible(QUEUE), texts(shop)) == (50, FIFTY)


def test_what_a_person_has_discarded_is_not_done(send, shop, tmp_path, capsys):
    cut_off(send, shop)
    finish = ["finish", f"file:{tmp_path}/log", "--queue", QUEUE, "--discard", "--execute"]
    assert main(finish) == 0
    assert "33 messages deleted" in capsys.readouterr().out
    status, _, err = send(FIFTY)
    assert status == 1
    assert "with 50 messages, of which `finish --discard` has deleted 33" in err
    assert send(FIFTY[17:], 8)[0] == 0
    assert len(texts(shop)) == 50


@pytest.fixture
def full_disk(monkeypatch):
    """Once it is full, no file with more than a few bytes can be written."""
    is_full, write = threading.Event(), file_store.write_new

    def write_new(path, data):
        if is_full.is_set() and len(data) > 500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        write(path, data)

    monkeypatch.setattr(file_store, "write_new", write_new)
    return is_full


def test_tries_onto_a_full_disk_leave_nothing_hidden(send, shop, full_disk):
    full_disk.set()
    for _ in range(3):
        status, counts, err = send(FIFTY * 6)
        assert (status, counts["done"], counts["left_hidden"]) == (1, 0, 0)
        assert "No space left on device" in err
        assert texts(shop) == []
    full_disk.clear()
    assert send(FIFTY)[0] == 0
    assert texts(shop) == FIFTY


def test_what_cannot_be_deleted_either_is_said(send, shop, full_disk, caplog):
    full_disk.set()
    shop.faults.add(Fault("delete", "forbidden", every=1))
    status, counts, _ = send(FIFTY)
    assert (status, counts["left_hidden"], len(texts(shop))) == (1, 50, 50)
    assert "Up to 50 messages stay hidden until they expire" in caplog.text


def test_an_interruption_while_they_become_visible_says_how_many_are(send, shop, tmp_path):
    """As a second Ctrl-C does it."""
    options = {"queue": QUEUE, "transactionLog": f"file:{tmp_path}/log", "parallelism": "1"}
    config = sink_config(options | {"txnAppId": "spark-azqueue send", "txnVersion": "7"})
    run = OnceSending(config, ScanCounts(), threading.Event())
    groups = [[Outgoing(at, text) for at, text in enumerate(FIFTY, 1)]]
    with pytest.MonkeyPatch.context() as patch:
        real = show.results_of

        def interrupted(*given, **named):
            yield from itertools.islice(real(*given, **named), 17)
            raise KeyboardInterrupt

        patch.setattr(show, "results_of", interrupted)
        result = run.run(groups)
    assert (result.why, result.tally.done) == (End.INTERRUPTED, 17)
    assert "all of them are then" in run.again
    assert send(FIFTY)[0] == 0
    assert texts(shop) == FIFTY
