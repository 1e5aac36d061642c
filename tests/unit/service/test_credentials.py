"""Proof of who we are: a SAS, an account key, tokens of a credential provider."""

import sys
import time
import traceback
from types import SimpleNamespace

import pytest
from azure.core.credentials import AccessToken, TokenCredential
from azure.core.exceptions import ClientAuthenticationError
from queues import OneQueue
from refs import ORDERS
from scripted import Scripted, answer

from spark_azqueue.errors import AccessDenied, InvalidOption
from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import Account, EntraIdentity
from spark_azqueue.service.credentials import authority_for
from spark_azqueue.testing import Fault


def test_a_sas_is_used_as_it_is(service):
    account = read_account({"accountUrl": service.url, "sasToken": "?" + service.sas("orders")}, {})
    service.put("orders", "hello")

    assert len(OneQueue(account, ORDERS).dequeue(1, 60).received) == 1


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
        self.text = "token-{}"

    def get_token(self, *scopes, **kwargs):
        if self.error:
            raise self.error
        self.given += 1
        return AccessToken(self.text.format(self.given), int(time.time()) + self.life)


class Odd:
    """Credentials that look like one, and are none."""

    class WithoutScope:
        def get_token(self):
            return None

    class OfText:
        def get_token(self, *scopes):
            return "a token"

    class WithoutEnd:
        def get_token(self, *scopes):
            return SimpleNamespace(token="a-token", expires_on=None)

    class OfNumbers:
        def get_token(self, *scopes):
            return SimpleNamespace(token=7, expires_on=4_000_000_000)


@pytest.mark.parametrize("kind", ["WithoutScope", "OfText", "WithoutEnd", "OfNumbers"])
def test_an_odd_credential_is_a_clear_error(monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "odd_ones", SimpleNamespace(kind=getattr(Odd, kind)))
    account = Account("acc", "https://acc", identity=EntraIdentity(provider="odd_ones:kind"))
    with pytest.raises(AccessDenied, match=rf"{kind}.* Correct the credential"):
        authority_for(account).sign("orders", "/q", {})


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_what_a_provider_raises_is_told_without_its_secrets(tokens, kind):
    tokens.error = kind("refused: sv=1&sig=c2VjcmV0MTIzNDU2Nzg5MA%3D%3D; AccountKey=c2VjcmV0;")

    with pytest.raises(AccessDenied, match=f"get_token: {kind.__name__}: refused") as caught:
        authority_for(by("tokens_of_a_user:make")).sign("orders", "/q", {})

    assert "c2VjcmV0" not in "".join(traceback.format_exception(caught.value))


@pytest.fixture
def tokens(monkeypatch):
    made = Tokens()

    def make() -> TokenCredential:
        return made

    def nothing() -> "TokenCredential":
        return None

    module = SimpleNamespace(make=make, nothing=nothing)
    monkeypatch.setitem(sys.modules, "tokens_of_a_user", module)
    return made


def by(provider):
    return Account("acc", "https://acc", identity=EntraIdentity(provider=provider))


def test_a_token_is_used_until_shortly_before_its_end(tokens):
    authority = authority_for(by("tokens_of_a_user:make"))
    headers = {}

    for _ in range(3):
        assert authority.sign("orders", "/orders?", headers) == "/orders?"

    assert headers["Authorization"] == "Bearer token-1"
    assert tokens.given == 1


def test_a_token_that_was_refused_is_not_used_again(service, tokens):
    account = Account(
        "fakeaccount", service.url, identity=EntraIdentity(provider="tokens_of_a_user:make")
    )
    tokens.text = service.token()
    orders = OneQueue(account, ORDERS)
    orders.dequeue(1, 60)
    service.faults.add(Fault("dequeue", "unauthorized", times=1))

    orders.dequeue(1, 60)

    assert tokens.given == 2
    assert service.requests["dequeue"] == 3


def test_a_token_that_cannot_be_read_is_replaced_once_and_then_told(tokens):
    unusable = answer("400 Bad Request", "x-ms-error-code: InvalidAuthenticationInfo")
    empty = answer("200 OK", body=b"<QueueMessagesList/>")
    by_token = EntraIdentity(provider="tokens_of_a_user:make")
    with Scripted([unusable, empty, unusable, unusable, empty]) as server:
        orders = OneQueue(Account("acc", server.url, identity=by_token), ORDERS)

        assert orders.dequeue(1, 60).received == ()
        assert tokens.given == 2
        with pytest.raises(AccessDenied, match=r"cannot read the token.*'credentialProvider'"):
            orders.dequeue(1, 60)
        assert tokens.given == 3


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
