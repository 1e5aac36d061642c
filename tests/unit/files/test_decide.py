"""From events to files: once each, whatever the events say and however often they come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_azqueue.errors import LogConflict
from spark_azqueue.files import record as records
from spark_azqueue.files.decide import (
    EMPTIED,
    GONE,
    NO_FILE,
    NO_HADOOP_NAME,
    NOT_ALLOWED,
    REPLACED,
    TOO_OLD,
    Announced,
    Chosen,
    Look,
    Quarantined,
    announced,
    candidates,
    changed,
    choose,
    listed_by,
    looked_at,
    not_matched,
    unseen,
    without,
)
from spark_azqueue.files.globs import Glob
from spark_azqueue.files.listing import again
from spark_azqueue.files.log import FileLog, Means, list_of
from spark_azqueue.files.memory import Bounds, File, Memory
from spark_azqueue.files.rules import LONGEST, Rules, roots_of
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.service.names import FILES

HERE = "shopdata/landing"
OURS = listed_by("0" * 32)
RULES = Rules(roots_of(HERE))


def event(path: str = "a.json", change: str = "created", **more: object) -> Announced:
    return Announced(HERE, path, change, **{"etag": "1", "at": 100.0, **more})  # type: ignore[arg-type]


def paths(files: list[File]) -> list[str]:
    return [file.path for file in files]


def test_an_event_that_comes_twice_is_one_file() -> None:
    assert candidates([event(), event()], RULES) == [File(HERE, "a.json", "1", 100.0)]


def test_the_newest_event_of_a_path_counts_by_its_sequencer() -> None:
    late = event(etag="2", sequencer="0b", at=50.0)

    (file,) = candidates([late, event(sequencer="0a")], RULES)

    assert file.etag == "2"


def test_without_sequencers_the_time_counts() -> None:
    (file,) = candidates([event(etag="2", at=200.0), event(sequencer="0a")], RULES)

    assert file.etag == "2"


@pytest.mark.parametrize(
    "later",
    [
        event(change="deleted", sequencer="0b"),
        event(api="CreateFile", sequencer="0b"),
        event(api="SftpCreate", sequencer="0b"),
    ],
)
def test_what_was_deleted_or_is_written_anew_is_left_out(later: Announced) -> None:
    first = event(sequencer="0a")

    assert candidates([first, later], RULES) == []
    assert candidates([later, first], RULES) == []
    assert paths(candidates([later, first._replace(sequencer="0c")], RULES)) == ["a.json"]


def test_what_is_not_wanted_is_left_out() -> None:
    names = ["_SUCCESS", "x/.tmp", "folder/", "b.csv", "b.json", "x.json/c.csv"]
    rules = RULES._replace(wanted=Glob("*.json"))
    elsewhere = event("d.json")._replace(place="other/landing")

    found = candidates([*map(event, names), elsewhere], rules)

    assert paths(found) == ["b.json"]


def test_what_the_pattern_alone_leaves_out() -> None:
    names = ["_SUCCESS", "x/.tmp", "folder/", "b.csv", "b.json", "x.json/c.csv"]
    gone, elsewhere = event("d.csv", "deleted"), event("e.csv")._replace(place="other/landing")
    events = [*map(event, names), event("f.csv", "renamed"), gone, elsewhere]

    found = not_matched(events, RULES._replace(wanted=Glob("*.json")))

    assert paths(found) == ["b.csv", "x.json/c.csv", "f.csv"]  # type: ignore[arg-type]
    assert not_matched(events, RULES) == []


def test_a_name_that_no_blob_has_is_not_compared_with_the_pattern() -> None:
    """It is quarantined, as it is without a pattern."""
    rules, longest = RULES._replace(wanted=Glob("*.json")), "x" * LONGEST
    events = [event(longest), event(longest + "x")]

    assert paths(candidates(events, rules)) == [longest + "x"]
    assert paths(not_matched(events, rules)) == [longest]  # type: ignore[arg-type]


class Row:
    """A row of `blob_events`."""

    def __init__(self, **values: object) -> None:
        usual = {
            **dict.fromkeys(("etag", "api", "sequencer", "renamed_from")),
            "account": "shopdata",
            "container": "landing",
            "at": 5.0,
        }
        self.__dict__.update(usual | values)


def test_a_rename_takes_the_old_name_away() -> None:
    moved = Row(change="renamed", path="b.json", renamed_from="a.json", sequencer="0b")

    found = candidates([event(sequencer="0a"), *announced(moved)], RULES)

    assert paths(found) == ["b.json"]


@pytest.mark.parametrize("word", ["\n", "é", "x" * 201, None])
@pytest.mark.parametrize("field", ["etag", "api", "sequencer"])
def test_a_word_that_is_none_is_left_out(field: str, word: str | None) -> None:
    (found,) = announced(Row(change="created", path="a", at=-1e20, **{field: word}))

    assert (getattr(found, field), found.at) == ("", 0.0)


def memory(overwrites: bool = False, *files: File) -> Memory:
    made = Memory(Bounds(), allow_overwrites=overwrites)
    made.note(1.0, files, ())
    return made


def test_a_path_is_read_once() -> None:
    read = File(HERE, "a.json", "1", 1.0)
    again = [read._replace(etag="2"), read._replace(path="b.json")]

    assert paths(choose(again, memory(False, read)).files) == ["b.json"]


def test_with_overwrites_a_version_is_read_once_and_it_is_the_one_that_is_there() -> None:
    first, second = File(HERE, "a.json", "1"), File(HERE, "a.json", "2")
    now = {(HERE, "a.json"): "2"}

    chosen = choose([first], memory(True), now)
    assert chosen.files == [second], "replaced meanwhile: the etag of today"
    assert choose([second], memory(True, second), now).files == [], "so its event changes nothing"
    assert choose([first], memory(True, second), {(HERE, "a.json"): "3"}).files != []


def test_with_overwrites_a_file_that_is_gone_is_set_aside() -> None:
    file = File(HERE, "a.json", "1")

    assert choose([file], memory(True), {}).aside == [Quarantined(file, GONE)]


def test_paths_that_lead_elsewhere_are_set_aside() -> None:
    (aside,) = choose([File(HERE, "a%2fb")], memory()).aside

    assert aside.reason == "the path could lead out of its container"


def test_an_event_from_before_the_horizon_is_set_aside() -> None:
    known = memory()
    known.horizon = 50.0
    old, new = File(HERE, "a", "", 49.0), File(HERE, "b", "", 50.0)

    chosen = choose([old, new], known)

    assert (chosen.files, chosen.aside) == ([new], [Quarantined(old, TOO_OLD)])


def test_a_mended_file_is_read_and_the_broken_version_is_not() -> None:
    broken = File(HERE, "a.json", "1", 5.0)
    known = memory(False, broken)
    known.note(2.0, (), [broken])

    assert choose([broken], known).files == []
    assert choose([broken._replace(etag="2")], known).files != []


def test_a_list_without_what_was_set_aside() -> None:
    a, b = File(HERE, "a"), File(HERE, "b")

    assert without([a, b], [Quarantined(a, "why")]) == [b]


def test_a_listing_from_before_a_file_was_set_aside_does_not_set_it_aside_again() -> None:
    memory = Memory(Bounds())
    memory.note(120.0, (), [File(HERE, "a.json", "", 90.0)])
    before, after = (event(api=OURS, etag="", at=at) for at in (120.0, 120.5))
    other = event("b.json", api=OURS, etag="", at=100.0)
    renamed = event(change="renamed", api="RenameFile", etag="", at=119.0)

    assert unseen([before, after, other, renamed], memory, OURS) == [after, other, renamed]


def test_only_the_sender_of_a_listing_says_that_it_is_one() -> None:
    """Everybody else's event says a time of its own, so it is judged like any."""
    memory = Memory(Bounds())
    memory.note(120.0, (), [File(HERE, "a.json", "1")])
    forged = [event(api=api, etag="", at=1.0) for api in ("Listed", listed_by("1" * 32))]

    assert unseen(forged, memory, OURS) == forged


def test_after_a_look_only_files_with_contents_are_read() -> None:
    files = [File(HERE, look.value) for look in Look if look is not Look.UNKNOWN]
    looks = {(HERE, look.value): look for look in Look}

    chosen = looked_at(Chosen(files, []), looks)

    assert paths(chosen.files) == ["file"]
    assert chosen.aside == [
        Quarantined(File(HERE, "gone"), GONE),
        Quarantined(File(HERE, "no name"), NO_HADOOP_NAME),
        Quarantined(File(HERE, "denied"), NOT_ALLOWED),
    ]
    assert paths(chosen.left_out) == ["empty", "no file"]


def test_an_unknown_look_decides_nothing() -> None:
    """The path may be a folder, whose files would be read again, or an empty file."""
    file, looks = File(HERE, "in"), {(HERE, "in"): Look.UNKNOWN}

    with pytest.raises(ValueError, match="no event said what is at 'in'"):
        looked_at(Chosen([file], []), looks)
    with pytest.raises(ValueError, match="no event said what is at 'in'"):
        changed([file], looks)


def test_what_changed_since_a_list_was_made() -> None:
    files = [File(HERE, name, "1") for name in ("a", "gone", "folder", "empty", "new", "lost")]
    looks = dict.fromkeys([(HERE, name) for name in ("a", "new", "lost")], Look.FILE)
    looks |= {(HERE, "gone"): Look.GONE, (HERE, "folder"): Look.NO_FILE}
    looks |= {(HERE, "empty"): Look.EMPTY}

    def seen(etags: dict[tuple[str, str], str] | None) -> dict[str, str]:
        return {each.file.path: each.reason for each in changed(files, looks, etags)}

    found = {"gone": GONE, "folder": NO_FILE, "empty": EMPTIED}
    assert seen(None) == found
    assert seen({(HERE, "a"): "1", (HERE, "new"): "2"}) == found | {"new": REPLACED, "lost": GONE}


def test_a_list_has_no_more_files_than_it_may(tmp_path: Path) -> None:
    """However many events a message has: the others come again, each in a message."""
    log = FileLog(FileStore(str(tmp_path / "log"), FILES), "shopdata", memory())
    log.open()
    events = [event(f"{number}.json") for number in range(281)]
    deleted = event("280.json", "deleted", sequencer="")._replace(at=50.0)
    back: list[Announced] = []
    looked: list[File] = []

    def look(files: list[File]) -> dict[tuple[str, str], Look]:
        looked.extend(files)
        return {(file.place, file.path): Look.FILE for file in files}

    means = Means(lambda files: None, look, 100, back.extend)  # type: ignore[arg-type]
    record = list_of(log, RULES, 0, [*events, deleted], means, 200.0)

    assert record is not None
    assert record.files == looked
    assert len(looked) == 100
    assert len(back) == 182
    assert {each.path for each in back} | {file.path for file in looked} == {
        each.path for each in events
    }
    assert list_of(log, RULES, 0, [*events, deleted], means, 201.0) == record, "it knows the others"


def new_log(folder: Path, overwrites: bool = False) -> FileLog:
    log = FileLog(FileStore(str(folder / "log"), FILES), "shopdata", memory(overwrites))
    log.open()
    return log


def all_files(files: Sequence[File]) -> dict[tuple[str, str], Look]:
    return {(file.place, file.path): Look.FILE for file in files}


def test_a_path_that_nobody_can_read_is_set_aside_however_full_the_batch_is(
    tmp_path: Path,
) -> None:
    """One among the events that are put back would end the query for good: it is too long."""
    log, long = new_log(tmp_path), "z" * 5_000
    back: list[Announced] = []
    events = [event("a.json"), event("b.json"), event(long), event("日" * 5_000)]

    record = list_of(log, RULES, 0, events, Means(lambda f: None, all_files, 1, back.extend), 200.0)

    assert record is not None
    assert paths([*record.files, *record.left_out, *back]) == ["a.json", "b.json"]  # type: ignore[list-item]
    assert record.put_back == (HERE, "b.json", 1)
    assert {each.reason for each in record.aside} == {
        "the path is longer than a blob's name can be"
    }
    assert new_log(tmp_path).record(0) == record


def test_a_list_has_room_for_whatever_events_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A character of a path may be twelve bytes of it. Of what is put back it says where it begins.

    As many again as a list has room for would end the query for good.
    """
    monkeypatch.setattr(records, "_SHARE", 56 * 2**10)
    monkeypatch.setattr(records, "LIST_AT_MOST", 128 * 2**10)
    emojis, back = "\N{PILE OF POO}" * 1_000, list[Announced]()
    sound = [event(f"{emojis}{number:03d}") for number in range(100)]
    broken = [event(f"{emojis}//{number:03d}") for number in range(200)]
    means = Means(lambda files: None, all_files, 1_000, back.extend)

    found = list_of(new_log(tmp_path), RULES, 0, [*sound, *broken], means, 200.0)

    assert found is not None
    assert len(found.files) == len(found.aside) == 4
    assert found.put_back == (HERE, sound[4].path, 96)
    assert [each.path for each in back] == [each.path for each in sound[4:]]
    assert "196 more events name paths that cannot be read" in caplog.text
    log = new_log(tmp_path)
    assert list_of(log, RULES, 0, [*sound, *broken], means, 201.0) == found, "repeated"
    with pytest.raises(LogConflict, match="does not have 1 files"):
        list_of(log, RULES, 0, [*sound, event(f"{emojis}999")], means, 202.0)


def test_a_long_path_is_not_taken_for_the_name_that_it_begins_with(tmp_path: Path) -> None:
    """What is set aside is forgotten as read, so that it is read when it is mended."""
    log, longest = new_log(tmp_path), "x" * LONGEST
    means = Means(lambda files: None, all_files, 10, lambda events: None)

    list_of(log, RULES, 0, [event(longest)], means, 200.0)
    list_of(log, RULES, 1, [event(longest + "y", etag="2")], means, 201.0)

    assert list_of(log, RULES, 2, [event(longest, etag="3")], means, 202.0) is None, "read once"


@pytest.mark.parametrize("overwrites", [False, True])
def test_a_repeated_batch_has_no_file_that_its_list_does_not_know(
    tmp_path: Path, overwrites: bool
) -> None:
    """With allow_overwrites it may have: the list then has another version of it."""
    log, rules = new_log(tmp_path, overwrites), RULES._replace(allow_overwrites=overwrites)
    means = Means(lambda files: None, all_files, 1, lambda events: None)
    events = [event("a"), event("left out")]
    record = list_of(log, rules, 0, events, means, 200.0)

    assert list_of(log, rules, 0, events, means, 201.0) == record
    if overwrites:
        assert list_of(log, rules, 0, [event("b")], means, 202.0) == record
    else:
        with pytest.raises(LogConflict, match=r"does not have 2 files .* such as 'b'"):
            list_of(log, rules, 0, [*events, event("b"), event("c")], means, 202.0)
    with pytest.raises(LogConflict, match="lists up to batch 0, and the query is at batch -1"):
        list_of(log, rules, -1, events, means, 203.0)


def test_nothing_is_put_back_as_long_as_nobody_can_look(tmp_path: Path) -> None:
    """Else each start would put the same events back, and the queue would grow."""
    back: list[Announced] = []

    def look(files: Sequence[File]) -> dict[tuple[str, str], Look]:
        raise OSError("the storage is down")

    with pytest.raises(OSError, match="down"):
        list_of(
            *(new_log(tmp_path), RULES, 0, [event("a"), event("b")]),
            *(Means(lambda files: None, look, 1, back.extend), 200.0),
        )
    assert back == []


def test_an_event_that_is_put_back_fits_into_a_message() -> None:
    """Emojis are twelve bytes of JSON each, and base64 makes four bytes of three."""
    (root,) = RULES.roots.values()
    word = '"' * 200
    (longest,) = announced(
        Row(change="created", path="\N{PILE OF POO}" * LONGEST, etag=word, api=word, sequencer=word)
    )

    assert len(again(longest, root)) <= 48_000
    assert json.loads(again(longest, root))["data"]["api"] == word


@pytest.mark.parametrize("overwrites", [False, True])
def test_an_old_event_does_not_take_the_place_of_a_genuine_one(
    tmp_path: Path, overwrites: bool
) -> None:
    """Anybody may send one with any time and etag: the file of today is read with its own event."""
    log, rules = new_log(tmp_path, overwrites), RULES._replace(allow_overwrites=overwrites)
    log.memory.horizon = 50.0
    now = {(HERE, "a.json"): "0xNEW"} if overwrites else None
    means = Means(lambda files: now, all_files, 10, lambda events: None)

    forged = list_of(log, rules, 0, [event(etag="0xNEW", at=0.0)], means, 200.0)
    assert forged is not None
    assert [each.reason for each in forged.aside] == [TOO_OLD]
    assert log.memory.aside_at(File(HERE, "a.json")) is None, "nor does a listing leave it out"

    for _ in range(2):
        genuine = list_of(log, rules, 1, [event(etag="0xNEW", at=199.0)], means, 201.0)
        assert genuine is not None
        assert paths(genuine.files) == ["a.json"]  # type: ignore[arg-type]
        log = new_log(tmp_path, overwrites)


def test_an_event_that_is_put_back_says_the_same() -> None:
    (root,) = RULES.roots.values()
    given = event("in/a b.json", api="PutBlob", sequencer="0c", at=1_700_000_000.5)

    created, deleted = (
        json.loads(again(each, root)) for each in (given, given._replace(change="deleted"))
    )

    assert created["subject"] == "/blobServices/default/containers/landing/blobs/in/a b.json"
    assert created["eventTime"] == "2023-11-14T22:13:20.500000+00:00"
    assert created["data"] == {
        "api": "PutBlob",
        "eTag": "1",
        "sequencer": "0c",
        "url": "https://shopdata.blob.core.windows.net/landing/in/a%20b.json",
    }
    kinds = [each["eventType"] for each in (created, deleted)]
    assert kinds == ["Microsoft.Storage.BlobCreated", "Microsoft.Storage.BlobDeleted"]
