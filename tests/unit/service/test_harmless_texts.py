"""No secret, and nothing that a terminal would obey, in an error or a log; and each is short."""

import json
import sys
import time
from types import SimpleNamespace

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from refs import ORDERS
from scripted import Scripted, answer

from spark_azqueue.errors import AccessDenied, InvalidOption, ServiceError, UndecodableBody
from spark_azqueue.options.account import read_account
from spark_azqueue.options.blobs import read_blob_account
from spark_azqueue.service.account import Account, EntraIdentity
from spark_azqueue.service.answers import service_error
from spark_azqueue.service.blobs.references import read_reference
from spark_azqueue.service.credentials import authority_for
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import Delete, Peek, Put
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.redaction import shown
from spark_azqueue.service.retry import RetryPolicy

KEY = "c2VjcmV0LWtleQ=="
URL = "https://acc.queue.core.windows.net"


# ── texts from outside ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("ServerBusy", "ServerBusy"),
        ("é 😀", "é 😀"),
        ("a\x1b[31mb\r\nc\x00\x7f\x9b", "a\\x1b[31mb\\r\\nc\\x00\\x7f\\x9b"),
        ("\u202eabc\ud800", "\\u202eabc\\ud800"),
        ("at http://me:pass@word/x@host/a?sig=abc%3D&b", "at http://…@host/a?sig=…&b"),
        (17, "17"),
    ],
)
def test_a_text_is_shown_without_what_does_harm(text, harmless):
    assert shown(text) == harmless


def test_a_long_text_is_cut_and_its_length_told():
    assert shown("x" * 60_000, 10) == "xxxxxxxxxx… (60,000 characters)"
    assert len(shown("\x1b" * 60_000)) < 1_000
    assert shown("a\n\tb\x1b", lines=True) == "a\n\tb\\x1b"


def test_many_schemes_in_a_long_text_take_no_time():
    assert len(shown("://" * 2_000_000)) < 1_000


# ── the service's ─────────────────────────────────────────────────────────────────────────────────


def test_an_error_code_is_shown_harmless_and_short():
    code = "Evil\x1b]0;owned\x07" + "x" * 10_000
    with Scripted([answer("400 Bad", f"x-ms-error-code: {code}")]) as server:
        made = QueueClient(Account("acc", server.url, sas="sig=x"))
        with pytest.raises(ServiceError) as caught:
            made.now(Put(ORDERS, "a"))

    assert "Evil\\x1b]0;owned" in str(caught.value)
    assert str(caught.value).isprintable()
    assert caught.value.code.isprintable()
    assert len(str(caught.value)) < 500
    assert service_error("do", status=400, code="InvalidUri").code == "InvalidUri"


def test_a_long_message_id_is_cut():
    assert len(Delete(Lease(ORDERS, "x" * 60_000, "r")).doing) < 200


def test_a_reference_with_a_long_container_makes_a_short_error():
    body = json.dumps(
        {"azqueue-blob": 1, "container": "x\x1b" * 30_000, "name": "0" * 32, "size": 1},
        separators=(",", ":"),
    )

    with pytest.raises(UndecodableBody, match="its body is in no legal container") as caught:
        read_reference(body, "bodies")

    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "fields",
    [
        '{"azqueue-blob":1' + "0" * 4_000 + ',"container":"bodies","name":"a","size":1}',
        '{"azqueue-blob":1,"container":'
        + "[" * 900
        + "]" * 900
        + ',"name":"'
        + "0" * 32
        + '","size":1}',
        '{"azqueue-blob":1,"container":null,"name":"' + "0" * 32 + '","size":1}',
    ],
)
def test_a_reference_with_an_odd_field_makes_a_short_error(fields):
    with pytest.raises(UndecodableBody) as caught:
        read_reference(fields, "bodies")

    assert len(str(caught.value)) < 300


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────

CONNECTION_STRING = f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={KEY}"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (CONNECTION_STRING, "looks like a connection string"),
        (f"{URL};AccountKey={KEY}", "looks like a connection string"),
        (f"http://127.0.0.1:10001/acc;AccountKey={KEY}", "looks like a connection string"),
        ("https://user:s3cr3t@acc.queue.core.windows.net", "with a user or a password in it"),
        ("https://s3cr3t@acc", "with a user or a password in it"),
        ("c2VjcmV0+s3cr3t", "value not shown"),
        ("s3cr3t", "value not shown"),
        (f"https://acc.example/{KEY}", "value not shown"),
        ("https://acc.example\r\ns3cr3t", "value not shown"),
        ("https://acc.example:99999", "is 'https://acc.example:99999'; expected"),
        ("https://acc.example:0", "expected"),
        ("acc.queue.core.windows.net", "is 'acc.queue.core.windows.net'; expected"),
    ],
)
def test_what_is_no_address_is_not_shown_if_it_may_be_a_secret(url, says):
    given = {"accountUrl": url, "sasToken": "sig=x"}
    elsewhere = {"accountUrl": URL, "sasToken": "sig=x"}
    inside = {"secret.connectionString": f"QueueEndpoint={url.split(';')[0]};AccountKey={KEY}"}
    for read in (
        lambda: read_account(given, {}),
        lambda: read_blob_account({"blobAccountUrl": url}, read_account(elsewhere, {})),
    ):
        with pytest.raises(InvalidOption) as caught:
            read()
        assert says in str(caught.value)
        assert "s3cr3t" not in str(caught.value)
        assert KEY not in str(caught.value)
        assert "DefaultEndpointsProtocol" not in str(caught.value)
    if "@" in url:
        with pytest.raises(InvalidOption, match="QueueEndpoint of the option") as caught:
            read_account(inside, {})
        assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "HTTPS://Acc.queue.core.windows.net",
        "http://127.0.0.1:10001/devstoreaccount1",
        "http://[::1]:10001/devstoreaccount1",
        "http://azurite_1:10001/devstoreaccount1",
    ],
)
def test_an_address_is_an_address(url):
    as_read = url.replace("HTTPS", "https")
    assert read_account({"accountUrl": url, "sasToken": "sig=x"}, {}).url == as_read


@pytest.mark.parametrize("sas", ["sig=s3cr3t\r\nX: y", "sig=s3cr3t x", "sig=s3cr3t\x00"])
def test_a_sas_that_cannot_be_in_an_address_is_refused(sas):
    with pytest.raises(InvalidOption, match="holds a SAS token with blanks") as caught:
        read_account({"accountUrl": URL, "sasToken": sas}, {})

    assert "s3cr3t" not in str(caught.value)


# ── the proxy ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def proxied(monkeypatch):
    """Says what a request meets that goes through this proxy."""

    def error(proxy):
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        made = QueueClient(Account("acc", "http://acc.example", sas="sig=x"))
        with made.in_flight() as flight:
            flight.begin("a", Peek(ORDERS, 1), RetryPolicy(0.0))
            ((_, found),) = flight.ended()
        made.close()
        return found

    return error


@pytest.mark.parametrize(
    "proxy",
    [
        "http://me:s3cr3t/x@",
        "http://me:s3cr3t@proxy:port",
        "http://me:s3cr3t@[proxy",
        "ftp://me:s3cr3t@proxy:3128",
        "http://me:s3cr3t@proxy:3128/s3cr3t",
        "http://me:s3cr3t@prox y",
        "http://me:s3cr3t%00@proxy",
        "http:///me:s3cr3t",
        "me:s3cr3t",
    ],
)
def test_a_proxy_that_is_none_is_told_without_its_password(proxied, proxy):
    error = proxied(proxy)

    assert isinstance(error, ServiceError)
    assert "environment variable http_proxy cannot be used (value not shown)" in str(error)
    assert "s3cr3t" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize("login", ["me:s3cr3t", "me:s3c@r3t/", "m%65:s3cr3t", ":s3cr3t", "s3cr3t"])
@pytest.mark.parametrize("scheme", ["http://", "socks5h://", ""])
def test_a_proxy_that_is_not_there_is_told_without_its_password(proxied, scheme, login):
    with Scripted([]) as unknown_lease:
        port = unknown_lease.port

    error = proxied(f"{scheme}{login}@127.0.0.1:{port}")

    assert isinstance(error, ServiceError)
    assert "no answer" in str(error)
    assert "s3c" not in str(error)
    assert login not in str(error)


@pytest.mark.parametrize("login", ["me:pass%20w%C3%B6rd", "me:pass@word", "me:p/w#x", "me", "me:"])
def test_a_login_with_odd_characters_reaches_the_proxy(monkeypatch, login):
    import base64
    from urllib.parse import unquote_to_bytes

    with Scripted([answer("200 OK", body=b"<QueueMessagesList/>")]) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{login}@127.0.0.1:{proxy.port}/")
        monkeypatch.setenv("no_proxy", "")
        made = QueueClient(Account("acc", "http://acc.example", sas="sig=x"))

        assert made.now(Peek(ORDERS, 1)).messages == ()
        made.close()

    user = unquote_to_bytes(login if ":" in login else login + ":")
    expected = b"Proxy-Authorization: Basic " + base64.b64encode(user)
    assert expected in proxy.heads[0].split(b"\r\n")


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────


class Tokens:
    def __init__(self, token):
        self.token = token

    def get_token(self, *scopes, **kwargs):
        if isinstance(self.token, Exception):
            raise self.token
        return AccessToken(self.token, int(time.time()) + 3600)


def bearer(monkeypatch, token):
    def make() -> Tokens:
        return Tokens(token)

    monkeypatch.setitem(sys.modules, "odd_tokens", SimpleNamespace(make=make))
    return authority_for(
        Account("acc", "https://acc", identity=EntraIdentity(provider="odd_tokens:make"))
    )


@pytest.mark.parametrize(
    "token", ["s3cr3t\r\nx-ms-evil: 1", "s3cr3t\n", "s3 cr3t", "", None, b"x", "é"]
)
def test_a_token_that_would_change_the_headers_is_refused(monkeypatch, token):
    headers = {}

    with pytest.raises(AccessDenied, match="the token from Tokens cannot be sent") as caught:
        bearer(monkeypatch, token).sign("orders", "/orders?", headers)

    assert "s3" not in str(caught.value)
    assert headers == {}


def test_why_no_token_came_is_told_in_lines_and_harmless(monkeypatch):
    error = ClientAuthenticationError("tried:\n\ta \x1b[31m http://me:s3cr3t@proxy" + "x" * 90_000)

    with pytest.raises(AccessDenied) as caught:
        bearer(monkeypatch, error).sign("orders", "/orders?", {})

    assert "tried:\n\ta \\x1b[31m http://…@proxy" in str(caught.value)
    assert len(str(caught.value)) < 5_000
