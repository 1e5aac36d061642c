"""One attempt per call: addresses, answers, proof of who we are, and XML, against the fake."""

import datetime
import sys
import time
from types import SimpleNamespace

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from spark_azqueue.errors import (
    AccessDenied,
    InvalidOption,
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
)
from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import Account, Identity
from spark_azqueue.service.credentials import authority_for
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.client import AzureQueue
from spark_azqueue.service.queues.transport import Transport
from spark_azqueue.service.queues.xml import read_messages
from spark_azqueue.service.redaction import hide_signatures
from spark_azqueue.testing import FakeClock, FakeQueueService, Fault


@pytest.fixture
def service(fake):
    fake.create_queue("orders")
    return fake


@pytest.fixture
def orders(service):
    account = read_account({"secret.connectionString": service.connection_string}, {})
    return AzureQueue(Transport(account), "orders")


def one(queue, visibility=60):
    (message,) = queue.dequeue(1, visibility).messages
    return message, Lease("orders", message.message_id, message.pop_receipt)


# ── what a message says ───────────────────────────────────────────────────────────────────────────


def test_a_dequeued_message_is_as_the_service_tells():
    clock = FakeClock(1_700_000_000.75, frozen=True)
    with FakeQueueService(clock) as fake:
        fake.create_queue("orders")
        message_id = fake.put("orders", "hello", ttl=3600)
        account = read_account({"secret.connectionString": fake.connection_string}, {})

        page = AzureQueue(Transport(account), "orders").dequeue(32, 60)

    (message,) = page.messages
    assert page.asked == 32
    assert (message.queue, message.message_id, message.text) == ("orders", message_id, "hello")
    assert message.insertion_time == 1_700_000_000_000_000  # whole seconds
    assert message.expiration_time == 1_700_003_600_000_000
    assert message.next_visible_time == 1_700_000_060_000_000
    assert message.dequeue_count == 1
    assert message.intact


def test_a_page_tells_when_its_request_left(orders):
    before = time.monotonic()

    page = orders.dequeue(1, 60)

    assert before <= page.sent_at <= time.monotonic()


def test_a_peek_takes_no_lease(service, orders):
    service.put("orders", "hello")

    (message,) = orders.peek(32)

    assert (message.text, message.pop_receipt, message.next_visible_time) == ("hello", None, None)
    assert service.visible("orders") == 1


@pytest.mark.parametrize("text", ["", " \t\n ", "a\r\nb\rc", "<&>\"'", "]]>", "\x85\u2028😀"])
def test_a_text_comes_back_as_it_was_put(orders, text):
    orders.put(text)

    assert one(orders)[0].text == text


def test_an_empty_queue_gives_an_empty_page(orders):
    assert orders.dequeue(32, 60).messages == ()


# ── by receipt ────────────────────────────────────────────────────────────────────────────────────


def test_a_delete_by_a_receipt_with_plus_slash_and_equals_signs(service, orders):
    service.put("orders", "hello")
    _, lease = one(orders)
    assert all(sign in lease.pop_receipt for sign in "+/=")

    assert orders.delete(lease) is Outcome.OK
    assert service.count("orders") == 0
    assert orders.delete(lease) is Outcome.GONE


def test_a_renewal_makes_a_new_receipt_and_keeps_the_text(service, orders):
    service.put("orders", " <&> ")
    _, old = one(orders)

    outcome, new = orders.update(old, 120)

    assert outcome is Outcome.OK
    assert new.pop_receipt != old.pop_receipt
    assert orders.delete(old) is Outcome.GONE
    assert orders.update(old, 0) == (Outcome.GONE, None)
    (message,) = service.messages("orders")
    assert (message.text, message.visible) == (" <&> ", False)
    assert orders.delete(new) is Outcome.OK


def test_a_release_makes_a_message_visible_at_once(service, orders):
    service.put("orders", "hello")
    _, lease = one(orders)

    assert orders.update(lease, 0)[0] is Outcome.OK

    assert one(orders)[0].dequeue_count == 2
    assert orders.delete(lease) is Outcome.GONE


def test_a_receipt_whose_time_is_over_still_deletes_while_nobody_else_has_the_message(
    service, orders
):
    service.put("orders", "hello")
    _, lease = one(orders, 60)
    service.clock.advance(61)

    assert orders.delete(lease) is Outcome.OK


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("not_found", Outcome.GONE), ("receipt_mismatch", Outcome.LOST)],
)
@pytest.mark.parametrize("operation", ["delete", "update"])
def test_both_ways_to_say_that_a_receipt_is_dead(service, orders, kind, outcome, operation):
    service.put("orders", "hello")
    _, lease = one(orders)
    service.faults.add(Fault(operation, kind))

    answer = orders.delete(lease) if operation == "delete" else orders.update(lease, 60)[0]

    assert answer is outcome
    assert answer.refused


def test_what_cannot_be_a_receipt_at_all_is_dead_too(service, orders):
    message_id = service.put("orders", "hello")

    assert orders.delete(Lease("orders", message_id, "no receipt, is it?")).refused
    assert service.count("orders") == 1


def test_an_id_is_escaped(service, orders):
    service.put("orders", "hello")

    assert orders.delete(Lease("orders", "../messages?x=", "AAAA")).refused

    (entry,) = [entry for entry in service.log if entry.op == "delete"]
    assert entry.id == "../messages?x="
    assert service.count("orders") == 1


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.dequeue(1, 60),
        lambda queue: queue.peek(1),
        lambda queue: queue.put("hello"),
        lambda queue: queue.delete(Lease("nowhere", "id", "AAAA")),
        lambda queue: queue.update(Lease("nowhere", "id", "AAAA"), 60),
        lambda queue: queue.check(),
    ],
)
def test_a_missing_queue_is_never_a_missing_message(service, call):
    account = read_account({"secret.connectionString": service.connection_string}, {})

    with pytest.raises(QueueNotFound, match="'nowhere' of account 'fakeaccount'"):
        call(AzureQueue(Transport(account), "nowhere"))


@pytest.mark.parametrize(
    ("kind", "raised", "status"),
    [
        ("busy_503", ServiceUnavailable, 503),
        ("error_500", ServiceUnavailable, 500),
        ("reset", ServiceUnavailable, None),
        ("reply_lost", ServiceUnavailable, None),
        ("forbidden", AccessDenied, 403),
        ("unauthorized", AccessDenied, 401),
    ],
)
@pytest.mark.parametrize("operation", ["dequeue", "put"])
def test_each_fault_is_told_apart_and_never_retried_here(
    service, orders, kind, raised, status, operation
):
    service.faults.add(Fault(operation, kind))
    service.reset_counters()

    with pytest.raises(raised) as caught:
        orders.dequeue(1, 60) if operation == "dequeue" else orders.put("hello")

    assert caught.value.status == status
    # Only what was not believed is asked again, once, with a new proof.
    assert service.requests[operation] == (2 if status == 401 else 1)


def test_a_busy_service_says_how_long_to_wait(service, orders):
    service.faults.add(Fault("dequeue", "busy_503", seconds=7))

    with pytest.raises(ServiceUnavailable) as caught:
        orders.dequeue(1, 60)

    assert caught.value.retry_after == 7.0


def test_a_service_that_is_away_is_unavailable(service, orders):
    service.stop()

    with pytest.raises(ServiceUnavailable, match="no answer"):
        orders.dequeue(1, 60)


def test_a_connection_that_the_service_closed_is_replaced(service, orders):
    orders.dequeue(1, 60)
    service.stop()
    service.start()

    assert orders.dequeue(1, 60).messages == ()


@pytest.mark.parametrize(
    ("letters", "call", "needs"),
    [
        ("rau", lambda queue: queue.dequeue(1, 60), "SAS letter 'p'"),
        ("rau", lambda queue: queue.delete(Lease("orders", "id", "AAAA")), "SAS letter 'p'"),
        ("rap", lambda queue: queue.update(Lease("orders", "id", "AAAA"), 1), "SAS letter 'u'"),
        ("rap", lambda queue: queue.check(), "SAS letter 'u'"),
        ("rup", lambda queue: queue.put("hello"), "SAS letter 'a'"),
        ("rup", lambda queue: queue.check_put(), "SAS letter 'a'"),
        ("aup", lambda queue: queue.peek(1), "SAS letter 'r'"),
    ],
)
def test_a_missing_right_is_named(service, orders, letters, call, needs):
    service.permissions = letters

    with pytest.raises(AccessDenied) as caught:
        call(orders)

    assert needs in str(caught.value)


# ── checks ────────────────────────────────────────────────────────────────────────────────────────


def test_a_check_tells_the_services_time_and_changes_nothing(service, orders):
    service.put("orders", "hello")
    service.clock.advance(86_400)

    found = orders.check()

    assert found.tzinfo is not None
    assert 0 <= service.clock.now() - found.timestamp() < 2
    assert service.visible("orders") == 1


def test_a_check_of_putting_puts_nothing(service, orders):
    orders.check_put()

    assert service.count("orders") == 0


# ── proof of who we are ───────────────────────────────────────────────────────────────────────────


def test_a_sas_is_used_as_it_is(service):
    account = read_account({"accountUrl": service.url, "sasToken": "?" + service.sas("orders")}, {})
    service.put("orders", "hello")

    assert len(AzureQueue(Transport(account), "orders").dequeue(1, 60).messages) == 1


@pytest.mark.parametrize("url", ["/q/messages?", "/q/messages?a=b"])
def test_a_key_makes_a_sas_for_the_queue_alone(url):
    authority = authority_for(Account("acc", "https://acc", key="c2VjcmV0"))

    signed = authority.sign("orders", url, {})

    assert signed.startswith(url)
    assert "c2VjcmV0" not in signed
    assert "sig=" in signed
    assert authority.sign("orders", url, {}) == signed  # made once, not for every request
    assert authority.sign("other", url, {}) != signed
    assert "?&" not in signed


class Tokens:
    """A credential that counts what it gave."""

    def __init__(self, life=3600):
        self.given = 0
        self.life = life
        self.error = None

    def get_token(self, *scopes, **kwargs):
        if self.error:
            raise self.error
        self.given += 1
        return AccessToken(f"token-{self.given}", int(time.time()) + self.life)


@pytest.fixture
def tokens(monkeypatch):
    made = Tokens()
    module = SimpleNamespace(make=lambda: made, nothing=lambda: None)
    monkeypatch.setitem(sys.modules, "tokens_of_a_user", module)
    return made


def by(provider):
    return Account("acc", "https://acc", identity=Identity(provider=provider))


def test_a_token_is_used_until_shortly_before_its_end(tokens):
    authority = authority_for(by("tokens_of_a_user:make"))
    headers = {}

    for _ in range(3):
        assert authority.sign("orders", "/orders?", headers) == "/orders?"

    assert headers["Authorization"] == "Bearer token-1"
    assert tokens.given == 1


def test_a_token_that_was_refused_is_not_used_again(service, tokens):
    account = Account(
        "fakeaccount", service.url, identity=Identity(provider="tokens_of_a_user:make")
    )
    orders = AzureQueue(Transport(account), "orders")
    orders.dequeue(1, 60)
    service.faults.add(Fault("dequeue", "unauthorized", times=1))

    orders.dequeue(1, 60)

    assert tokens.given == 2
    assert service.requests["dequeue"] == 3


def test_a_token_that_ends_soon_is_replaced(tokens):
    tokens.life = 0
    authority = authority_for(by("tokens_of_a_user:make"))

    for _ in range(2):
        authority.sign("orders", "/orders?", {})

    assert tokens.given == 2


def test_where_no_token_is_given_access_is_denied(tokens):
    tokens.error = ClientAuthenticationError("tenant unknown")
    authority = authority_for(by("tokens_of_a_user:make"))

    with pytest.raises(AccessDenied, match="no Microsoft Entra token from Tokens: tenant unknown"):
        authority.sign("orders", "/orders?", {})


@pytest.mark.parametrize(
    ("provider", "says"),
    [
        ("no_such_module:make", "ModuleNotFoundError"),
        ("tokens_of_a_user:no_such", "AttributeError"),
        ("tokens_of_a_user", "expected 'package.module:callable'"),
        (":make", "cannot be used"),
        ("tokens_of_a_user:nothing", "returned a NoneType, which has no get_token"),
    ],
)
def test_a_provider_that_does_not_work_is_refused(tokens, provider, says):
    with pytest.raises(InvalidOption) as caught:
        authority_for(by(provider))

    assert says in str(caught.value)
    assert "credentialProvider" in str(caught.value)


# ── texts for people ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/q/messages?sv=1&sig=a%2Bb%3D&se=2", "/q/messages?sv=1&sig=…&se=2"),
        ("GET /q?SIG=abc HTTP/1.1", "GET /q?SIG=… HTTP/1.1"),
        ("url='/q?sig=abc'", "url='/q?sig=…'"),
        ("sig=a sig=b", "sig=… sig=…"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_signatures_are_taken_out(text, shown):
    assert hide_signatures(text) == shown


# ── XML ───────────────────────────────────────────────────────────────────────────────────────────

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
    (message,) = read_messages("orders", document(written))

    assert (message.text, message.intact) == (text, True)


def test_a_message_that_never_expires_is_read():
    (message,) = read_messages("orders", document("a"))

    # A day before the end of time, so that Python can show it in every time zone.
    seconds = message.expiration_time // 1_000_000
    east = datetime.timezone(datetime.timedelta(hours=14))
    assert datetime.datetime.fromtimestamp(seconds, east).year == 9999
    assert message.insertion_time == 1_700_000_000_000_000
    assert message.dequeue_count == 3


@pytest.mark.parametrize("bad", ["\x01", "&#1;", "&nonsense;", "<", "\x1b[0m & more"])
def test_one_damaged_text_hides_nobody_else(bad):
    messages = read_messages("orders", document("first", f"a{bad}b", "last &amp; least"))

    assert [message.message_id for message in messages] == ["m0", "m1", "m2"]
    assert [message.intact for message in messages] == [True, False, True]
    assert messages[1].text.startswith("a")
    assert messages[1].pop_receipt == "r+/="
    assert (messages[0].text, messages[2].text) == ("first", "last & least")


def test_bytes_that_are_no_utf8_damage_only_their_own_message():
    spoilt = document("first", "a@b").replace(b"@", b"\xff")

    first, second = read_messages("orders", spoilt)

    assert (first.text, first.intact) == ("first", True)
    assert (second.text, second.intact) == ("a\ufffdb", False)


def test_a_spoilt_page_of_the_service_loses_no_lease(service, orders):
    service.put_many("orders", [f"body {n}" for n in range(32)])
    service.faults.add(Fault("dequeue", "broken_xml"))

    messages = orders.dequeue(32, 60).messages

    assert len(messages) == 32
    assert [message.intact for message in messages].count(False) == 1
    leases = [Lease("orders", m.message_id, m.pop_receipt) for m in messages]
    assert [orders.delete(lease) for lease in leases] == [Outcome.OK] * 32


def test_an_answer_that_is_no_list_of_messages_is_not_an_empty_queue():
    # A proxy's own page, say: with 200, and of no use.
    with pytest.raises(ServiceError):
        read_messages("orders", b"<html><body>Please log in</body></html>")
