"""Filters: which messages are meant; paths and bodies from anybody."""

import base64
import json

import pytest

from spark_azqueue.commands.filters import AtPath, Filter, at_path, body_of
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.envelopes import BodyEncoding, envelope_text


@pytest.mark.parametrize(
    ("written", "path", "value"),
    [
        ("$.a", ("a",), None),
        ("a.b=1", ("a", "b"), "1"),
        ("$['unit price'][0].x=", ("unit price", 0, "x"), ""),
        ("$.größe=a=b", ("größe",), "a=b"),
        ("$", (), None),
        ("[3]", (3,), None),
        ("$.order-id", ("order-id",), None),
    ],
)
def test_paths(written, path, value):
    assert at_path(written) == AtPath(path, value)


@pytest.mark.parametrize(
    "written",
    ["$..a", "a.", "$.a[*]", "$[?(@.a)]", "a b", "$['a", "[-1]", "x" * 501, ".a" * 21, "$.1", ""],
)
def test_paths_that_are_none(written):
    with pytest.raises(ValueError, match="names and indexes"):
        at_path(written)


DOCUMENT = {
    "id": 42,
    "price": 1.5,
    "name": "42",
    "paid": True,
    "note": None,
    "items": [{"sku": "a"}, {"sku": "b"}],
}


@pytest.mark.parametrize(
    ("written", "matches"),
    [
        ("id", True),
        ("id=42", True),
        ("id=43", False),
        ("id=42.0", True),
        ("id=4.2e1", True),
        ("id=4_2", False),
        ("id=4_2x", False),
        ("id= 42", False),
        ("id=+42", False),
        ("id=\u0664\u0662", False),
        ("id=1e999999999", False),
        ("id=", False),
        ("name=42", True),
        ("price=1.5", True),
        ("price=1.50", True),
        ("price=1_0.5", False),
        ("price=1.5000000000000000000001", False),
        ("large=inf", False),
        ("large=1e400", True),
        ("large=1e401", False),
        ("nan=nan", False),
        ("paid=true", True),
        ("paid=1", False),
        ("note=null", True),
        ("note", True),
        ("items[1].sku=b", True),
        ("items[2].sku", False),
        ("items.sku", False),
        ("id.x", False),
        ("items={}", False),
        ("nothing", False),
    ],
)
def test_values(written, matches):
    only = Filter(at_paths=(at_path(written),))
    document = json.dumps(DOCUMENT)[:-1] + ', "large": 1e400, "nan": NaN}'
    assert only.matches(document) is matches


def test_a_number_is_no_boolean():
    assert not Filter(at_paths=(at_path("a=true"),)).matches('{"a": 1}')


@pytest.mark.parametrize("text", ["", "hello", "[" * 60_000, "9" * 60_000, '{"a": ', "\ud800"])
def test_a_body_that_is_no_json_does_not_match_and_does_not_raise(text):
    assert not Filter(at_paths=(at_path("a"),)).matches(text)


def test_a_number_that_is_too_large_for_python_is_there_and_equals_nothing():
    text = '{"a": 1e99999999999999999999}'
    assert Filter(at_paths=(at_path("a"),)).matches(text)
    assert not Filter(at_paths=(at_path("a=1e99999999999999999999"),)).matches(text)


def test_all_of_them_must_hold():
    only = Filter(("hel", "lo"), (), ())
    assert only.matches("hello")
    assert not only.matches("help")
    assert Filter().matches("anything")
    assert not Filter()


def test_an_encoded_body_is_decoded_first():
    text = base64.b64encode(b'{"a": "x"}').decode()

    assert Filter(("x",), encoding=Encoding.BASE64).matches(text)
    assert not Filter(('"x"',)).matches(text)
    assert Filter(("%%",), encoding=Encoding.BASE64).matches("%%")  # as it is stored


def test_a_filter_looks_into_an_envelope():
    envelope = envelope_text("orders", "id", "it was late", '{"a":"x"}', BodyEncoding.STORED)

    assert Filter(at_paths=(at_path("a=x"),)).matches(envelope)
    assert Filter(('"a":"x"',), reasons=("late",)).matches(envelope)
    assert not Filter(reasons=("early",)).matches(envelope)
    assert not Filter(reasons=("late",)).matches("it was late")
    assert not Filter(at_paths=(at_path("queue"),)).matches(envelope)


def test_an_envelope_in_base64_is_found():
    envelope = envelope_text("orders", "id", "why", "hi", BodyEncoding.TEXT)
    body = body_of(base64.b64encode(envelope.encode()).decode(), Encoding.BASE64)

    assert (body.text, body.reason) == ("hi", "why")
