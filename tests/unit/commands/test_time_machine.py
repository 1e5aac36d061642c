"""`export`, `search`, `send` and `replay` against the fake, with faults, and over logs."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from budget import more
from file_logs import write_log, write_slots
from log_stores import MemoryLogStore
from replayed_log import COLUMNS, log_in

from spark_azqueue.commands import putting
from spark_azqueue.commands.command_line import main
from spark_azqueue.commands.filters import envelope_in
from spark_azqueue.commands.scan import LEASE_S
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.options.parse import replay_config
from spark_azqueue.service.blobs.references import Reference, new_name
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.envelopes import stored_text
from spark_azqueue.source.replay.batches import pieces_of
from spark_azqueue.source.replay.objects import objects_of, rows_of
from spark_azqueue.source.replay.survey import history_of, opened_log
from spark_azqueue.testing import Fault

ROOT = Path(__file__).resolve().parents[3]
FROM, TO = "orders", "again"
MANY = [json.dumps({"id": number}) for number in range(2_000)]
PATIENCE_S = 120
ODD = [
    *(
        "",
        " ",
        "a\r\nb\tc",
        "\n",
        "\r",
        "\t",
        "<&>\"'",
        "]]>",
        "&#0;",
        "ü€😀",
        "\ud7ff\ue000\ufffd",
    ),
    *("aGVsbG8=", "aGVsbG8", "{", '{"text": 1}', "null", "\x7f\x85\u2028", "\u202e\u0301", "0"),
    *("x" * 65_536, "€" * 21_845, base64.b64encode(bytes(range(256))).decode()),
]


@pytest.fixture
def shop(fake, monkeypatch):
    fake.create_queue(FROM)
    fake.create_queue(TO)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    return fake


def texts(fake, queue):
    return sorted(message.text for message in fake.messages(queue))


def lines_in(path):
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def begin(fake, *arguments, **given):
    return subprocess.Popen(
        [sys.executable, "-m", "spark_azqueue", *map(str, arguments)],
        env=os.environ | {ENVIRONMENT_VARIABLE: fake.connection_string},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **given,
    )


def run(fake, *arguments, text=""):
    with begin(fake, *arguments) as process:
        try:
            out, err = process.communicate(text, timeout=PATIENCE_S)
        finally:
            process.kill()
    assert "Traceback" not in err
    return process.returncode, out, err


def faults(*operations):
    """503, 500 and resets; none of them has an effect."""
    kinds = [("busy_503", 7), ("busy_429", 11), ("error_500", 13), ("reset", 17)]
    return [Fault(op, kind, every=every) for op in operations for kind, every in kinds]


# ── export and search ─────────────────────────────────────────────────────────────────────────────


def test_22_odd_bodies_come_back_byte_for_byte(shop, tmp_path, capsys):
    assert len(set(ODD)) == 22
    shop.put_many(FROM, ODD)
    file = tmp_path / "orders.jsonl"

    assert main(["export", FROM, "--to", str(file)]) == 0
    assert main(["send", TO, str(file)]) == 0

    assert texts(shop, TO) == texts(shop, FROM) == sorted(ODD)
    assert file.stat().st_mode & 0o077 == 0, "bodies are for nobody else"
    told = capsys.readouterr().out
    assert "22 of 22 messages of 'orders' exported" in told
    assert "Of 22 messages the dequeue count has risen by one. Nothing was deleted." in told


def test_a_line_has_the_times_and_the_decoded_body(shop, capsys):
    shop.put(FROM, base64.b64encode(b"hello").decode())

    assert main(["export", FROM, "--option", "messageEncoding=base64"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["body"], told["text"], told["dequeue_count"]) == ("hello", "aGVsbG8=", 1)
    times = [told[name] for name in ("insertion_time", "expiration_time", "next_visible_time")]
    assert all(time.endswith("Z") for time in times)


def test_with_faults_all_are_exported_once_and_none_stays_hidden(shop, tmp_path):
    shop.put_many(FROM, MANY)
    for fault in faults("dequeue", "update"):
        shop.faults.add(fault)
    shop.faults.add(Fault("update", "reply_lost", every=19))
    file = tmp_path / "orders.jsonl"

    status, out, _ = run(shop, "export", FROM, "--to", file, "--json")

    told = json.loads(out)
    assert sorted(each["text"] for each in lines_in(file)) == sorted(MANY)
    assert (told["done"], told["not_released"], told["ended"]) == (2_000, 0, "done")
    assert shop.visible(FROM) == 2_000
    assert {each.dequeue_count for each in shop.messages(FROM)} == {1}
    # An answer of 500 does not say that nothing was leased.
    assert (status, told["maybe_hidden"] > 0) == (1, True)


def test_what_a_lost_answer_hides_is_counted(shop, tmp_path):
    shop.put_many(FROM, MANY)
    shop.faults.add(Fault("dequeue", "reply_lost", nth=5))
    file = tmp_path / "orders.jsonl"

    status, out, _ = run(shop, "export", FROM, "--to", file, "--json")

    told = json.loads(out)
    hidden = len(MANY) - shop.visible(FROM)
    assert (status, told["maybe_hidden"], hidden) == (1, 32, 32)
    assert len(lines_in(file)) == told["done"] == len(MANY) - hidden
    shop.clock.advance(LEASE_S + 1)
    assert shop.visible(FROM) == len(MANY)


def test_what_is_put_meanwhile_or_does_not_fit_stays(shop, tmp_path, capsys):
    shop.put_many(FROM, MANY[:40])
    file = tmp_path / "some.jsonl"

    assert main(["export", FROM, "--where", "id=7", "--to", str(file)]) == 0
    assert [each["text"] for each in lines_in(file)] == ['{"id": 7}']
    assert main(["export", FROM, "--max", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3 + 4
    assert shop.visible(FROM) == 40


@pytest.mark.parametrize("number", [signal.SIGTERM, *more(signal.SIGINT)])
def test_an_interrupted_export_releases_what_it_leased(shop, tmp_path, number):
    shop.put_many(FROM, MANY)
    shop.faults.add(Fault("dequeue", "slow", nth=20, seconds=2))
    file = tmp_path / "orders.jsonl"
    process = begin(shop, "export", FROM, "--to", file)
    shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    assert "Interrupted." in out
    assert "is not whole" in err
    assert shop.visible(FROM) == len(MANY)
    assert not file.exists()
    part = lines_in(tmp_path / "orders.jsonl.partial")
    assert 0 < len(part) < len(MANY)


def test_a_killed_export_hides_what_it_leased_for_one_lease(shop, tmp_path):
    shop.put_many(FROM, MANY)
    shop.faults.add(Fault("dequeue", "slow", nth=20, seconds=600))
    file = tmp_path / "orders.jsonl"
    process = begin(shop, "export", FROM, "--to", file)
    shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)
    process.kill()
    process.communicate(timeout=PATIENCE_S)

    assert not file.exists()
    assert texts(shop, FROM) == sorted(MANY)
    shop.clock.advance(LEASE_S + 1)
    assert shop.visible(FROM) == len(MANY)


@pytest.mark.parametrize("behind", ["| head -n 1", ">/dev/full"])
def test_output_that_ends_early_leaves_nothing_hidden(shop, behind):
    shop.put_many(FROM, MANY)
    line = f"{sys.executable} -m spark_azqueue export {FROM} {behind}"
    ended = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, timeout=PATIENCE_S)

    assert b"Traceback" not in ended.stderr
    assert (b"could not be written" in ended.stderr) == ("full" in behind)
    assert shop.visible(FROM) == len(MANY)


def test_an_export_has_its_name_before_its_report_is_printed(shop, tmp_path):
    shop.put(FROM, "a")
    line = f"{sys.executable} -m spark_azqueue export {FROM} --to {tmp_path}/file >/dev/full"
    ended = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, timeout=PATIENCE_S)

    assert (ended.returncode, b"not whole" in ended.stderr) == (1, False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert len(lines_in(tmp_path / "file")) == 1


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_was_created_during_an_export_stays(
    shop, tmp_path, monkeypatch, capsys, has_links
):
    shop.put(FROM, "a")
    file, part = tmp_path / "file", tmp_path / "file.partial"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: file.write_text("precious"))
        if not has_links:
            patched.setattr(os, "link", no_links)
        assert main(["export", FROM, "--to", str(file)]) == 1
        told = capsys.readouterr()
        assert file.read_text() == "precious"
        assert "file was created by another process during the export" in told.err
        assert f"The whole export is in {part}" in told.err
        assert len(lines_in(part)) == 1
        patched.setattr(os, "fsync", lambda _: None)
        assert main(["export", FROM, "--to", str(tmp_path / "other")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "file.partial", "other"]


def no_links(*_):
    raise PermissionError(1, "Operation not permitted")


def test_search_counts_and_says_first_and_last(shop, capsys):
    shop.put(FROM, '{"kind": "a"}')
    shop.clock.advance(3_600)
    shop.put_many(FROM, ['{"kind": "b"}', '{"kind": "a"}'])

    assert main(["search", FROM, "--where", "kind=a"]) == 0
    out = capsys.readouterr().out
    assert "2 of 3 messages of 'orders' found." in out
    assert "The first was put at 20" in out
    assert main(["search", FROM, "--where", "kind=a", "--json"]) == 0
    told = capsys.readouterr()
    found, counts = [json.loads(line) for line in told.out.splitlines()], json.loads(told.err)
    assert [each["body"] for each in found] == ['{"kind": "a"}'] * 2
    assert (counts["first"], counts["last"]) == tuple(each["insertion_time"] for each in found)
    assert shop.visible(FROM) == 3


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────

BATCHES = [[f'{{"id": {10 * number + place}}}' for place in range(5)] for number in range(1, 5)]
WRITERS = pytest.mark.parametrize("write", [write_log, write_slots])


def files_in(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def read_log(place, **options):
    """What `spark.read` gives: batch, id and body of each row."""
    config = replay_config({"readLog": place, **options}, {})
    log = opened_log(config)
    pieces = pieces_of(history_of(log).survey().batches)
    columns = (*COLUMNS, ("message_id", "string"))
    batches = rows_of(objects_of(log), pieces, config, columns, may_lack_removed=True)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["log_batch"], row["message_id"], row["body"]) for row in rows]


@WRITERS
def test_a_log_gives_the_rows_of_read_log_and_needs_no_queue(tmp_path, monkeypatch, capsys, write):
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    encoded = [[base64.b64encode(text.encode()).decode() for text in each] for each in BATCHES]
    place = write(tmp_path / "wal", encoded, 3, messageEncoding="base64")
    before = files_in(tmp_path / "wal")

    assert main(["export", "--log", place]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    rows = [(each["log_batch"], each["message_id"], each["body"]) for each in told]
    assert rows == read_log(place)
    assert {number for number, *_ in rows} == {1, 2, 3}
    assert [each["text"] for each in told] == [text for each in encoded[:3] for text in each]
    assert files_in(tmp_path / "wal") == before, "nothing is claimed or written"

    assert main(["export", "--log", place, "--uncommitted"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 20
    assert main(["export", "--log", place, "--batch", "2-3", "--max", "7"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["log_batch"] for each in found] == [2] * 5 + [3] * 2
    assert main(["search", "--log", place, "--where", "id=31"]) == 0
    told = capsys.readouterr().out
    assert f"1 of 15 messages in {place} found." in told
    assert ", batch 3 of 20" in told
    assert main(["export", "--log", place, "--from", "2100-01-01T00:00:00Z"]) == 0
    assert capsys.readouterr().out == ""


def test_of_a_thousand_batches_one_is_read_if_one_is_named(monkeypatch, capsys):
    store = MemoryLogStore()
    write_log(store.another(), [["text"]] * 1_000, 1_000)
    log_in(store, monkeypatch)
    store.calls.clear()

    assert main(["export", "--log", "file:/not/used", "--batch", "500"]) == 0

    assert len(capsys.readouterr().out.splitlines()) == 1
    read = {name for method, name in store.calls if method == "get" and name[:4] == "seg/"}
    # The newest, and the one that may be behind it, say what is committed.
    assert read == {"seg/000000000500", "seg/000000001000", "seg/000000001001"}


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


NO_FILES = ["", ".", "/", "..", "\ud800x", "a\0"]


def test_what_is_wrong_is_one_clear_error(shop, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    place = f"file:{tmp_path}/log"
    sent = ["--transaction-log", place, "--txn-version", "1"]
    assert main(["send", FROM, os.devnull, *sent]) == 0
    for arguments, said in (
        (["export", "nothing"], "QUEUE_NOT_FOUND"),
        (["send", "nothing", os.devnull], "QUEUE_NOT_FOUND"),
        (["export", "--log", place], "is the folder of a"),
        (["export", "--log", f"file:{tmp_path}/none"], "LOG_UNAVAILABLE"),
    ):
        assert main(arguments) == 1, arguments
        assert said in capsys.readouterr().err
    status, _, err = run(shop, "export", FROM, "--to", tmp_path / "none" / "file")
    assert (status, "could not be written: [Errno 2] No such file" in err) == (1, True)
    file = tmp_path / "there"
    file.touch()
    log = ["--log", place]
    for arguments, said in (
        (["export", *log, "--from", "2026-11-17T08:00:00"], "a time with its zone"),
        (["export", *log, "--batch", "0"], "the number of a batch"),
        (["export"], "name the queue, or a log"),
        (["export", FROM, *log], "one of the two"),
        (["export", FROM, "--batch", "1"], "are for --log"),
        (["export", FROM, "--to", str(file)], "exists already"),
        (["search", FROM], "name a filter"),
        (["replay", *log, "--into", FROM], "--from and --to-time, or --batch"),
        (["send", FROM, "--txn-version", "1"], "go together"),
        (["send", FROM, "--delay", "8 days"], "whole seconds"),
        (["send", FROM, f"{tmp_path}/none"], "FILE cannot be read: No such file"),
        (["send", FROM, "\ud800"], "FILE cannot be read"),
        (["send", FROM, "a\0"], "FILE cannot be read"),
        (["send", FROM], "standard input is closed"),
        *((["export", FROM, "--to", to], "the name of a file") for to in NO_FILES),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


@pytest.mark.parametrize(
    "line",
    [
        *(
            "{",
            "[]",
            "7",
            "null",
            "{}",
            '{"text": 1}',
            '{"text": "\\u0000"}',
            '{"text": "\\ud800"}',
        ),
        *('{"text": "a", "intact": false}', '{"body": "' + "x" * 65_537 + '"}', "[" * 100_000),
        '"' + "x" * 2**20 + '"',
    ],
    ids=range(12),
)
def test_a_broken_line_is_named_and_nothing_behind_it_is_sent(shop, tmp_path, capsys, line):
    file = tmp_path / "lines"
    file.write_text('{"text": "a"}\n\n{"body": "b"}\n' + line + '\n{"text": "c"}')

    assert main(["send", FROM, str(file)]) == 1
    told = capsys.readouterr()
    assert "line 4 of" in told.err
    assert "Traceback" not in told.err
    assert texts(shop, FROM) == [], "a file is checked before the first put"
    assert main(["send", FROM, str(file), "--skip-broken"]) == 1
    assert texts(shop, FROM) == ["a", "b", "c"]
    assert "skipped: line 4" in capsys.readouterr().err


def test_of_a_pipe_what_stands_before_a_broken_line_is_sent(shop):
    status, out, err = run(
        shop, "send", FROM, text='{"text": "a"}\n{"text": "b"}\n{\n{"text": "c"}\n'
    )
    assert (status, texts(shop, FROM)) == (1, ["a", "b"])
    assert "line 3 of standard input" in err
    assert "2 of 3 lines of standard input sent" in out
    assert "Ended by an error. All before line 3 are sent.\n" in out


def test_raw_lines_are_bodies(shop):
    more = ["--raw", "--delay", "60", "--time-to-live", "-1"]
    ended = run(shop, "send", FROM, *more, text="\ufeffa\r\n\nü\n")
    assert ended[0] == 0
    assert texts(shop, FROM) == ["", "a", "ü"]
    assert shop.visible(FROM) == 0
    shop.clock.advance(8 * 86_400)
    assert shop.visible(FROM) == 3


def test_a_raw_line_that_may_be_torn_is_not_sent(shop):
    """Its writer may have been killed within it. A line of JSON shows that by itself."""
    status, _, err = run(shop, "send", FROM, "--raw", text="whole\ntor")
    assert (status, texts(shop, FROM)) == (1, ["whole"])
    assert "line 2 of standard input is no message: it ends without a line break" in err


def test_ages_are_by_the_clock_of_the_service(shop, capsys):
    shop.clock.advance(5 * 86_400)
    shop.put(FROM, "a")
    shop.clock.advance(3 * 86_400)
    assert main(["search", FROM, "--contains", "a"]) == 0
    assert "age 3 d" in capsys.readouterr().out


# ── send and replay ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in MANY))
    return path


@pytest.mark.more
def test_with_faults_all_are_sent_and_doubles_are_counted(shop, file):
    for fault in faults("put"):
        shop.faults.add(fault)
    shop.faults.add(Fault("put", "reply_lost", every=100))

    status, out, _ = run(shop, "send", TO, file, "--json")

    told = json.loads(out)
    there = texts(shop, TO)
    assert set(there) == set(MANY)
    assert (told["done"], told["looked"], status) == (2_000, 2_000, 1)
    doubles = len(there) - len(MANY)
    assert 0 < doubles <= told["maybe_twice"]


@pytest.mark.parametrize("number", [signal.SIGTERM, *more(signal.SIGINT)])
def test_an_interrupted_send_says_from_where_to_go_on(shop, file, number):
    shop.faults.add(Fault("put", "slow", nth=1_300, seconds=2))
    process = begin(shop, "send", TO, file)
    shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    place = int(out.split("All before line ")[1].split(" are sent")[0].replace(",", ""))
    assert len(texts(shop, TO)) == int(out.split(" of ")[0].replace(",", ""))
    rest = "".join(file.read_text().splitlines(keepends=True)[place - 1 :])
    assert run(shop, "send", TO, text=rest)[0] == 0
    there = texts(shop, TO)
    assert set(there) == set(MANY)
    assert len(there) - len(MANY) <= 1_000


def test_by_a_transaction_each_is_there_once_after_a_kill(shop, file, tmp_path):
    arguments = ["send", TO, file, "--transaction-log", f"file:{tmp_path}/sent"]
    arguments += ["--txn-version", "7", "--json"]
    shop.faults.add(Fault("update", "slow", nth=900, seconds=600))
    process = begin(shop, *arguments)
    shop.wait_until(lambda: shop.faults.injected["slow"], PATIENCE_S)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    shop.faults.clear()
    assert 0 < shop.visible(TO) < len(MANY)
    put = shop.statuses["put", 201]

    for _ in range(2):
        status, out, _ = run(shop, *arguments)
        told = json.loads(out)
        assert (status, told["done"], told["recorded_before"]) == (0, 0, True)
        assert shop.visible(TO) == len(MANY)
        assert texts(shop, TO) == sorted(MANY)
        assert shop.statuses["put", 201] == put, "it is recorded, so nothing is put again"
    file.write_text('{"text": "another"}')
    status, _, err = run(shop, *arguments)
    assert (status, "recorded before, with 2,000 messages, and other texts" in err) == (1, True)
    assert texts(shop, TO) == sorted(MANY)


def test_a_number_that_is_taken_sends_nothing_and_says_so(shop, tmp_path, capsys):
    sent = ["--transaction-log", f"file:{tmp_path}/log", "--txn-version"]

    def run_with(text, number, *more):
        file = tmp_path / "lines"
        file.write_text("".join(json.dumps({"text": each}) + "\n" for each in text))
        return main(["send", FROM, str(file), *sent, str(number), *more]), capsys.readouterr()

    for text, number in (("ab", 7), ("ef", 8)):
        status, told = run_with(text, number, "--json")
        counts = json.loads(told.out)
        assert (status, counts["done"], counts["recorded_before"]) == (0, 2, False)
    status, told = run_with("ef", 8)
    assert (status, "0 of 2 lines of" in told.out) == (0, True)
    assert "--txn-version 8 was recorded before, and nothing was sent" in told.out
    status, told = run_with("ef", 8, "--json")
    counts = json.loads(told.out)
    assert (status, counts["done"], counts["recorded_before"]) == (0, 0, True)
    for text, number, said in (("c", 8, "take a higher number"), ("cd", 6, "use a number above")):
        status, told = run_with(text, number)
        assert (status, said in told.err, "Repeat" in told.out) == (1, True, False)
        assert "0 of " in told.out
    assert texts(shop, FROM) == ["a", "b", "e", "f"]


@pytest.fixture
def stopped(monkeypatch):
    """A signal came before anything was read."""
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(putting, "ends_on_signals", lambda: contextlib.nullcontext(stop))


@pytest.mark.usefixtures("stopped")
def test_a_signal_ends_also_what_finds_nothing_to_send(shop, tmp_path, capsys):
    place = write_log(tmp_path / "wal", BATCHES, 3)
    file = tmp_path / "lines"
    file.write_text("broken\n" * 3)
    again = ["replay", "--log", place, "--batch", "2-3", "--into", TO, "--execute"]
    for arguments in (
        ["send", FROM, str(file), "--skip-broken"],
        [*again, "--contains", "nothing"],
    ):
        assert main([*arguments, "--json"]) == 130
        told = json.loads(capsys.readouterr().out)
        assert (told["looked"], told["broken"], told["ended"]) == (0, 0, "interrupted")
    assert main(again) == 130
    assert "Interrupted. All before batch 2 are sent" in capsys.readouterr().out
    file.write_text('{"text": "a"}\n')
    assert main(["send", FROM, str(file)]) == 130
    assert "Interrupted. All before line 1 are sent" in capsys.readouterr().out


@pytest.mark.usefixtures("stopped")
def test_lines_that_end_by_a_signal_are_not_recorded_as_a_transaction(shop, tmp_path):
    sent = ["--transaction-log", f"file:{tmp_path}/log", "--txn-version", "1"]
    assert main(["send", FROM, os.devnull, *sent]) == 130
    assert not list((tmp_path / "log").rglob("*-1.*"))


def test_a_replay_sends_all_before_a_damaged_batch(shop, tmp_path, capsys):
    place = write_log(tmp_path / "wal", BATCHES, 4)
    arguments = ["replay", "--log", place, "--batch", "1-4", "--into", TO, "--execute"]
    segment = tmp_path / "wal" / "seg" / "000000000003"
    segment.write_bytes(b"garbage" + segment.read_bytes()[7:])

    assert main(arguments) == 1

    told = capsys.readouterr()
    assert texts(shop, TO) == sorted(text for each in BATCHES[:2] for text in each)
    assert "seg/000000000003" in told.err
    assert "All before batch 3 are sent, and perhaps some from it on." in told.out


def test_an_error_of_the_service_says_from_which_batch_to_go_on(shop, tmp_path, capsys):
    place = write_log(tmp_path / "wal", BATCHES, 4)
    shop.faults.add(Fault("put", "forbidden", nth=12))

    assert main(["replay", "--log", place, "--batch", "1-4", "--into", TO, "--execute"]) == 1

    left = int(capsys.readouterr().out.split("All before batch ")[1][0])
    there = texts(shop, TO)
    assert {text for each in BATCHES[: left - 1] for text in each} <= set(there)


@WRITERS
def test_a_replay_is_a_dry_run_until_it_is_told_to(shop, tmp_path, capsys, write):
    place = write(tmp_path / "wal", BATCHES, 3)
    arguments = ["replay", "--log", place, "--batch", "2-3", "--where", "id=22", "--into", TO]

    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert f"Of 10 messages in {place}, 1 would be sent to 'again'." in told
    assert "Nothing was sent." in told
    assert texts(shop, TO) == []

    assert main([*arguments, "--execute", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["done"], told["looked"], texts(shop, TO)) == (1, 10, ['{"id": 22}'])
    by_time = ["--from", "2020-01-01T00:00:00Z", "--to-time", "2100-01-01T00:00:00+01:00"]
    assert main(["replay", "--log", place, *by_time, "--into", TO, "--execute"]) == 0
    assert len(texts(shop, TO)) == 1 + 15, "committed batches alone"


def test_a_mark_says_where_a_message_is_from_and_its_text_is_inside(shop, tmp_path, capsys):
    place = write_log(tmp_path / "wal", [ODD], 1)
    arguments = ["replay", "--log", place, "--batch", "1", "--into", TO, "--mark", "--execute"]

    assert main(arguments) == 1, "texts of 64 KiB do not fit into an envelope"

    told = capsys.readouterr()
    assert "20 of 22 messages" in told.out
    assert "2  were skipped" in told.out
    inside = []
    for text in texts(shop, TO):
        assert json.loads(text)["replayed_from"] == f"batch 1 of {place}"
        inside.append(stored_text(envelope_in(text, Encoding.NONE), Encoding.NONE))
    assert sorted(inside) == sorted(text for text in ODD if len(text.encode()) < 65_000)


def test_a_mark_is_encoded_as_the_queue_stores_bodies(shop, tmp_path):
    """Also around a body that is no text, or empty, or no base64: its readers decode all alike."""
    bodies = [b"hello", b"", b"\xff\x00", b"\x89PNG"]
    logged = [*(base64.b64encode(body).decode() for body in bodies), "no base64!"]
    reading = {"messageEncoding": "base64", "bodyType": "string", "onUndecodable": "permissive"}
    place = write_log(tmp_path / "wal", [logged], 1, **reading)
    arguments = ["replay", "--log", place, "--batch", "1", "--into", TO, "--mark", "--execute"]

    assert main(arguments) == 0

    there = [base64.b64decode(text, validate=True).decode() for text in texts(shop, TO)]
    inside = [stored_text(envelope_in(text, Encoding.NONE), Encoding.NONE) for text in there]
    assert sorted(inside) == sorted(logged)


def test_a_replay_sends_no_reference_to_a_blob_that_goes_with_its_batch(shop, tmp_path, capsys):
    reference = Reference("bodies", new_name(), 100_000).text
    texts_in_the_log = [reference, base64.b64encode(reference.encode()).decode(), "small"]
    place = write_log(tmp_path / "wal", [texts_in_the_log], 1)
    arguments = ["replay", "--log", place, "--batch", "1", "--into", TO]
    assert main(arguments) == 0
    assert "Of 3 messages" in (told := capsys.readouterr()).out
    assert told.err.count("its body is in a blob") == 2

    assert main([*arguments, "--execute"]) == 1

    assert "1 of 3 messages" in capsys.readouterr().out
    assert texts(shop, TO) == ["small"]


@pytest.mark.more
def test_a_replay_with_faults_sends_all(shop, tmp_path):
    place = write_log(
        tmp_path / "wal", [MANY[start : start + 100] for start in range(0, 2_000, 100)], 20
    )
    for fault in faults("put"):
        shop.faults.add(fault)
    status, out, _ = run(
        shop, "replay", "--log", place, "--batch", "1-20", "--into", TO, "--execute", "--json"
    )
    told = json.loads(out)
    assert (status, told["done"]) == (1, 2_000), "500 may mean a copy"
    assert set(texts(shop, TO)) == set(MANY)
    assert len(texts(shop, TO)) - 2_000 <= told["maybe_twice"]
