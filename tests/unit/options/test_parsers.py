"""Text of an option to value: what each parser takes, and what it says of the rest."""

import enum

import pytest

from spark_azqueue.options import parsers as parsing


def refused(parse, value):
    with pytest.raises(ValueError, match=r".") as caught:
        parse(value)
    return str(caught.value)


@pytest.mark.parametrize(("value", "found"), [("a", "a"), ("  a b \n", "a b")])
def test_a_text_is_stripped(value, found):
    assert parsing.text(value) == found


@pytest.mark.parametrize("value", ["", "  ", "\n\t"])
def test_a_blank_text_is_refused(value):
    assert "not empty" in refused(parsing.text, value)


@pytest.mark.parametrize(
    ("value", "found"), [("true", True), ("TRUE", True), (" False ", False), ("false", False)]
)
def test_a_flag_is_true_or_false_in_any_case(value, found):
    assert parsing.flag(value) is found


@pytest.mark.parametrize("value", ["", "yes", "1", "t", "truefalse"])
def test_a_flag_is_nothing_else(value):
    assert refused(parsing.flag, value) == "true or false"


class Colour(str, enum.Enum):
    RED = "red"
    DEEP_BLUE = "deepBlue"


@pytest.mark.parametrize(
    ("value", "found"), [("red", Colour.RED), ("DEEPBLUE", Colour.DEEP_BLUE), (" Red ", Colour.RED)]
)
def test_a_choice_is_found_in_any_case(value, found):
    assert parsing.one_of(Colour)(value) is found


@pytest.mark.parametrize("value", ["", "green", "RED,deepBlue", "DEEP_BLUE"])
def test_a_choice_names_the_others_as_users_spell_them(value):
    assert refused(parsing.one_of(Colour), value) == "one of red, deepBlue"


@pytest.mark.parametrize(
    ("value", "found"), [("1", 1), (" 42 ", 42), ("007", 7), ("1000", 1000), ("+5", None)]
)
def test_a_whole_number_between_two_bounds(value, found):
    parse = parsing.whole_number(1, 1000)
    if found is None:
        refused(parse, value)
    else:
        assert parse(value) == found


@pytest.mark.parametrize("value", ["0", "1001", "-1", "1.0", "1e3", "", " ", "1_000", "many"])
def test_another_number_is_refused_with_the_bounds(value):
    assert refused(parsing.whole_number(1, 1000), value) == "a whole number from 1 to 1,000"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("90", 90),
        ("0", 0),
        ("1.5", 1.5),
        (" 90 ", 90),
        ("90s", 90),
        ("90 seconds", 90),
        ("1 second", 1),
        ("500 ms", 0.5),
        ("250 milliseconds", 0.25),
        ("5 minutes", 300),
        ("5 MINUTES", 300),
        ("5m", 300),
        ("5 min", 300),
        ("5 mins", 300),
        ("2 hours", 7200),
        ("2 hrs", 7200),
        ("1.5 hours", 5400),
        ("1 hour 30 minutes", 5400),
        ("1h30m", 5400),
        ("1 day", 86_400),
        ("1 week", 604_800),
        ("2 weeks", 1_209_600),
        ("interval 5 minutes", 300),
        ("INTERVAL 1 day 1 hour", 90_000),
    ],
)
def test_a_duration_as_seconds_or_as_spark_writes_it(value, found):
    assert parsing.seconds(value) == pytest.approx(found)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "  ",
        "interval ",
        "five minutes",
        "-5",
        "5 fortnights",
        "1 month",  # no fixed length
        "minutes",
        "1 hour 30",  # of what?
        "5 minutes!",
        "1e3",
        "nan",
        "inf",
        "1,5",
    ],
)
def test_what_is_no_duration_is_refused_with_examples(value):
    assert '"5 minutes"' in refused(parsing.seconds, value)


@pytest.mark.parametrize(
    ("value", "whole", "found"), [("1", True, 1), ("7 days", True, 604_800), ("1.5", False, 1.5)]
)
def test_a_duration_between_bounds(value, whole, found):
    got = parsing.duration(1, 604_800, whole=whole)(value)

    assert got == found
    assert isinstance(got, int) is whole


@pytest.mark.parametrize("value", ["0", "0.5", "604801", "8 days", "1.5"])
def test_a_duration_beyond_its_bounds_is_refused_with_them(value):
    expected = "whole seconds from 1 second to 7 days"
    assert refused(parsing.duration(1, 604_800, whole=True), value) == expected


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (0.1, "0.1 seconds"),
        (1, "1 second"),
        (90, "90 seconds"),
        (60, "1 minute"),
        (300, "5 minutes"),
        (3600, "1 hour"),
        (86_400, "1 day"),
        (604_800, "7 days"),
    ],
)
def test_durations_in_words(seconds, words):
    assert parsing.in_words(seconds) == words


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("65536", 65_536),
        ("512k", 524_288),
        ("512K", 524_288),
        ("32m", 33_554_432),
        ("32 MB", 33_554_432),
        ("32MiB", 33_554_432),
        ("1g", 1_073_741_824),
        ("70000b", 70_000),
    ],
)
def test_sizes_in_bytes_or_with_a_unit(value, found):
    assert parsing.byte_size(65_536, 2**31)(value) == found


@pytest.mark.parametrize("value", ["", "m", "65535", "1k", "-1m", "1.5g", "3g", "1t", "32 m b"])
def test_other_sizes_are_refused_with_the_bounds(value):
    assert "bytes from 65,536 to 2,147,483,648" in refused(parsing.byte_size(65_536, 2**31), value)


@pytest.mark.parametrize(
    "name", ["abc", "a-b-c", "0aa", "orders-2", "a" * 63, "1-2", " orders ", "orders-poison"]
)
def test_a_legal_queue_name(name):
    assert parsing.queue_name(name) == name.strip()


@pytest.mark.parametrize(
    "name",
    ["", "ab", "a" * 64, "Orders", "a_b", "-abc", "abc-", "a--b", "a.b", "órders", "a b", "abc\n-"],
)
def test_an_illegal_queue_name_is_refused_with_the_rules(name):
    assert "3 to 63 characters" in refused(parsing.queue_name, name)


@pytest.mark.parametrize(
    ("value", "found"),
    [("orders", ("orders",)), ("b-queue, a-queue", ("b-queue", "a-queue")), (" abc ", ("abc",))],
)
def test_several_queues_keep_their_order(value, found):
    assert parsing.queue_names(value) == found


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("abc,abc", "each queue once"),
        ("abc, abc", "each queue once"),
        ("abc,", "3 to 63"),
        ("abc;def", "3 to 63"),
    ],
)
def test_bad_lists_of_queues_are_refused(value, says):
    assert says in refused(parsing.queue_names, value)
