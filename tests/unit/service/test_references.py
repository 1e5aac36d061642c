"""The text that stands for a large body: small, versioned, recognised without doubt."""

import json

import pytest

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.service.blobs.references import (
    MARK,
    MAX_BODY_BYTES,
    Reference,
    looks_like_reference,
    new_name,
    read_reference,
)

NAME = "0123456789abcdef0123456789abcdef"
REFERENCE = Reference("bodies", NAME, 1_048_576)
TEXT = '{"azqueue-blob":1,"container":"bodies","name":"' + NAME + '","size":1048576}'


def test_the_form_is_the_documented_one():
    assert REFERENCE.text == TEXT
    assert len(TEXT) < 200


@pytest.mark.parametrize("body", [TEXT, TEXT.encode()])
def test_a_reference_comes_back(body):
    assert read_reference(body, "bodies") == REFERENCE


@pytest.mark.parametrize(
    "body",
    ["", "hello", '{"a": 1}', " " + TEXT, TEXT.upper(), '{"azqueue-blob', b"", b"\xff", b"{}"],
)
def test_any_other_body_is_just_itself(body):
    assert not looks_like_reference(body)
    assert read_reference(body, "bodies") is None


def changed(**fields):
    return json.dumps({**json.loads(TEXT), **fields}, separators=(",", ":"))


@pytest.mark.parametrize(
    "body",
    [
        MARK,
        MARK + "1}",
        MARK + "1,",
        TEXT + "x",
        changed(name="../secrets"),
        changed(name=NAME.upper()),
        changed(name=None),
        changed(size=-1),
        changed(size="7"),
        changed(size=True),
        changed(**{"azqueue-blob": 0}),
        changed(**{"azqueue-blob": "1"}),
        TEXT.encode() + b"\xff",
        MARK + "[" * 100_000,
    ],
)
def test_what_only_begins_like_one_is_undecodable_never_a_body(body):
    assert looks_like_reference(body)
    with pytest.raises(UndecodableBody, match=r"looks like a blob reference .* not a valid one"):
        read_reference(body, "bodies")


def test_a_newer_form_is_told():
    with pytest.raises(UndecodableBody, match=r"version 2.*reads up to 1: upgrade"):
        read_reference(changed(**{"azqueue-blob": 2}, name="something new"), "bodies")


def test_another_container_is_not_looked_into():
    with pytest.raises(UndecodableBody, match="'bodies', and option 'blobContainer' says 'mine'"):
        read_reference(TEXT, "mine")


def test_a_container_is_shown_only_if_it_can_be_one():
    for name in ("x" * 60_000, "\x1b[31mbodies", "..", ["bodies"], None):
        with pytest.raises(UndecodableBody, match="'blobContainer' says 'mine'") as caught:
            read_reference(changed(container=name), "mine")
        assert len(str(caught.value)) < 200
        assert str(caught.value).isprintable()


def test_a_body_has_a_largest_size():
    assert read_reference(changed(size=MAX_BODY_BYTES), "bodies").size == MAX_BODY_BYTES
    for size in (MAX_BODY_BYTES + 1, 10**300):
        with pytest.raises(UndecodableBody, match=r"more than 1,073,741,824 bytes"):
            read_reference(changed(size=size), "bodies")


@pytest.mark.parametrize("version", [True, 1.0, 0.5, None, [1]])
def test_the_version_is_a_whole_number(version):
    with pytest.raises(UndecodableBody, match="is not a valid one"):
        read_reference(changed(**{"azqueue-blob": version}), "bodies")


def test_names_are_new():
    assert len({new_name() for _ in range(100)}) == 100
    assert read_reference(Reference("bodies", new_name(), 0).text, "bodies")
