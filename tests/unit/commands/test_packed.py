"""Commands and packed messages: shown as what they are, with their rows, split and sent."""

import base64
import contextlib
import gzip
import json
import os
import random
import re
import resource
import sys
import threading

import pyarrow as pa
import pytest
from packed import EVERY_TYPE, arrow_pack, in_base64, json_pack, stream_of

from spark_azqueue.commands.command_line import main
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.rows.packing.bodies import FORMATS, rows_of
from spark_azqueue.rows.packing.bounds import PackBounds
from spark_azqueue.rows.packing.splitting import PARTS, split
from spark_azqueue.service.envelopes import BodyEncoding, envelope_text
from spark_azqueue.testing import Fault

FROM, TO = "orders-poison", "orders"
WANTED = pa.schema({"id": pa.int64()})


@pytest.fixture
def shop(fake, monkeypatch):
    """A fake with the two queues, which the environment names."""
    fake.create_queue(FROM)
    fake.create_queue(TO)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    return fake


def pack_of(name, count):
    chosen = FORMATS[name]
    rows = pa.RecordBatch.from_pydict({"id": range(count)})
    return chosen.packed(chosen.prepared(rows))


def ids_of(text):
    return [
        each for rows in rows_of(text, WANTED, PackBounds()) for each in rows.column(0).to_pylist()
    ]


def said(capsys):
    return json.loads(capsys.readouterr().out)


# ── shown ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FORMATS)
def test_peek_shows_what_a_pack_is_and_with_unpack_its_rows(shop, capsys, name):
    data = pack_of(name, 25)
    shop.put(TO, in_base64(data))

    assert main(["peek", TO]) == 0
    out = capsys.readouterr().out
    assert f"packed, {name}: 25 rows, {len(data):,} bytes before base64" in out
    assert in_base64(data)[:40] not in out
    assert '{"id":0}' not in out

    assert main(["peek", TO, "--unpack"]) == 0
    out = capsys.readouterr().out
    assert '{"id":9}' in out
    assert '{"id":10}' not in out
    assert "15 more; --whole" in out

    assert main(["peek", TO, "--unpack", "--whole"]) == 0
    assert '{"id":24}' in capsys.readouterr().out


@pytest.mark.parametrize("command", ["peek", "export", "search"])
def test_scripts_get_rows_as_texts_without_a_loss_of_digits(shop, capsys, command):
    chosen = FORMATS["arrow"]
    shop.put(TO, in_base64(chosen.packed(chosen.prepared(EVERY_TYPE))))
    words = {"peek": ["--json"], "export": [], "search": ["--json", "--contains", "azqpack"]}

    assert main([command, TO, *words[command]]) == 0
    first = json.loads(capsys.readouterr().out.split("\n")[0])
    assert first["pack"]["rows"] == 3
    assert "lines" not in first["pack"]

    assert main([command, TO, *words[command], "--unpack"]) == 0
    first = json.loads(capsys.readouterr().out.split("\n")[0])
    assert '"price":10000000000000000000.000000000000000000' in first["pack"]["lines"][1]


def test_a_pack_is_shown_out_of_its_envelope(shop, capsys):
    text = in_base64(pack_of("json", 2))
    shop.put(FROM, envelope_text("orders", "id-1", "why", text, BodyEncoding.STORED))
    assert main(["peek", FROM]) == 0
    out = capsys.readouterr().out
    assert "dead-lettered from orders id-1: why" in out
    assert "packed, json: 2 rows" in out


def test_what_cannot_be_shown_is_an_error_of_its_message_alone(shop, capsys):
    equal = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    many = pa.array([[True] * 300_000])
    for column in (equal, many):
        shop.put(TO, in_base64(arrow_pack(stream_of(pa.RecordBatch.from_pydict({"n": column})))))
    shop.put(TO, in_base64(pack_of("arrow", 2)))
    assert main(["peek", TO, "--unpack", "--json"]) == 0
    packs = [json.loads(line)["pack"] for line in capsys.readouterr().out.splitlines()]
    assert ["error" in pack for pack in packs] == [True, True, False]
    assert "250,000" in packs[1]["error"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct({"n" * 15_000: pa.bool_()}),
        pa.list_(pa.struct({"n" * 15_000: pa.bool_()})),
        pa.map_(pa.string(), pa.struct({"n" * 15_000: pa.bool_()})),
    ],
)
def test_lines_have_the_bound_of_rows_however_long_the_names_are(shop, capsys, kind):
    """Few bytes were gigabytes of lines."""
    value = {"n" * 15_000: None}
    value = (
        [("a", value)] if pa.types.is_map(kind) else [value] if pa.types.is_list(kind) else value
    )
    count = 4_000
    rows = pa.RecordBatch.from_pydict({"s": pa.array([value] * count, kind)})
    text = in_base64(arrow_pack(stream_of(rows)))
    assert len(text) < 30_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shop.put(TO, text)

    assert main(["peek", TO, "--unpack", "--json"]) == 0

    pack = said(capsys)["pack"]
    assert ("lines" in pack, pack["rows"]) == (False, count)
    assert "more than max_bytes" in pack["error"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1_024


def test_a_split_ends_at_the_first_part_that_no_message_holds(monkeypatch):
    wide = pa.schema(
        [(f"{n}{random.Random(n).randbytes(40).hex()}", pa.int8()) for n in range(800)]
    )
    rows = pa.RecordBatch.from_arrays([pa.array([1] * 900, pa.int8())] * 800, schema=wide)
    text = in_base64(arrow_pack(stream_of(rows)))
    made = []
    packed = FORMATS["arrow"].packed
    monkeypatch.setattr(
        type(FORMATS["arrow"]), "packed", staticmethod(lambda rows: made.append(1) or packed(rows))
    )
    assert split(text) == [text]
    assert len(made) == 1


def test_what_is_not_known_is_shown_and_never_guessed(shop, capsys):
    shop.put(TO, "azqpack2AAAA")
    shop.put(TO, in_base64(pack_of("arrow", 5)[:-9]))
    shop.put(TO, "H4sI is a text")
    shop.put(TO, in_base64(json_pack(b"\xff\x1b[31m")))
    assert main(["peek", TO, "--unpack"]) == 0
    out = capsys.readouterr().out
    assert "version '2', which is not known" in out
    assert "packed, arrow, " in out
    assert "cannot be opened: it does not open" in out
    assert "H4sI is a text" in out
    assert "\x1b" not in out


# ── split ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("times", [1, 2])
def test_a_pack_is_split_into_its_rows_in_the_same_format(name, times):
    """Twice in base64: a text pack in a queue in base64."""
    text = in_base64(pack_of(name, 30))
    stored = text if times == 1 else base64.b64encode(text.encode()).decode()
    parts = split(stored)
    if times == 2:
        parts = [base64.b64decode(part).decode() for part in parts]
    assert [ids_of(part) for part in parts] == [[n] for n in range(30)]
    assert {part[:4] for part in parts} == {text[:4]}


@pytest.mark.parametrize("name", FORMATS)
def test_a_pack_of_very_many_rows_is_split_into_32(name):
    parts = split(in_base64(pack_of(name, 5_000)))
    assert len(parts) == PARTS
    assert [each for part in parts for each in ids_of(part)] == [*range(5_000)]


def test_every_type_is_split_as_it_is():
    chosen = FORMATS["arrow"]
    rows = chosen.prepared(EVERY_TYPE)
    found = [
        rows_of(part, rows.schema, PackBounds()) for part in split(in_base64(chosen.packed(rows)))
    ]
    assert [batch for batches in found for batch in batches] == [rows[n : n + 1] for n in range(3)]


@pytest.mark.parametrize("text", ["plain", '{"id":1}', "azqpack2AAAA", "H4sIAAAA", ""])
def test_what_is_no_pack_is_moved_as_it_is(text):
    assert split(text) == [text]


@pytest.mark.parametrize("name", FORMATS)
def test_a_pack_of_one_row_is_moved_as_it_is(name):
    """Another writer may have made it: its bytes stay."""
    text = in_base64(pack_of(name, 1)) if name == "arrow" else in_base64(gzip.compress(b'{"id":0}'))
    assert split(text) == [text]


def test_a_pack_whose_parts_would_be_too_large_is_moved_as_it_is():
    """Half of a pack that its writer compressed better."""
    words = [f"{n % 977:x}-" for n in range(200_000)]
    random.Random(1).shuffle(words)
    row = json.dumps({"id": 1, "t": "".join(words)[:108_500]})
    text = in_base64(gzip.compress(f'{row}\n{{"id":2}}\n'.encode(), 9))
    assert len(text) <= 65_536
    assert split(text) == [text]


def test_a_rate_counts_the_parts_of_a_split(shop, capsys, monkeypatch):
    for _ in range(3):
        shop.put(FROM, in_base64(pack_of("arrow", 50)))
    waited = []
    monkeypatch.setattr(threading.Event, "wait", lambda self, s=None: waited.append(s))
    assert main(["redrive", FROM, "--split", "--rate", "8", "--execute", "--json"]) == 0
    assert shop.count(TO) == 150
    assert sum(each for each in waited if each and each > 3) > 100 / 8


def test_redrive_splits_dead_letters_into_rows(shop, capsys):
    text = in_base64(pack_of("arrow", 40))
    shop.put(FROM, envelope_text("orders", "id-1", "why", text, BodyEncoding.STORED))
    shop.put(FROM, "no pack")

    assert main(["redrive", FROM, "--split", "--json"]) == 0
    assert shop.count(TO) == 0
    capsys.readouterr()
    assert main(["redrive", FROM, "--split", "--execute", "--json"]) == 0

    result = said(capsys)
    assert (result["done"], result["opened"], result["maybe_twice"]) == (2, 1, 0)
    assert shop.count(FROM) == 0
    found = [message.text for message in shop.messages(TO)]
    assert sorted(each for text in found if text != "no pack" for each in ids_of(text)) == [
        *range(40)
    ]
    assert len(found) == 41


def test_a_split_that_fails_leaves_the_dead_letter_and_says_how_many_parts_there_are(shop, capsys):
    shop.put(FROM, in_base64(pack_of("arrow", 10)))
    shop.faults.add(Fault("put", "forbidden", queue=TO, nth=4))

    assert main(["redrive", FROM, "--split", "--execute", "--json"]) == 1

    result = said(capsys)
    assert (result["done"], result["maybe_twice"], result["ended"]) == (0, 9, "failed")
    assert shop.count(FROM) == 1
    assert shop.count(TO) == 9


def test_a_lost_answer_may_be_a_row_twice_and_is_counted(shop, capsys):
    shop.put(FROM, in_base64(pack_of("arrow", 10)))
    shop.faults.add(Fault("put", "reply_lost", queue=TO, nth=4, times=1))

    assert main(["redrive", FROM, "--split", "--execute", "--json"]) == 1

    result = said(capsys)
    assert (result["done"], result["maybe_twice"]) == (1, 1)
    assert shop.count(TO) == 11


def test_split_opens_envelopes(shop, capsys):
    with pytest.raises(SystemExit):
        main(["redrive", FROM, "--split", "--as-is"])
    assert "--as-is" in capsys.readouterr().err


# ── selected ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("times", [1, 2])
def test_a_pack_is_meant_if_one_of_its_rows_is(shop, capsys, tmp_path, name, times):
    text = in_base64(pack_of(name, 300))
    text = in_base64(text.encode()) if times == 2 else text
    shop.put(FROM, text)
    shop.put(FROM, envelope_text("orders", "id-1", "why", text, BodyEncoding.STORED))
    shop.put(FROM, '{"id": 7}')
    shop.put(FROM, '{"id": 299}')
    where = ["--where", "id=299", "--json"]

    assert main(["peek", FROM, *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["search", FROM, *where]) == 0
    assert '"done": 3' in "".join(capsys.readouterr())
    assert main(["export", FROM, "--contains", '"id":299', "--to", f"{tmp_path}/out"]) == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 2
    capsys.readouterr()
    assert main(["purge", FROM, *where, "--contains", "8", "--execute"]) == 0
    assert shop.count(FROM) == 4, "one row has to fit all"
    capsys.readouterr()
    assert main(["move", FROM, "--to", TO, *where, "--execute"]) == 0
    assert (said(capsys)["done"], shop.count(FROM)) == (3, 1)


@pytest.mark.parametrize("command", ["search", "export", "move", "purge", "redrive"])
def test_a_pack_that_cannot_be_opened_stays_and_is_counted(shop, capsys, tmp_path, command):
    shop.put(FROM, in_base64(pack_of("arrow", 5)[:-9]))
    more = {"move": ["--to", TO], "export": ["--to", f"{tmp_path}/out"]}.get(command, [])
    more += [] if command in ("search", "export") else ["--execute"]

    assert main([command, FROM, "--where", "id=1", *more]) == 1

    told = capsys.readouterr()
    assert "1  stay: packs that cannot be opened" in told.out + told.err
    assert shop.visible(FROM) == 1
    assert main(["peek", FROM, "--where", "id=1"]) == 0
    assert "1 packs cannot be opened" in capsys.readouterr().out


def test_purge_deletes_no_row_that_does_not_match(shop, capsys):
    shop.put(FROM, in_base64(pack_of("arrow", 5)))
    assert main(["purge", FROM, "--where", "id=1", "--execute", "--json"]) == 1
    counts = said(capsys)
    assert (counts["done"], counts["undecided"], shop.visible(FROM)) == (0, 1, 1)
    assert main(["purge", FROM, "--where", "id", "--execute", "--json"]) == 0
    assert (said(capsys)["done"], shop.count(FROM)) == (1, 0)


# ── sent ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def rows(tmp_path):
    """A file of 2,000 rows."""
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(f'{{"id": {n}, "price": 1.50, "t": "{"x" * (n % 50)}"}}\n' for n in range(2_000))
    )
    return path


@pytest.fixture
def stdin(monkeypatch):
    """Lets standard input be a pipe that gives these bytes, at most so many at a time."""
    threads = []
    opened = contextlib.ExitStack()

    def pipe(data, at_once):
        reader, writer = os.pipe()
        read = os.read
        monkeypatch.setattr(
            os, "read", lambda fd, most: read(fd, min(most, at_once) if fd == reader else most)
        )
        monkeypatch.setattr(sys, "stdin", opened.enter_context(os.fdopen(reader)))

        def feed():
            with open(writer, "wb") as sink:
                sink.write(data)

        threads.append(threading.Thread(target=feed))
        threads[-1].start()

    yield pipe
    for thread in threads:
        thread.join()
    opened.close()


def all_ids(fake):
    return [each for message in fake.messages(TO) for each in ids_of(message.text)]


def test_lines_are_sent_many_in_a_message(shop, capsys, rows):
    assert main(["send", TO, str(rows), "--pack"]) == 0

    count = shop.count(TO)
    assert count <= 3
    assert f"{count} of {count} packed messages of {rows}" in capsys.readouterr().out
    assert all_ids(shop) == [*range(2_000)]
    assert main(["peek", TO, "--unpack"]) == 0
    assert '"price": 1.50' in capsys.readouterr().out


def test_a_line_that_is_no_row_is_named_and_nothing_of_its_file_is_sent(shop, capsys, rows):
    many_digits = '{"id":1e' + "9" * 30 + "}"
    for bad in ("[1]", '{"id":1,"id":2}', '{"id":NaN}', "{", many_digits, '{"t":["\\uD800"]}'):
        rows.write_text(f'{{"id": 1}}\n{bad}\n')
        assert main(["send", TO, str(rows), "--pack"]) == 1
        assert "line 2 of" in capsys.readouterr().err
    assert shop.count(TO) == 0
    assert main(["send", TO, str(rows), "--pack", "--skip-broken"]) == 1
    assert "1 of 1 packed messages" in capsys.readouterr().out
    assert all_ids(shop) == [1]
    rows.write_text("{\n" * 3)
    assert main(["send", TO, str(rows), "--pack", "--skip-broken", "--json"]) == 1
    counts = said(capsys)
    assert (counts["looked"], counts["broken"], counts["done"]) == (0, 3, 0)


@pytest.mark.parametrize("more", [[], ["--pack"]])
def test_an_error_of_json_names_the_line_of_the_file_alone(shop, capsys, rows, more):
    rows.write_text('{"body": "1"}\n{"body":\n')
    assert main(["send", TO, str(rows), *more]) == 1
    said_ = capsys.readouterr().err
    assert "line 2 of" in said_
    assert "it is no JSON: Expecting value at character 9" in said_
    assert "line 1" not in said_


def test_packs_are_sent_once_with_a_transaction_log(shop, tmp_path, rows):
    words = ["--transaction-log", f"file:{tmp_path}/log", "--txn-version", "1"]
    for _ in range(2):
        assert main(["send", TO, str(rows), "--pack", *words]) == 0
    assert all_ids(shop) == [*range(2_000)]


def test_the_same_rows_are_the_same_however_they_are_read(shop, tmp_path, rows, capsys, stdin):
    """A pipe gives few lines at a time, and so other packs."""
    rows.write_text("".join(f'{{"id": {n}, "t": "{hash((n,)):064x}"}}\n' for n in range(9_000)))
    words = ["--pack", "--transaction-log", f"file:{tmp_path}/log", "--txn-version", "1"]
    assert main(["send", TO, str(rows), *words]) == 0
    before = shop.count(TO)
    stdin(rows.read_bytes(), 5_000)
    assert main(["send", TO, *words]) == 0
    assert "was recorded before, and nothing was sent" in capsys.readouterr().out
    assert shop.count(TO) == before

    lines = rows.read_text().splitlines(keepends=True)
    for others in ([*lines[1:], lines[0]], lines[1:], [line.upper() for line in lines]):
        stdin("".join(others).encode(), 5_000)
        assert main(["send", TO, *words]) == 1
        assert "other texts than these" in capsys.readouterr().err
    assert main(["send", TO, str(rows), "--raw", *words[1:]]) == 1
    assert all_ids(shop) == [*range(9_000)]


def test_a_run_that_fails_names_the_line_to_continue_with(shop, capsys, rows):
    rows.write_text(
        "".join(
            f'{{"id": {n}, "t": "{random.Random(n).randbytes(400).hex()}"}}\n' for n in range(500)
        )
    )
    shop.faults.add(Fault("put", "forbidden", queue=TO, nth=4))  # the first one is a check
    assert main(["send", TO, str(rows), "--pack"]) == 1
    out = capsys.readouterr().out
    done, looked = map(int, re.search(r"(\d+) of (\d+) packed messages", out).groups())
    assert done <= looked < 10
    first_left = int(re.search(r"All before line (\d+) are sent", out)[1])
    assert first_left > 1
    assert {*range(first_left - 1)} <= {*all_ids(shop)} < {*range(500)}


def test_a_line_is_raw_or_a_row(shop, capsys):
    with pytest.raises(SystemExit):
        main(["send", TO, "--pack", "--raw"])
    assert "one of the two" in capsys.readouterr().err
