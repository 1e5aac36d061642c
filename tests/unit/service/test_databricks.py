"""Service credentials of Unity Catalog, by mocks with the documented signatures."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from azure.core.credentials import AccessToken

from spark_azqueue.errors import AccessDenied, InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import IdentityKind
from spark_azqueue.service.credentials import authority_for, token_credential

URL = "https://shop.queue.core.windows.net"
OPTIONS = {
    "accountUrl": URL,
    "credential": IdentityKind.DATABRICKS,
    "serviceCredential": "shop-queues",
}


class Credential:
    """As Databricks gives it: a credential of azure.core."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_token(self, *scopes: str, **kwargs: object) -> AccessToken:
        return AccessToken(f"token-of-{self.name}", int(time.time()) + 3600)


class Unity:
    """Gives the credential `shop-queues`, as `getServiceCredentialsProvider(credentialName)`."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def getServiceCredentialsProvider(self, credentialName: str) -> Credential:
        self.asked.append(credentialName)
        if credentialName != "shop-queues":
            raise RuntimeError(f"PERMISSION_DENIED: no ACCESS on {credentialName}")
        return Credential(credentialName)


@pytest.fixture
def databricks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The package `databricks`, with nothing in it yet."""
    package = ModuleType("databricks")
    package.__path__ = []  # type: ignore[attr-defined]
    for name in [name for name in sys.modules if name.startswith("databricks.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "databricks", package)
    return package


@pytest.fixture
def on_workers(databricks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Unity:
    """`databricks.service_credentials`, documented for what workers run."""
    unity = Unity()
    module = ModuleType("databricks.service_credentials")
    module.getServiceCredentialsProvider = unity.getServiceCredentialsProvider  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return unity


@pytest.fixture
def on_the_driver(databricks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Unity:
    """`dbutils`, documented for notebooks and modules that they import."""
    unity = Unity()
    for name in ("databricks.sdk", "databricks.sdk.runtime"):
        module = ModuleType(name)
        module.__path__ = []  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["databricks.sdk.runtime"].dbutils = SimpleNamespace(  # type: ignore[attr-defined]
        credentials=unity
    )
    return unity


def signed() -> str:
    headers: dict[str, str] = {}
    authority_for(read_account(OPTIONS, {})).sign("orders", "/orders?", headers)
    return headers["Authorization"]


def test_a_worker_asks_the_module_for_workers(on_workers: Unity) -> None:
    assert signed() == "Bearer token-of-shop-queues"
    assert on_workers.asked == ["shop-queues"]


def test_the_driver_asks_dbutils(on_the_driver: Unity) -> None:
    assert signed() == "Bearer token-of-shop-queues"


def test_if_there_are_both_dbutils_is_left_alone(on_the_driver: Unity, on_workers: Unity) -> None:
    assert signed() == "Bearer token-of-shop-queues"
    assert on_the_driver.asked == []


def test_without_a_task_the_module_for_workers_refuses_and_dbutils_is_asked(
    on_the_driver: Unity, on_workers: Unity, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(credentialName: str) -> Credential:
        raise RuntimeError("no TaskContext")

    module = sys.modules["databricks.service_credentials"]
    monkeypatch.setattr(module, "getServiceCredentialsProvider", refuse)

    assert signed() == "Bearer token-of-shop-queues"
    assert on_the_driver.asked == ["shop-queues"]
    del sys.modules["databricks.sdk.runtime"].dbutils
    with pytest.raises(AccessDenied, match="RuntimeError: no TaskContext"):
        signed()


def test_if_both_refuse_both_reasons_are_told(on_the_driver: Unity, on_workers: Unity) -> None:
    account = read_account({**OPTIONS, "serviceCredential": "others"}, {})

    with pytest.raises(AccessDenied, match=r"PERMISSION_DENIED.*; .*PERMISSION_DENIED"):
        token_credential(account.identity)


def test_elsewhere_it_says_so(databricks: ModuleType) -> None:
    with pytest.raises(InvalidOption, match=r"works on Databricks only .*ModuleNotFoundError"):
        signed()


@pytest.mark.parametrize("shape", ["databricks", "databricks/service_credentials"])
def test_a_file_of_the_working_folder_does_not_stand_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shape: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "databricks"]:
        monkeypatch.delitem(sys.modules, name)
    mark = tmp_path / "mark"
    file = tmp_path / f"{shape}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"open({str(mark)!r}, 'a').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(InvalidOption, match="a file of the working folder") as caught:
        signed()

    assert caught.value.condition is Condition.NOT_ALLOWED
    assert not mark.exists()


def test_a_refusal_names_the_credential_and_what_to_grant(on_workers: Unity) -> None:
    account = read_account({**OPTIONS, "serviceCredential": "others"}, {})

    with pytest.raises(AccessDenied, match=r"'others' \(RuntimeError: PERMISSION_DENIED.*ACCESS"):
        token_credential(account.identity)


def test_a_credential_of_another_cloud_is_refused(
    on_workers: Unity, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["databricks.service_credentials"]
    monkeypatch.setattr(module, "getServiceCredentialsProvider", lambda _: object())

    with pytest.raises(InvalidOption, match="'shop-queues' is a object, which has no get_token"):
        signed()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"credential": IdentityKind.DATABRICKS}, "needs 'serviceCredential' as well"),
        (
            {"credential": IdentityKind.DEFAULT, "serviceCredential": "a"},
            "but with credential=databricks; remove it",
        ),
        (
            {"credentialProvider": "a:b", "serviceCredential": "a"},
            "but with credential=databricks; remove it",
        ),
        ({**OPTIONS, "clientId": "c"}, "'clientId' does not go with credential=databricks"),
        ({**OPTIONS, "tenantId": "t"}, "'tenantId' does not go with credential=databricks"),
        ({"sasToken": "sig=a", "serviceCredential": "a"}, "does not go with 'sasToken', but with"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict, says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        read_account({"accountUrl": URL, **options}, {})


def test_plain_http_is_refused_as_for_any_token() -> None:
    with pytest.raises(InvalidOption, match="needs an https 'accountUrl'"):
        read_account({**OPTIONS, "accountUrl": "http://127.0.0.1:1/shop"}, {})


def test_a_provider_is_called_with_its_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "providers_of_a_user", SimpleNamespace(make=Credential))
    path = "providers_of_a_user:make"

    account = read_account({"accountUrl": URL, "credentialProvider": f"{path}(depot)"}, {})
    assert token_credential(account.identity).get_token("scope").token == "token-of-depot"
    without = read_account({"accountUrl": URL, "credentialProvider": path}, {})
    with pytest.raises(InvalidOption, match=r"or 'package\.module:callable\(text\)'"):
        token_credential(without.identity)


@pytest.mark.usefixtures("on_workers")
def test_a_connection_string_as_the_name_of_a_credential_shows_no_key() -> None:
    options = {**OPTIONS, "serviceCredential": "AccountName=shop;AccountKey=c2VjcmV0"}

    with pytest.raises(AccessDenied) as caught:
        authority_for(read_account(options, {}))

    assert "c2VjcmV0" not in str(caught.value)
