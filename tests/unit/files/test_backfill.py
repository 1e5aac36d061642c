"""When the containers are listed, and what of a listing is announced."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from spark_azqueue.files import batches
from spark_azqueue.files.batches import Arrivals
from spark_azqueue.files.decide import Announced, listed_by
from spark_azqueue.files.listing import Listed
from spark_azqueue.files.memory import Bounds
from spark_azqueue.files.reading import Files
from spark_azqueue.files.rules import Rules, roots_of
from spark_azqueue.options.log import LogPlace
from spark_azqueue.options.parse import account_options

KEY = f"{'A' * 86}=="
RULES = Rules(roots_of("shopdata/landing"))
(ROOT,) = RULES.roots.values()


class Scene:
    """Starts of one query, at times of a clock; the container is a list."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now = 1e9
        self.rules, self.bounds = RULES, Bounds()
        self.container: list[Listed] = []
        self.announced: list[list[str]] = []
        monkeypatch.setattr(batches, "in_containers", lambda spark, rules: iter(self.container))
        monkeypatch.setattr(batches, "announce", self.announce)

    def announce(self, spark: Any, options: Any, queue: str, events: Iterable[str]) -> int:
        subjects = [json.loads(event)["subject"] for event in events]
        self.announced.append([subject.partition("/blobs/")[2] for subject in subjects])
        return len(self.announced[-1])

    def land(self, path: str) -> None:
        self.container.append(Listed(ROOT, path, self.now, 1))

    def start(self, *, existing: bool, every: float | None = None) -> Arrivals:
        _, account = account_options(
            {"secret.connectionString": f"AccountName=shop;AccountKey={KEY};EndpointSuffix=e.net"}
        )
        arrivals = Arrivals(
            options={},
            queue="arrived",
            trusted=["shopdata/landing"],
            rules=self.rules,
            files=Files(self.rules.roots, "json", "id INT", {}),
            each=lambda rows, number: None,
            place=LogPlace(None, str(self.folder / "log")),
            account=account,
            blobs=None,
            bounds=self.bounds,
            backfill_s=every,
            clock=lambda: self.now,
        )
        arrivals.begin(None, existing=existing)  # type: ignore[arg-type]
        return arrivals


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_the_function_of_a_batch_shows_no_options(scene: Scene) -> None:
    """Spark and debuggers print it."""
    arrivals = scene.start(existing=False)
    arrivals.options = {"secret.connectionString": "AccountKey=c2VjcmV0"}
    assert "c2VjcmV0" not in repr(arrivals)


def test_the_first_start_lists_what_is_there_and_no_later_one(scene: Scene) -> None:
    scene.land("a")
    scene.start(existing=True)
    scene.now += 1e6
    scene.land("b")
    scene.start(existing=True)

    assert scene.announced == [["a"]]


def test_files_from_before_stay_out_of_later_listings_too(scene: Scene) -> None:
    scene.land("old")
    scene.now += 10
    scene.start(existing=False, every=7200)
    scene.now += 60
    scene.land("lost")
    for _ in range(3):
        scene.now += 3000
        scene.start(existing=True, every=7200)

    assert scene.announced == [["lost"]], "two hours after the first start, with restarts between"


def test_a_later_listing_leaves_out_what_is_young(scene: Scene) -> None:
    scene.start(existing=True, every=86_400)
    scene.now += 86_400 - 3_600
    scene.land("settled")
    scene.now += 1
    scene.land("young")
    scene.now += 3_600
    scene.start(existing=True, every=86_400)

    assert scene.announced == [[], ["settled"]]


@pytest.mark.parametrize("every", [600.0, 86_400.0])
def test_what_a_listing_left_out_is_in_the_next_one_also_if_it_lists_more_often_since(
    scene: Scene, every: float
) -> None:
    """With allow_overwrites the memory does not tell what was read."""
    scene.rules = RULES._replace(allow_overwrites=True)
    scene.start(existing=True, every=86_400)
    scene.now += 86_400 - 2_400
    scene.land("young")
    scene.now += 2_400
    scene.start(existing=True, every=86_400)
    assert scene.announced == [[], []]

    scene.now += every
    arrivals = scene.start(existing=True, every=every)
    assert scene.announced[2:] == [["young"]]
    for _ in range(6):
        scene.now += every
        arrivals.list_again(None)  # type: ignore[arg-type]
    assert scene.announced[3:] == [[]] * 6, "once is enough"


def test_a_folder_that_may_be_a_mount_is_listed_until_something_is_in_it(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    (mount,) = roots_of("shopdata/landing", {"shopdata/landing": "/mnt/landing"}).values()
    scene.rules = RULES._replace(roots={mount.name: mount})
    scene.start(existing=True)
    assert "nothing is in /mnt/landing/" in caplog.text

    scene.container.append(Listed(mount, "a", scene.now, 1))
    for _ in range(2):
        scene.start(existing=True)

    assert scene.announced == [[], ["a"]]


def test_a_listing_that_takes_long_does_not_begin_again_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(spark: Any, rules: Rules) -> Iterable[Listed]:
        scene.now += 7_000
        yield from scene.container

    monkeypatch.setattr(batches, "in_containers", slow)
    arrivals = scene.start(existing=True, every=3_600)
    for _ in range(3):
        scene.now += 1_199
        arrivals.list_again(None)  # type: ignore[arg-type]
    assert len(scene.announced) == 1

    scene.now += 3
    arrivals.list_again(None)  # type: ignore[arg-type]
    assert len(scene.announced) == 2


def test_a_listing_waits_for_the_events_of_the_last_one(scene: Scene) -> None:
    arrivals = scene.start(existing=True, every=60)
    scene.now += 61
    event = Announced("shopdata/landing", "a", "created")
    ours = listed_by(scene.start(existing=True).sender)
    arrivals.list_again(None, [event, event._replace(api=ours)])  # type: ignore[arg-type]
    assert len(scene.announced) == 1

    arrivals.list_again(None, [event])  # type: ignore[arg-type]
    assert len(scene.announced) == 2


@pytest.mark.parametrize("api", ["Listed", listed_by("0" * 32)])
def test_no_other_sender_says_that_a_listing_is_under_way(scene: Scene, api: str) -> None:
    """Else one message an hour would keep lost events lost."""
    arrivals = scene.start(existing=True, every=60)
    scene.now += 61
    arrivals.list_again(None, [Announced("shopdata/landing", "a", "created", api=api)])  # type: ignore[arg-type]

    assert len(scene.announced) == 2


def test_more_files_than_are_remembered_are_told(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.bounds = Bounds(most=1)
    for name in "ab":
        scene.land(name)
    scene.start(existing=True)

    assert "2 files of a listing were announced, more than max_files_remembered=1" in caplog.text


@pytest.mark.parametrize("cut", ["event", "reason"])
def test_an_envelope_fits_into_a_message(cut: str) -> None:
    """Emojis are twelve bytes of JSON each, and base64 makes four bytes of three."""
    told = {"event": "?", "reason": "why", cut: "\N{PILE OF POO}" * 6_000}

    text = batches.envelope_text(told)

    found = json.loads(text)
    assert 12_000 < len(base64.b64encode(text.encode())) <= 65_536
    assert told[cut].startswith(found[cut])
    assert {**told, cut: found[cut]} == found


def test_a_listing_that_fails_is_done_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.land("a")

    def broken(spark: Any, rules: Rules) -> Iterable[Listed]:
        raise OSError("no container")

    with monkeypatch.context() as patch:
        patch.setattr(batches, "in_containers", broken)
        patch.setattr(batches, "announce", lambda *given: len([*given[3]]))
        with pytest.raises(OSError, match="no container"):
            scene.start(existing=True)
    scene.start(existing=True)

    assert scene.announced == [["a"]]
