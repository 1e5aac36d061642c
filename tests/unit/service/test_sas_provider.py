"""A SAS that is renewed, one with a user delegation key, and one that is bound to a user."""

import sys
import time
import traceback
from types import SimpleNamespace

import pytest
from azure.core.credentials import AccessToken, AzureSasCredential, TokenCredential
from queues import OneQueue
from refs import ORDERS

from spark_azqueue.commands.doctor.queue_checks import examine
from spark_azqueue.errors import AccessDenied, InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.account import read_account
from spark_azqueue.options.choices import Side
from spark_azqueue.service.account import Account, EntraIdentity, SasProvider
from spark_azqueue.service.policy import VARIABLE
from spark_azqueue.service.queues.management import create_queue, list_queues
from spark_azqueue.service.sas_provider import RenewedSas, end_of

LOOPBACK = '{"hosts": ["http://127.0.0.1"]}'
NOW = 1_900_000_000.0
USER = "11111111-2222-3333-4444-555555555555"


class Giver:
    """What a user's module holds. given: how often it was asked."""

    def __init__(self):
        self.given = 0
        self.make = lambda: ""
        self.error = None

    def sas(self) -> AzureSasCredential:
        self.given += 1
        if self.error:
            raise self.error
        return AzureSasCredential(self.make())


@pytest.fixture
def giver(monkeypatch):
    made = Giver()

    def sas(argument: str = "none") -> AzureSasCredential:
        made.argument = argument
        return made.sas()

    def anything(argument="x"):
        raise AssertionError("called")

    def none() -> AzureSasCredential:
        return None

    def token() -> TokenCredential:
        return SimpleNamespace(
            get_token=lambda *_: AccessToken(made.token, int(time.time()) + 3600)
        )

    # A name of its own for each test: a process asks each provider for one SAS.
    name = f"sas_of_a_user_{id(made)}"
    module = SimpleNamespace(sas=sas, anything=anything, none=none, token=token)
    monkeypatch.setitem(sys.modules, name, module)
    made.path = f"{name}:sas"
    made.name = name
    return made


def until(seconds):
    """A SAS that ends so many seconds after NOW."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW + seconds))
    return f"sv=1&se={at}&sig=x"


def test_a_sas_is_asked_for_again_before_it_ends(giver):
    clock = [NOW]
    source = RenewedSas(SasProvider(giver.path), lambda: clock[0])
    giver.make = lambda: until(clock[0] - NOW + 3600)

    used = []
    for clock[0] in (NOW, NOW + 3299, NOW + 3300, NOW + 3301):
        used.append(source.current())

    assert giver.given == 2
    assert used == [until(3600), until(3600), until(6900), until(6900)]


def test_one_without_an_end_is_asked_for_again_after_an_hour(giver):
    clock = [NOW]
    source = RenewedSas(SasProvider(giver.path), lambda: clock[0])
    giver.make = lambda: "si=policy&sig=x"

    for clock[0] in (NOW, NOW + 3200, NOW + 3400):
        source.current()

    assert giver.given == 2


def test_a_provider_that_fails_is_asked_again_while_the_sas_is_good(giver):
    clock = [NOW]
    source = RenewedSas(SasProvider(giver.path), lambda: clock[0])
    giver.make = lambda: until(3600)
    source.current()
    giver.error = OSError("no network")

    for clock[0] in (NOW + 3400, NOW + 3410, NOW + 3431, NOW + 3599):
        assert source.current() == until(3600)
    assert giver.given == 4
    clock[0] = NOW + 3600
    with pytest.raises(AccessDenied, match=r"no SAS from sasProvider '.*': OSError: no network"):
        source.current()


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_what_a_provider_raises_is_told_without_its_secrets(giver, kind):
    giver.error = kind("refused: sv=1&sig=c2VjcmV0MTIzNDU2Nzg5MA%3D%3D; AccountKey=c2VjcmV0;")

    with pytest.raises(AccessDenied, match=f"{kind.__name__}: refused") as caught:
        RenewedSas(SasProvider(giver.path)).current()

    shown = "".join(traceback.format_exception(caught.value))
    assert "c2VjcmV0" not in shown


@pytest.mark.parametrize(
    ("sas", "says", "condition"),
    [
        ("sv=1&se=2099-01-01", "gave a text that is no SAS", Condition.NO_TOKEN),
        ("sig=a b", "gave a text that is no SAS", Condition.NO_TOKEN),
        ("se=2020-01-01T00:00:00Z&sig=x", "has ended already", Condition.NO_TOKEN),
    ],
)
def test_what_is_no_sas_is_refused_and_not_shown(giver, sas, says, condition):
    giver.make = lambda: sas

    with pytest.raises(AccessDenied, match=says) as caught:
        RenewedSas(SasProvider(giver.path)).current()

    assert caught.value.condition is condition
    assert sas not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("anything", "does not say that it gives a SAS, so it was not called"),
        ("none", "returned a NoneType, which has no signature"),
        ("missing", "cannot be used (AttributeError"),
    ],
)
def test_what_is_no_provider_is_refused(giver, name, says):
    with pytest.raises(InvalidOption) as caught:
        RenewedSas(SasProvider(f"{giver.name}:{name}")).current()

    assert says in str(caught.value)
    assert "option 'sasProvider'" in str(caught.value)


@pytest.mark.parametrize(
    ("sas", "end"),
    [
        ("se=2030-03-17T17:46:40Z&sig=x", NOW),
        ("se=2099-01-01&ske=2030-03-17T17%3A46%3A40Z&sig=x", NOW),
        ("se=2030-03-17T19:46+02:00".replace("+", "%2B") + "&sig=x", NOW - 40),
        ("se=soon&sig=x", None),
        ("si=policy&sig=x", None),
    ],
)
def test_the_end_of_a_sas(sas, end):
    assert end_of(sas) == end


def test_a_sas_that_the_service_refuses_is_replaced_while_the_query_runs(fake, giver):
    fake.create_queue("orders")
    fake.put("orders", "hello")
    giver.make = lambda: fake.delegated_sas("orders")
    options = {"accountUrl": fake.url, "sasProvider": f"{giver.path}(shop)"}
    orders = OneQueue(read_account(options, {VARIABLE: LOOPBACK}), ORDERS)
    assert [m.text for m in orders.peek(1)] == ["hello"]

    fake.key = "b3RoZXI="  # as if the user delegation keys were revoked

    assert [m.text for m in orders.peek(1)] == ["hello"]
    assert giver.given == 2
    assert giver.argument == "shop"
    assert fake.statuses["peek", 403] == 1


def test_the_control_plane_renews_it_too(fake, giver):
    giver.make = fake.sas
    account = Account("fakeaccount", fake.url, sas_provider=SasProvider(giver.path))
    assert create_queue(account, "orders")

    fake.key = "b3RoZXI="

    assert list_queues(account, "") == ["orders"]
    assert create_queue(account, "orders") is False
    assert giver.given == 2


def test_a_sas_that_is_bound_to_a_user_goes_with_a_token(fake, giver):
    fake.create_queue("orders")
    giver.token = fake.token(oid=USER)
    account = Account(
        "fakeaccount",
        fake.url,
        sas=fake.delegated_sas("orders", user=USER),
        identity=EntraIdentity(provider=f"{giver.name}:token"),
    )
    orders = OneQueue(account, ORDERS)

    orders.put("hello")
    assert orders.count() == 1

    giver.token = fake.token(oid="another")
    with pytest.raises(AccessDenied):
        OneQueue(account, ORDERS).count()


def test_options_of_a_sas_that_is_bound_to_a_user():
    url = {"accountUrl": "https://shop.queue.core.windows.net"}
    bound = f"sv=1&sduoid={USER}&sig=x"
    with pytest.raises(InvalidOption, match=r"bound to a user \(sduoid\).*'credential'") as caught:
        read_account({**url, "sasToken": bound}, {})
    assert USER not in str(caught.value)
    text = f"QueueEndpoint=https://q.e.net;SharedAccessSignature={bound}"
    with pytest.raises(InvalidOption, match="bound to a user"):
        read_account({"secret.connectionString": text}, {})
    with pytest.raises(InvalidOption, match="more than one credential"):
        read_account({**url, "sasToken": "sv=1&sig=x", "credentialProvider": "a.b:c"}, {})

    account = read_account({**url, "sasToken": bound, "credentialProvider": "a.b:c"}, {})
    assert account.sas == bound
    assert account.identity == EntraIdentity(provider="a.b:c")
    account = read_account(
        {
            **url,
            "sasProvider": "a.b:sas(x)",
            "credentialProvider": "a.b:c(y(z))",
        },
        {},
    )
    assert account.sas_provider == SasProvider("a.b:sas", "x")
    assert account.identity == EntraIdentity(provider="a.b:c", argument="y(z)")


@pytest.mark.parametrize(
    ("more", "environment", "says"),
    [
        ({"sasProvider": "no path"}, {}, "cannot be used (it is not like that)"),
        ({"sasProvider": "os.path:join"}, {}, "standard library has no provider"),
        ({"sasProvider": "a.b:c"}, {"AZQUEUE_CREDENTIAL_PROVIDERS": "x.y:z"}, "is not among the"),
        ({"sasProvider": "a.b:c(x"}, {}, "cannot be used (it is not like that)"),
        ({"sasProvider": "a.b:c(x)"}, {"AZQUEUE_CREDENTIAL_PROVIDERS": "a.b:c(x)"}, "is not among"),
        ({"sasProvider": "a.b:c", "sasToken": "sig=x"}, {}, "more than one credential"),
    ],
)
def test_options_of_a_provider_that_do_not_work(more, environment, says):
    options = {"accountUrl": "https://shop.queue.core.windows.net", **more}
    with pytest.raises(InvalidOption) as caught:
        read_account(options, environment)

    assert says in str(caught.value)


@pytest.mark.parametrize("side", [Side.SOURCE, Side.SINK])
def test_the_doctor_takes_them_as_any_other(fake, giver, side, monkeypatch):
    monkeypatch.setenv(VARIABLE, LOOPBACK)
    fake.create_queue("orders")
    giver.make = lambda: fake.delegated_sas("orders")
    url = {"accountUrl": fake.url, "queue": "orders"}

    fixed = list(examine({**url, "sasToken": fake.delegated_sas("orders")}, side))
    renewed = list(examine({**url, "sasProvider": giver.path}, side))

    assert {finding.good for finding in fixed + renewed} <= {True, None}
    assert f"shared access signature of sasProvider {giver.path}" in renewed[0].text
    assert "sig=" not in repr(fixed + renewed)
