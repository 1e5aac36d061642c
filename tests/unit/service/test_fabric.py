"""Tokens of Microsoft Fabric, by a stand-in for its module with the documented signature."""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from spark_azqueue.errors import AccessDenied, InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import IdentityKind
from spark_azqueue.service.credentials import authority_for, token_credential

URL = "https://shop.queue.core.windows.net"
OPTIONS = {"accountUrl": URL, "credential": IdentityKind.FABRIC}


def jwt(claims: object) -> str:
    """As Microsoft Entra makes them: three parts of base64url without padding."""
    parts = (json.dumps({"alg": "RS256"}), json.dumps(claims), "signature")
    return ".".join(base64.urlsafe_b64encode(each.encode()).decode().rstrip("=") for each in parts)


class Credentials:
    """`notebookutils.credentials`, with `getToken(audience: String): String`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.life: float | None = 3600.0
        self.token: object = None

    def getToken(self, audience: str) -> object:
        self.asked.append(audience)
        if isinstance(self.token, Exception):
            raise self.token
        ends = {} if self.life is None else {"exp": int(time.time() + self.life)}
        return jwt({"n": len(self.asked), **ends}) if self.token is None else self.token


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch) -> Credentials:
    made = Credentials()
    module = ModuleType("notebookutils")
    module.credentials = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "notebookutils", module)
    return made


def test_one_token_for_storage_serves_until_shortly_before_its_end(fabric: Credentials) -> None:
    authority = authority_for(read_account(OPTIONS, {}))
    headers: dict[str, str] = {}

    for _ in range(3):
        authority.sign("orders", "/orders?", headers)

    assert headers["Authorization"].startswith("Bearer ey")
    assert fabric.asked == ["storage"]


@pytest.mark.parametrize("life", [0.0, -60.0])
def test_a_token_that_has_ended_is_not_used_again(fabric: Credentials, life: float) -> None:
    fabric.life = life
    authority = authority_for(read_account(OPTIONS, {}))

    for _ in range(2):
        authority.sign("orders", "/orders?", {})

    assert len(fabric.asked) == 2


def test_a_token_that_the_service_refuses_is_not_used_again(fabric: Credentials) -> None:
    authority = authority_for(read_account(OPTIONS, {}))

    authority.sign("orders", "/orders?", {})
    assert authority.refresh()
    authority.sign("orders", "/orders?", {})

    assert len(fabric.asked) == 2


@pytest.mark.parametrize(
    "token",
    [
        *("opaque", "a.b", "a.!.c", "a.e30.c", "a.W10.c", jwt(7), "a." + "e" * 100_000 + ".c"),
        *(jwt({"exp": each}) for each in ("soon", None, -1, 2**60, 1.5)),
        jwt([]) + "." + "x",
    ],
)
def test_a_token_that_does_not_say_when_it_ends_is_asked_for_again_soon(
    fabric: Credentials, token: str
) -> None:
    fabric.token = token
    before = int(time.time())

    given = token_credential(read_account(OPTIONS, {}).identity).get_token("any scope")

    assert given.token == token
    assert before < given.expires_on <= int(time.time()) + 600


@pytest.mark.parametrize("token", [None, "", b"ey", 7])
def test_what_is_no_token_is_refused(fabric: Credentials, token: object) -> None:
    fabric.token = [] if token is None else token

    with pytest.raises(AccessDenied, match=r"gave no token .*it gave a \w+ without a token"):
        authority_for(read_account(OPTIONS, {})).sign("orders", "/orders?", {})


def test_why_fabric_gives_none_is_told_without_secrets(fabric: Credentials) -> None:
    fabric.token = RuntimeError("the session has no user; AccountKey=c2VjcmV0")

    with pytest.raises(AccessDenied, match=r"RuntimeError: the session .*docs/fabric.md") as caught:
        authority_for(read_account(OPTIONS, {})).sign("orders", "/orders?", {})

    assert caught.value.condition is Condition.NO_TOKEN
    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize("there", [False, True])
def test_elsewhere_it_says_so(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """Also where a module of that name has nothing in it."""
    monkeypatch.delitem(sys.modules, "notebookutils", raising=False)
    if there:
        monkeypatch.setitem(sys.modules, "notebookutils", ModuleType("notebookutils"))

    with pytest.raises(InvalidOption, match="not in the process of sources and sinks") as caught:
        authority_for(read_account(OPTIONS, {}))

    assert caught.value.condition is Condition.INVALID_ACCOUNT


def test_a_file_of_the_working_folder_does_not_stand_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "notebookutils", raising=False)
    mark = tmp_path / "mark"
    (tmp_path / "notebookutils.py").write_text(f"open({str(mark)!r}, 'a').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(InvalidOption, match=r"credential=fabric: .*a file of the working folder"):
        authority_for(read_account(OPTIONS, {}))

    assert not mark.exists()


@pytest.mark.parametrize("name", ["tenantId", "clientId", "clientSecret", "serviceCredential"])
def test_it_takes_no_other_option(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"'{name}' does not go with credential=fabric"):
        read_account({**OPTIONS, name: "a"}, {})


def test_its_token_goes_to_azure_storage_alone() -> None:
    with pytest.raises(InvalidOption, match="sent to those only"):
        read_account({**OPTIONS, "accountUrl": "https://elsewhere.example.com/shop"}, {})
