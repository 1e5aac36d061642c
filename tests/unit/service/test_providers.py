"""The option `credentialProvider` calls what says that it gives a credential, and nothing else."""

from __future__ import annotations

import functools
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.credentials import AccessToken

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.account import read_account
from spark_azqueue.options.parse import sink_config, source_config
from spark_azqueue.service.policy import PROVIDERS as ALLOWED
from spark_azqueue.service.providers import provided

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

URL = "https://shop.queue.core.windows.net"


class Credential:
    def __init__(self, name: str = "") -> None:
        self.name = name

    def get_token(self, *scopes: str, **kwargs: object) -> AccessToken:
        return AccessToken(f"token-of-{self.name}", 2**40)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A module `of_a_user`, which notes what was called."""
    called: list[Any] = []

    def noting(name: str = "") -> Any:
        called.append(name)
        return Credential(name)

    def annotated(name: str = "") -> Credential:
        return noting(name)

    def for_checkers(name: str = "") -> TokenCredential:  # which this file does not import
        return noting(name)

    def of_a_text(name: str = "") -> str:
        return noting(name)

    class WithoutTokens:
        def __init__(self, name: str = "") -> None:
            called.append(name)

    made = SimpleNamespace(
        called=called,
        annotated=annotated,
        for_checkers=for_checkers,
        kind=Credential,
        plain=noting,
        text=of_a_text,
        partial=functools.partial(annotated),
        instance=Credential("a"),
        without=WithoutTokens,
        system=os.system,
        run=__import__("subprocess").getoutput,
    )
    monkeypatch.setitem(sys.modules, "of_a_user", made)  # type: ignore[arg-type]
    monkeypatch.delenv(ALLOWED, raising=False)
    return made


@pytest.mark.parametrize("name", ["annotated", "for_checkers", "kind"])
def test_a_provider_gives_its_credential(module: SimpleNamespace, name: str) -> None:
    assert provided(f"of_a_user:{name}", None).get_token("a").token == "token-of-"
    assert provided(f"of_a_user:{name}", "depot").get_token("a").token == "token-of-depot"


@pytest.mark.parametrize(
    "name", ["plain", "text", "partial", "instance", "without", "system", "run"]
)
def test_what_does_not_say_that_it_is_a_provider_is_not_called(
    module: SimpleNamespace, name: str
) -> None:
    with pytest.raises(InvalidOption, match="so it was not called; expected a class with"):
        provided(f"of_a_user:{name}", "an argument")

    assert module.called == []


@pytest.mark.parametrize(
    "path",
    ["os:system", "posix:system", "subprocess:getoutput", "builtins:exec", "importlib.util:find"],
)
def test_the_standard_library_is_not_even_imported(path: str, tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    options = {
        "accountUrl": URL,
        "credentialProvider": f"{path}(touch {mark})",
    }
    for refused in (
        lambda: read_account(options, {}),
        lambda: source_config({**options, "queue": "orders"}),
        lambda: sink_config({**options, "queue": "orders"}),
        lambda: provided(path, f"touch {mark}"),
    ):
        with pytest.raises(InvalidOption, match="standard library has no provider"):
            refused()

    assert not mark.exists()


@pytest.mark.parametrize("path", ["pyspark.shell:Spark", "pyspark:x", "__main__:Credential"])
def test_what_starts_a_spark_or_runs_the_job_is_not_even_imported(path: str) -> None:
    options = {"accountUrl": URL, "credentialProvider": path, "queue": "orders"}
    for refused in (lambda: source_config(options), lambda: provided(path, None)):
        with pytest.raises(InvalidOption, match="importing it may run code"):
            refused()
    assert "pyspark.shell" not in sys.modules


@pytest.mark.parametrize("path", ["a", ":b", "a:", "a.:b", "a:b.c", "a:b()", "a b:c", "../a:b", ""])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidOption, match=r"expected 'package\.module:callable'"):
        provided(path, None)


def test_an_error_of_the_provider_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> Credential:
        raise ValueError("AccountKey=c2VjcmV0")

    monkeypatch.setitem(sys.modules, "of_a_user", SimpleNamespace(failing=failing))  # type: ignore[arg-type]
    with pytest.raises(InvalidOption) as caught:
        provided("of_a_user:failing", None)

    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.usefixtures("module")
def test_the_environment_can_name_the_only_providers() -> None:
    options = {"accountUrl": URL, "credentialProvider": "of_a_user:kind"}

    assert read_account(options, {ALLOWED: "a:b, of_a_user:kind"}).identity
    for allowed in ("a:b", "", "of_a_user", "of_a_user:kin"):
        with pytest.raises(InvalidOption, match=f"{ALLOWED} allows; use one of them"):
            read_account(options, {ALLOWED: allowed})


def test_the_environment_counts_in_each_process(
    module: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED, "of_a_user:annotated")

    assert provided("of_a_user:annotated", None)
    with pytest.raises(InvalidOption, match=ALLOWED):
        provided("of_a_user:for_checkers", None)
    assert module.called == [""]
