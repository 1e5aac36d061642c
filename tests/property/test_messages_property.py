"""Bodies survive the way into a message and back, whatever they hold."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.errors import InvalidRow, UndecodableBody
from spark_azqueue.service.encoding import MAX_STORED_BYTES, BodyType, Encoding, decode, encode

LARGEST_RAW = MAX_STORED_BYTES // 4 * 3
text = st.text(max_size=200)
# Everything that XML 1.0 can hold.
xml_text = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"],
        exclude_characters="\ufffe\uffff",
        include_characters="\t\n\r",
    ),
    max_size=200,
)
binary = st.binary(max_size=200)


@given(text)
def test_any_text_survives_base64(body):
    assert decode(encode(body, Encoding.BASE64), Encoding.BASE64, BodyType.STRING) == body


@given(binary, st.sampled_from([bytes, bytearray]))
def test_any_bytes_survive_base64(body, kind):
    assert decode(encode(kind(body), Encoding.BASE64), Encoding.BASE64, BodyType.BINARY) == body


@given(xml_text)
def test_any_text_that_xml_can_hold_survives_as_it_is(body):
    stored = encode(body, Encoding.NONE)

    assert stored == body
    assert decode(stored, Encoding.NONE, BodyType.STRING) == body
    assert decode(stored, Encoding.NONE, BodyType.BINARY) == body.encode()


@given(binary)
def test_bytes_without_base64_are_refused_or_survive(body):
    try:
        stored = encode(body, Encoding.NONE)
    except InvalidRow:
        return
    assert decode(stored, Encoding.NONE, BodyType.BINARY) == body


@given(text, st.sampled_from(Encoding), st.sampled_from(BodyType))
def test_a_strangers_text_is_decoded_or_told_to_be_undecodable(stored, encoding, body_type):
    try:
        body = decode(stored, encoding, body_type)
    except UndecodableBody:
        assert encoding is Encoding.BASE64, "auto never fails"
    else:
        assert isinstance(body, str if body_type is BodyType.STRING else bytes)


@given(st.integers(LARGEST_RAW - 2, LARGEST_RAW + 2))
def test_what_is_refused_for_its_size_is_just_what_would_not_fit(size):
    try:
        stored = encode(b"\xff" * size, Encoding.BASE64)
    except InvalidRow:
        assert size > LARGEST_RAW
    else:
        assert len(stored) <= MAX_STORED_BYTES


@given(text.filter(bool), st.sampled_from(BodyType))
def test_auto_reads_any_text_that_was_encoded(body, body_type):
    found = decode(encode(body, Encoding.BASE64), Encoding.AUTO, body_type)

    assert found == (body if body_type is BodyType.STRING else body.encode())


@given(xml_text, st.sampled_from(BodyType))
def test_auto_reads_a_plain_text_as_it_is_unless_it_is_base64_itself(body, body_type):
    try:
        raw = base64.b64decode(body, validate=True)
    except ValueError:
        assert decode(body, Encoding.AUTO, body_type) == decode(body, Encoding.NONE, body_type)
    else:
        found = decode(body, Encoding.AUTO, BodyType.BINARY)
        assert found in (raw, body.encode())
