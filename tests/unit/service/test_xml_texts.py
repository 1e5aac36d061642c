"""The texts in a page of messages: read as XML means them, one damaged text hides no other."""

import datetime

import pytest
from refs import ORDERS

from spark_azqueue.errors import ServiceError
from spark_azqueue.service.queues.xml import read_messages

MESSAGE = (
    "<QueueMessage><MessageId>{id}</MessageId>"
    "<InsertionTime>Tue, 14 Nov 2023 22:13:20 GMT</InsertionTime>"
    "<ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime>"
    "<PopReceipt>r+/=</PopReceipt><TimeNextVisible>Tue, 14 Nov 2023 22:13:21 GMT</TimeNextVisible>"
    "<DequeueCount>3</DequeueCount><MessageText>{text}</MessageText></QueueMessage>"
)


def document(*texts, encoding="utf-8"):
    messages = "".join(MESSAGE.format(id=f"m{n}", text=text) for n, text in enumerate(texts))
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    return f"{head}<QueueMessagesList>{messages}</QueueMessagesList>".encode()


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ("  blanks  ", "  blanks  "),
        ("\n\t", "\n\t"),
        ("&lt;a href=&quot;x&quot;&gt;&amp;amp;&lt;/a&gt;", '<a href="x">&amp;</a>'),
        ("a&#13;&#10;b", "a\r\nb"),
        ("&#x1F600;é😀", "😀é😀"),
        ("<![CDATA[<&>]]>", "<&>"),
    ],
)
def test_a_text_is_read_as_xml_means_it(written, text):
    ((message, _),) = read_messages(ORDERS, document(written))

    assert (message.text, message.intact) == (text, True)


def test_a_message_that_never_expires_is_read():
    ((message, _),) = read_messages(ORDERS, document("a"))

    # A day before the end of time, so that Python can show it in every time zone.
    seconds = message.expiration_time // 1_000_000
    east = datetime.timezone(datetime.timedelta(hours=14))
    assert datetime.datetime.fromtimestamp(seconds, east).year == 9999
    assert message.insertion_time == 1_700_000_000_000_000
    assert message.dequeue_count == 3


@pytest.mark.parametrize("bad", ["\x01", "&#1;", "&nonsense;", "<", "\x1b[0m & more"])
def test_one_damaged_text_hides_nobody_else(bad):
    received = read_messages(ORDERS, document("first", f"a{bad}b", "last &amp; least"))
    messages = [message for message, _ in received]

    assert [message.message_id for message in messages] == ["m0", "m1", "m2"]
    assert [message.intact for message in messages] == [True, False, True]
    assert messages[1].text.startswith("a")
    assert received[1].lease.pop_receipt == "r+/="
    assert (messages[0].text, messages[2].text) == ("first", "last & least")


@pytest.mark.parametrize("bad", ["\x01", "\x00\x1f", "\ufffe", "\ud800", "&\x0b;", "\ufffd\x02"])
@pytest.mark.parametrize("is_number", [False, True], ids=["as it is", "as a number"])
def test_a_text_that_no_xml_holds_is_read_to_the_letter(bad, is_number):
    written = bad.replace("&", "&amp;").encode("utf-8", "surrogatepass")
    if is_number:
        written = "".join(f"&#{ord(each)};&#x{ord(each):X};" for each in bad).encode()
        bad = "".join(each * 2 for each in bad)
    spoilt = document("first", "é&lt;@&#65;").replace(b"@", written)

    first, second = (message for message, _ in read_messages(ORDERS, spoilt))

    assert (first.text, first.intact) == ("first", True)
    assert (second.text, second.intact, second.is_whole) == (f"é<{bad}A", False, True)
    assert (second.dequeue_count, second.insertion_time) == (3, 1_700_000_000_000_000)


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("@", "\x01<b>"),
        ("@", "\x01&nonsense;"),
        ("@", "\x01&"),
        ("</MessageText></QueueMessage></", "\x01</"),
        ("<DequeueCount>3", "<DequeueCount>three"),
        ("<DequeueCount>3", "<DequeueCount>\x01"),
        ("Tue, 14 Nov 2023 22:13:20", "yesterday"),
    ],
)
def test_a_text_is_not_whole_if_anything_else_is_damaged(there, instead):
    """Its copy would be another message."""
    spoilt = document("a\x02@").decode().replace(there, instead).replace("@", "").encode()

    ((message, _),) = read_messages(ORDERS, spoilt)

    assert (message.intact, message.is_whole) == (False, False)
    assert message.text.startswith("a\ufffd")


def test_bytes_that_are_no_utf8_damage_only_their_own_message():
    spoilt = document("first", "a@b").replace(b"@", b"\xff")

    first, second = (message for message, _ in read_messages(ORDERS, spoilt))

    assert (first.text, first.intact) == ("first", True)
    assert (second.text, second.intact) == ("a\ufffdb", False)


def test_an_answer_that_is_no_list_of_messages_is_not_an_empty_queue():
    # A proxy's own page, say: with 200, and of no use.
    with pytest.raises(ServiceError):
        read_messages(ORDERS, b"<html><body>Please log in</body></html>")
