"""The fake service and the documents it is sent: one text in UTF-8, and nothing else."""

import pytest
from fake_calls import address, lease, message_xml, refusal

INVALID = (400, "InvalidXmlDocument")
TOO_LARGE = (413, "RequestBodyTooLarge")

WRONG = {
    "a DOCTYPE": b"<!DOCTYPE QueueMessage>" + message_xml("x"),
    "an entity of its own": (b'<!DOCTYPE QueueMessage [<!ENTITY e "x">]>' + message_xml("&e;")),
    "an entity from elsewhere": (
        b'<!DOCTYPE q [<!ENTITY e SYSTEM "file:///etc/hostname">]>' + message_xml("&e;")
    ),
    "an entity nobody declared": message_xml("&nbsp;"),
    "UTF-16": '<?xml version="1.0" encoding="utf-16"?>'.encode("utf-16") + message_xml("x"),
    "UTF-16 from end to end": message_xml("x").decode().encode("utf-16"),
    "UTF-16 without a mark": message_xml("x").decode().encode("utf-16-le"),
    "UTF-32": message_xml("x").decode().encode("utf-32"),
    "declared as UTF-16": b'<?xml version="1.0" encoding="utf-16"?>' + message_xml("x"),
    "Latin-1": b"<?xml version='1.0' encoding='latin-1'?>" + message_xml("x"),
    "bytes that are not UTF-8": b"<QueueMessage><MessageText>\xe9</MessageText></QueueMessage>",
    "two texts": (
        b"<QueueMessage><MessageText>a</MessageText><MessageText>b</MessageText></QueueMessage>"
    ),
    "no text": b"<QueueMessage></QueueMessage>",
    "a text of another name": b"<QueueMessage><messagetext>x</messagetext></QueueMessage>",
    "something beside the text": (
        b"<QueueMessage><MessageText>a</MessageText><Priority>1</Priority></QueueMessage>"
    ),
    "something before the text": (
        b"<QueueMessage><Priority>1</Priority><MessageText>a</MessageText></QueueMessage>"
    ),
    "loose text before": b"<QueueMessage>a<MessageText>b</MessageText></QueueMessage>",
    "loose text after": b"<QueueMessage><MessageText>b</MessageText>a</QueueMessage>",
    "elements in the text": message_xml("a<b>c</b>"),
    "another root": b"<Message><MessageText>x</MessageText></Message>",
    "another namespace": (
        b'<QueueMessage xmlns="urn:x"><MessageText>x</MessageText></QueueMessage>'
    ),
    "two roots": message_xml("a") + message_xml("b"),
    "no XML": b"hello",
    "JSON": b'{"MessageText": "x"}',
    "cut off": message_xml("x")[:-1],
    "a control character": message_xml("\x01"),
    "NUL": message_xml("\x00"),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_put_is_refused(call, service, body):
    assert refusal(call("POST", "/orders/messages", body)) == INVALID
    assert service.count("orders") == 0
    assert service.log[-1].status == 400


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_an_update_is_refused_and_changes_nothing(call, service, body):
    service.put("orders", "before")
    (leased,) = lease(call)
    reply = call("PUT", address(leased) + "&visibilitytimeout=60", body)
    assert refusal(reply) == INVALID
    assert call("DELETE", address(leased)).status == 204  # the receipt is the newest still


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'<?xml version="1.0" encoding="utf-8"?>' + message_xml("x"), "x"),
        (b"<?xml version='1.0' encoding='UTF-8'?>\r\n" + message_xml("x"), "x"),
        (b"<?xml version='1.0'?>" + message_xml("x"), "x"),
        (b"\xef\xbb\xbf" + message_xml("x"), "x"),
        (b"<QueueMessage>\r\n  <MessageText>x</MessageText>\n</QueueMessage>\n", "x"),
        (message_xml(""), ""),
        (b"<QueueMessage><MessageText/></QueueMessage>", ""),
        (message_xml(" \n\t"), " \n\t"),
        (message_xml("<![CDATA[<!DOCTYPE html><p>]]>"), "<!DOCTYPE html><p>"),
        (message_xml("&lt;?xml encoding='utf-16'?>"), "<?xml encoding='utf-16'?>"),
        (message_xml("a<!-- no -->b"), "ab"),
        (message_xml("&#x1F600;\u2028"), "\U0001f600\u2028"),
    ],
)
def test_a_put_is_taken(call, service, body, text):
    assert call("POST", "/orders/messages", body).status == 201
    assert [message.text for message in service.messages("orders")] == [text]


@pytest.mark.parametrize("text", ["x" * 65_537, "&amp;" * 65_537, "\u00e9" * 32_769])
def test_a_text_too_large(call, service, text):
    assert refusal(call("POST", "/orders/messages", message_xml(text))) == TOO_LARGE
    assert service.count("orders") == 0


@pytest.mark.parametrize("text", ["x" * 65_536, "&#x1F600;" * 16_384, "&#000065;" * 65_536])
def test_the_largest_text(call, service, text):
    assert call("POST", "/orders/messages", message_xml(text)).status == 201
    assert len(service.messages("orders")[0].text.encode()) == 65_536


def test_a_body_too_large_is_not_even_read(call, service):
    assert refusal(call("POST", "/orders/messages", b" " * 1_048_577)) == TOO_LARGE
    assert service.log[-1] == ("put", "orders", "", 413)
