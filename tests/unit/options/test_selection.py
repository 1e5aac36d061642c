"""Which queues a source reads: names, patterns, and what no pattern matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refs import ref

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.parse import sink_config, source_config
from spark_azqueue.options.selection import QueueSelection

ACCOUNT = {"secret.connectionString": "AccountName=acc;AccountKey=c2VjcmV0"}
NAMES = ["audit", "orders-1", "orders-2", "orders-1-poison", "orders-10", "dead", "returns"]


def selection(*parts: str, poison_queue: str | None = None) -> QueueSelection:
    return QueueSelection("acc", parts, poison_queue)


def names(selected: QueueSelection) -> list[str]:
    return [queue.name for queue in selected.among(NAMES)]


def source(**options: str):
    return source_config(ACCOUNT | options, {})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("orders-*",), ["orders-1", "orders-10", "orders-2"]),
        (("orders-?",), ["orders-1", "orders-2"]),
        (("*",), ["audit", "dead", "orders-1", "orders-10", "orders-2", "returns"]),
        (("returns", "orders-?"), ["returns", "orders-1", "orders-2"]),
        (("*s", "orders-*", "returns"), ["returns", "orders-1", "orders-10", "orders-2"]),
        (("orders-2", "orders-*"), ["orders-2", "orders-1", "orders-10"]),
        (("*-poison",), []),
        (("missing", "nothing-*"), ["missing"]),
    ],
)
def test_the_queues_follow_the_option_and_then_their_names(parts, expected):
    assert names(selection(*parts)) == expected


def test_no_pattern_matches_a_poison_queue_but_a_name_may_be_one():
    assert "dead" not in names(selection("*", poison_queue="dead"))
    assert names(selection("orders-1-poison")) == ["orders-1-poison"]
    assert not selection("*").includes(ref("orders-1-poison", "acc"))
    assert selection("orders-1-poison").includes(ref("orders-1-poison", "acc"))


def test_it_knows_what_it_reads_without_asking_the_account():
    selected = selection("returns", "orders-*")

    assert selected.includes(ref("returns", "acc"))
    assert selected.includes(ref("orders-7", "acc"))
    assert not selected.includes(ref("audit", "acc"))
    assert not selected.includes(ref("orders-7", "other"))


def test_only_what_no_name_says_comes_and_goes():
    selected = selection("orders-1", "orders-*")

    assert not selected.comes_and_goes(ref("orders-1", "acc"))
    assert selected.comes_and_goes(ref("orders-2", "acc"))
    assert not selected.comes_and_goes(ref("audit", "acc"))


@pytest.mark.parametrize(
    ("parts", "prefix"),
    [
        (("orders-*",), "orders-"),
        (("orders-*", "ord?rs"), "ord"),
        (("orders-*", "returns-*"), ""),
        (("*",), ""),
        (("orders", "returns-*"), "returns-"),
        (("orders",), ""),
    ],
)
def test_the_account_is_asked_for_what_all_patterns_begin_with(parts, prefix):
    assert selection(*parts).prefix == prefix


letters = st.text("ab-*?", min_size=1, max_size=4)


@given(st.lists(letters, min_size=1, max_size=3), st.text("ab-", min_size=1, max_size=5))
def test_whatever_a_pattern_matches_begins_with_the_prefix(parts, name):
    selected = selection(*parts)

    if selected.comes_and_goes(ref(name, "acc")):
        assert name.startswith(selected.prefix)


def test_the_option_takes_names_and_patterns():
    config = source(queue="returns, orders-*")

    assert config.queues == (ref("returns", "acc"),)
    assert config.selection.patterns == ("orders-*",)


@pytest.mark.parametrize(
    "bad", ["Orders-*", "orders_*", "orders-[12]*", "a*" * 40, "orders-*,orders-*"]
)
def test_a_pattern_that_is_not_legal_is_refused(bad):
    with pytest.raises(InvalidOption, match="queue"):
        source(queue=bad)


def test_the_sink_takes_no_pattern():
    with pytest.raises(InvalidOption, match=r"pattern 'orders-\*'; the sink takes a name"):
        sink_config(ACCOUNT | {"queue": "orders-*"}, {})


def test_the_settings_of_queues_cannot_come_from_queues_that_come_and_go():
    with pytest.raises(InvalidOption, match=r"'orders-\*'"):
        source(queue="returns,orders-*", settingsFromQueue="true")


def test_the_poison_queue_of_the_option_is_never_read_by_a_pattern():
    config = source(queue="*", maxDequeueCount="3", poisonQueue="dead")

    assert not config.selection.includes(ref("dead", "acc"))
