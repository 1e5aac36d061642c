"""No answer makes a tree that is larger than one of the service could be."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from refs import ORDERS

from spark_azqueue.errors import ServiceUnavailable
from spark_azqueue.service.blobs.xml import blobs_in
from spark_azqueue.service.markup import parsed
from spark_azqueue.service.queues.xml import read_messages, read_placed
from spark_azqueue.service.wire.http import MOST_BODY_BYTES

LIST = b"<QueueMessagesList>"
HOSTILE = {
    "tags that are not closed": (LIST, b"<a>", b""),
    "messages that are not closed": (LIST, b"<QueueMessage>", b""),
    "ids that are not closed": (LIST, b"<QueueMessage><MessageId>", b""),
    "empty tags": (LIST, b"<a/>", b"</QueueMessagesList>"),
    "messages without an id": (
        *(LIST, b"<QueueMessage><MessageId></MessageId></QueueMessage>", b"</QueueMessagesList>"),
    ),
    "tags in a text": (LIST + b"<QueueMessage><MessageId>a</MessageId><MessageText>", b"<a>", b""),
    "one tag with many attributes": (b"<QueueMessagesList ", b"a='' ", b"/>"),
    "blobs that are not closed": (b"<EnumerationResults><Blobs>", b"<Blob>", b""),
}


@pytest.fixture(params=HOSTILE)
def document(request: pytest.FixtureRequest) -> bytes:
    """As large as an answer may be."""
    start, piece, end = HOSTILE[request.param]
    return start + piece * ((MOST_BODY_BYTES - len(start) - len(end)) // len(piece)) + end


def most_memory(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_reply_takes_no_more_memory_than_a_few_of_its_kind(document: bytes) -> None:
    def read() -> None:
        with pytest.raises(ServiceUnavailable):
            read_messages(ORDERS, document)
        assert read_placed(ORDERS, document) is None

    assert most_memory(read) < 8 * MOST_BODY_BYTES


def test_a_page_of_blobs_is_refused_before_it_is_a_tree(document: bytes) -> None:
    def read() -> None:
        with pytest.raises(ValueError, match="not XML as the service writes it"):
            blobs_in(document)

    assert most_memory(read) < MOST_BODY_BYTES


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (b"<a><b/><b/></a>", True),
        (b"<a><b/><b/><b/></a>", False),
        (b"<a>" + b"x" * 10_000 + b"</a>", True),
        (b"<a><![CDATA[" + b"x" * 10_000 + b"]]></a>", True),
        (b"<a b='" + b"x" * 1_000 + b"'/>", False),
        (b"<!DOCTYPE a><a/>", False),
        (b"<a>", False),
        (b"", False),
    ],
)
def test_what_is_parsed(document: bytes, found: bool) -> None:
    assert (parsed(document, 4) is not None) is found


def test_a_tag_has_few_attributes() -> None:
    """16 MiB may have 1.5 million: each takes more memory than a tag."""
    assert parsed(b"<r><x a='' b='' c=''>=====</x></r>", 100) is not None
    assert parsed(b"<r><x a='' b='' c='' d=''/></r>", 100) is None
