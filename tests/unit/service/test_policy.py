"""Which providers, hosts and folders options may name; nothing is sent before that is known."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_azqueue.commands.doctor.installation import policy
from spark_azqueue.datasource import AzQueueDataSource
from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.files.hadoop import place_of_log
from spark_azqueue.options.account import read_account
from spark_azqueue.options.blobs import read_blob_account
from spark_azqueue.options.parse import replay_config, sink_config, source_config
from spark_azqueue.service.credentials import authority_for
from spark_azqueue.service.policy import (
    MODULE,
    PROVIDERS,
    VARIABLE,
    installed_policy,
    is_trusted,
    policies,
)

SAS = "sv=2021-12-02&sig=c2lnbmF0dXJl"
KEY = "c2VjcmV0LWtleQ=="
OWN = "https://shop.queue.core.windows.net"
STRINGS = [
    f"AccountName=shop;AccountKey={KEY}",
    f"QueueEndpoint={OWN};BlobEndpoint=https://shop.blob.core.windows.net;SharedAccessSignature={SAS}",
]


@pytest.fixture
def attacker() -> Iterator[socket.socket]:
    """A host of somebody else's, to which nobody connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


def refused(options: Mapping[str, str], read: Any = source_config) -> str:
    with pytest.raises(InvalidOption) as caught:
        read(options)
    assert caught.value.condition is Condition.NOT_ALLOWED
    assert KEY not in str(caught.value)
    assert "sig=" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("text", STRINGS)
@pytest.mark.parametrize(
    ("more", "read"),
    [
        ({"readLog": "blob:logs/a"}, replay_config),
        ({"queue": "orders", "writeAheadLog": "blob:logs/a"}, source_config),
        ({"queue": "orders", "largeBody": "blob", "blobContainer": "bodies"}, source_config),
        ({"queue": "orders", "largeBody": "blob", "blobContainer": "bodies"}, sink_config),
        ({"queue": "orders", "transactionLog": "blob:logs/a"}, sink_config),
    ],
)
def test_a_credential_of_the_environment_goes_to_its_own_blob_endpoint_only(
    monkeypatch: pytest.MonkeyPatch,
    attacker: socket.socket,
    text: str,
    more: dict[str, str],
    read: Any,
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    there = f"http://127.0.0.1:{attacker.getsockname()[1]}/acct"

    said = refused({**more, "blobAccountUrl": there}, read)

    assert "goes to its own blob endpoint only (https://shop.blob.core.windows.net)" in said
    assert refused({**more, "blobAccountUrl": "https://other.blob.core.windows.net"}, read)
    own = {**more, "blobAccountUrl": "https://shop.blob.core.windows.net/"}
    assert read(own)
    assert read(more)


@pytest.mark.parametrize(
    ("credential", "url", "says"),
    [
        ({"sasProvider": "a.b:sas"}, "http://shop.queue.core.windows.net", "by https only"),
        ({"sasProvider": "a.b:sas"}, "https://127.0.0.1:1/shop", "no host of Azure Storage"),
        ({"credential": "managedIdentity"}, "https://evil.example", "no host of Azure Storage"),
        ({"credential": "default"}, "https://queue.core.windows.net.evil.example", "no host of"),
        ({"credential": "default"}, "https://evil.example/.queue.core.windows.net", "no host of"),
        ({"credential": "default"}, "https://a.b.queue.core.windows.net", "no host of"),
        ({"credentialProvider": "a.b:c"}, "https://xqueue.core.windows.net", "no host of"),
    ],
)
def test_what_a_provider_or_identity_gives_goes_to_azure_by_https(
    credential: dict[str, str], url: str, says: str
) -> None:
    said = refused({"accountUrl": url, **credential, "queue": "orders"})

    assert says in said
    assert VARIABLE in said


@pytest.mark.parametrize(
    "url",
    [
        OWN,
        "https://shop-secondary.queue.core.windows.net",
        "https://shop.privatelink.queue.core.windows.net",
        "https://shop.z01.queue.storage.azure.net",
        "https://shop.queue.core.usgovcloudapi.net",
        "https://shop.queue.core.chinacloudapi.cn",
        "https://SHOP.queue.core.windows.net:443",
    ],
)
def test_hosts_of_azure_take_tokens(url: str) -> None:
    options = {"accountUrl": url, "credential": "default", "queue": "orders"}
    assert source_config(options).account.identity


def test_https_in_capitals_is_https() -> None:
    account = read_account(
        {"accountUrl": OWN.replace("https", "HTTPS"), "accountAccessKey": KEY}, {}
    )

    assert account.url == OWN
    assert "&spr=https&" in authority_for(account).sign("orders", "/orders?", {})
    text = f"DefaultEndpointsProtocol=HTTPS;{STRINGS[0]}"
    own = read_account({}, {"AZURE_STORAGE_CONNECTION_STRING": text})
    assert read_blob_account({}, own).url == "https://shop.blob.core.windows.net"


def test_blobs_of_an_identity_are_at_azure_too() -> None:
    options = {"accountUrl": OWN, "credential": "default", "queue": "orders"}
    options |= {"writeAheadLog": "blob:logs/a", "blobAccountUrl": "https://evil.example"}

    assert "option 'blobAccountUrl' names https://evil.example" in refused(options)


@pytest.mark.parametrize(
    "secret",
    [
        {"sasToken": SAS},
        {"accountAccessKey": KEY},
        {"credential": "servicePrincipal", "tenantId": "t", "clientId": "c", "clientSecret": "s"},
    ],
)
def test_a_secret_in_the_options_goes_where_they_say(
    secret: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"accountUrl": "https://queues.shop.example", **secret, "queue": "orders"}
    assert source_config(options).account.url == "https://queues.shop.example"

    monkeypatch.setenv(VARIABLE, json.dumps({"hosts": ["*.queue.core.windows.net"]}))
    with pytest.raises(
        InvalidOption, match=f"among the hosts that the environment variable {VARIABLE}"
    ):
        source_config(options)


@pytest.mark.parametrize(
    ("host", "url", "allowed"),
    [
        ("queues.example", "https://queues.example", True),
        ("queues.example", "https://queues.example:8443", True),
        ("queues.example:443", "https://queues.example:8443", False),
        ("queues.example", "http://queues.example", False),
        ("http://queues.example:80", "http://queues.example", True),
        ("*.example", "https://a.b.example", True),
        ("*.example", "https://example", False),
        ("*.example", "https://bexample", False),
        ("[::1]", "https://[::1]:10001/shop", True),
    ],
)
def test_hosts_of_a_policy(host: str, url: str, allowed: bool) -> None:
    environment = {VARIABLE: json.dumps({"hosts": [host]})}
    options = {"accountUrl": url, "sasToken": SAS}
    if allowed:
        assert read_account(options, environment)
    else:
        with pytest.raises(InvalidOption, match="not among the hosts"):
            read_account(options, environment)


@pytest.mark.parametrize("option", ["writeAheadLog", "transactionLog", "readLog"])
def test_logs_are_below_the_roots(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv(VARIABLE, json.dumps({"logRoots": [str(tmp_path / "logs")]}))
    read: Any = {"transactionLog": sink_config, "readLog": replay_config}.get(option, source_config)
    options = (
        {} if option == "readLog" else {"queue": "orders", "secret.connectionString": STRINGS[0]}
    )

    assert read({**options, option: f"file:{tmp_path}/logs/a"})
    for folder in (f"{tmp_path}/elsewhere", f"{tmp_path}/logs2/a", f"{tmp_path}/logs/link/a"):
        said = refused({**options, option: f"file:{folder}"}, read)
        assert f"option '{option}': the log file:{folder} is in none of the folders that" in said
    monkeypatch.setenv(VARIABLE, "{")
    assert "so no query is allowed" in refused({**options, option: f"file:{tmp_path}/a"}, read)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '"a"', '{"host": []}', '{"hosts": "a"}', '{"hosts": [1]}',
        '{"hosts": ["a b"]}', '{"hosts": ["*"]}', '{"hosts": ["a*.example"]}',
        '{"hosts": ["https://a/b"]}', '{"logRoots": ["a"]}', "[" * 90_000, "x" * 200_000,
        '{"hosts": ["a"], "hosts": ["b"]}',
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_read_allows_nothing(text: str) -> None:
    for options in (
        {"accountUrl": OWN, "sasToken": SAS},
        {"accountUrl": OWN, "sasProvider": "a:b"},
        {},
    ):
        with pytest.raises(InvalidOption, match="cannot be read as a policy") as caught:
            read_account(options, {VARIABLE: text, "AZURE_STORAGE_CONNECTION_STRING": STRINGS[0]})
        assert caught.value.condition is Condition.NOT_ALLOWED
        assert len(str(caught.value)) < 1_000


def test_a_read_without_options_is_refused_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", STRINGS[0])
    monkeypatch.setenv(VARIABLE, "{")
    source = AzQueueDataSource({})

    said = refused(
        {}, lambda _: source.writer(StructType([StructField("body", StringType())]), False)
    )

    assert "so no query is allowed" in said
    assert "No option came" not in said


def test_nothing_is_made_for_a_log_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"logRoots": [str(tmp_path / "logs")]}))
    session: Any = None  # nothing asks it

    refused({}, lambda _: place_of_log(session, None, f"file:{tmp_path}/checkpoint"))
    refused(
        {}, lambda _: place_of_log(session, f"file:{tmp_path}/log", f"file:{tmp_path}/checkpoint")
    )

    assert not list(tmp_path.iterdir())


def test_each_policy_has_to_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {PROVIDERS: "a:b, c:d", VARIABLE: '{"providers": ["c:d", "e:f"]}'}
    for path, allowed in {"a:b": False, "c:d": True, "e:f": False}.items():
        options = {"accountUrl": OWN, "sasProvider": path}
        if allowed:
            assert read_account(options, environment)
        else:
            with pytest.raises(InvalidOption, match="is not among the providers"):
                read_account(options, environment)


def test_the_doctor_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROVIDERS, raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    (none,) = policy()
    assert none.good is None
    assert none.text.startswith("no policy: ")

    monkeypatch.setenv(VARIABLE, '{"providers": ["a:b"], "hosts": [], "logRoots": ["/logs"]}')
    (shown,) = policy()
    assert shown.text == (
        f"the policy in the environment variable {VARIABLE} allows providers: a:b; hosts: none;"
        " folders of file: logs: /logs"
    )

    monkeypatch.setenv(VARIABLE, '{"providers": ["AccountKey=c2VjcmV0"], "logRoots": ["/a?sig=b"]}')
    (secret,) = policy()
    assert "providers: AccountKey=…; folders of file: logs: /a?sig=…" in secret.text

    monkeypatch.setenv(VARIABLE, '{"hosts": ["*"]}')
    (wrong,) = policy()
    assert "*.queue.core.windows.net or http://127.0.0.1:10001" in wrong.text

    monkeypatch.setenv(VARIABLE, "{")
    (broken,) = policy()
    assert broken.good is False
    assert "so no query is allowed" in broken.text


LOOK = """
import sys
from pyspark import SparkFiles
from spark_azqueue.commands.doctor.installation import policy
from spark_azqueue.service.providers import provided
from spark_azqueue.errors import InvalidOption
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
files, path = sys.argv[1:]
import_module("pyspark.core.files").SparkFiles._root_directory = files or None
if files:
    sys.path.insert(1, files)  # as a worker of Spark does
try:
    print(type(provided(path, None)).__name__)
except InvalidOption as error:
    print(error)
print(*(found.text for found in policy()), sep="\\n")
"""
PROVIDER = """
open({mark!r}, "a").close()
class Credential:
    def get_token(self, *_, **__): ...
"""


def look(
    folder: Path, path: str, files: str = "", environment: Mapping[str, str] | None = None
) -> list[str]:
    """What a process prints whose working folder is this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AZQUEUE_")}
    where = os.pathsep.join(
        filter(None, (entry for entry in sys.path if entry and entry != str(folder)))
    )
    done = subprocess.run(
        [sys.executable, "-c", LOOK, files, path],
        cwd=folder,
        env={**kept, "PYTHONPATH": where, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("shape", ["evil.py", "evil/__init__.py", "evil/deep/__init__.py"])
@pytest.mark.parametrize("brought_by", ["ADD FILE", "working folder"])
def test_a_file_that_a_query_brought_along_is_not_run(
    tmp_path: Path, shape: str, brought_by: str
) -> None:
    files, work = tmp_path / "userFiles-1", tmp_path / "work"
    file = (files if brought_by == "ADD FILE" else work) / shape
    work.mkdir()
    file.parent.mkdir(parents=True, exist_ok=True)
    mark = tmp_path / "mark"
    file.write_text(PROVIDER.format(mark=str(mark)))
    module = "evil.deep" if "deep" in shape else "evil"

    said, *_ = look(work, f"{module}:Credential", str(files) if brought_by == "ADD FILE" else "")

    assert "only installed modules give credentials" in said
    assert not mark.exists()


@pytest.mark.parametrize("brought_by", ["ADD ARCHIVE", "working folder"])
def test_a_link_is_where_it_stands(tmp_path: Path, brought_by: str) -> None:
    files, work, elsewhere = (tmp_path / name for name in ("userFiles-1", "work", "elsewhere"))
    for folder in (files / "linked", work / "linked", elsewhere):
        folder.mkdir(parents=True)
    mark = tmp_path / "mark"
    (elsewhere / "evil.py").write_text(PROVIDER.format(mark=str(mark)))
    place = files if brought_by == "ADD ARCHIVE" else work
    (place / "linked" / "evil.py").symlink_to(elsewhere / "evil.py")

    said, *_ = look(work, "linked.evil:Credential", str(files) if place == files else "")

    assert "only installed modules give credentials" in said
    assert not mark.exists()


def test_a_folder_on_the_path_says_nothing_of_a_working_folder_in_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "evil.py").write_text(PROVIDER.format(mark=str(tmp_path / "mark")))
    named = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}

    assert "only installed modules give credentials" in look(work, "evil:Credential", "", named)[0]
    assert not (tmp_path / "mark").exists()


def test_a_working_folder_that_was_deleted_has_no_modules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert is_trusted(str(tmp_path / "packages" / "good.py"))


def test_files_of_a_query_are_known_in_the_drivers_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Files:  # as pyspark.core.files.SparkFiles in a driver
        _root_directory, _sc = None, object()

        @staticmethod
        def getRootDirectory() -> str:
            return str(tmp_path / "userFiles-1")

    module = import_module("pyspark.core.files")
    monkeypatch.setattr(module, "SparkFiles", Files)
    assert not is_trusted(str(tmp_path / "userFiles-1" / "evil.py"))
    assert is_trusted(str(tmp_path / "packages" / "good.py"))


def test_what_an_operator_put_on_the_path_is_run(tmp_path: Path) -> None:
    installed = tmp_path / "packages"
    installed.mkdir()
    (installed / "shop_credentials.py").write_text(PROVIDER.format(mark=str(tmp_path / "mark")))
    named = {"PYTHONPATH": os.pathsep.join([str(installed), *filter(None, sys.path)])}

    # Also if the packages are below the working folder, as a virtual environment often is.
    for folder in (installed, tmp_path):
        assert look(folder, "shop_credentials:Credential", environment=named)[0] == "Credential"

    # YARN puts a link to an environment into it.
    (work := tmp_path / "work").mkdir()
    (work / "environment").symlink_to(installed)
    named["PYTHONPATH"] = named["PYTHONPATH"].replace(str(installed), str(work / "environment"), 1)
    assert look(work, "shop_credentials:Credential", environment=named)[0] == "Credential"


def test_a_policy_is_an_installed_module_too(tmp_path: Path) -> None:
    installed, work, files = (tmp_path / name for name in ("packages", "work", "userFiles-1"))
    for folder in (installed, work, files):
        folder.mkdir()
    named = {"PYTHONPATH": os.pathsep.join([str(installed), *filter(None, sys.path)])}
    for brought in (work, files):
        mark = str(tmp_path / "mark")
        (brought / f"{MODULE}.py").write_text(f"open({mark!r}, 'a').close()\nPOLICY = {{}}\n")

    assert look(work, "a:b", str(files))[1].startswith("no policy")  # and theirs was not run
    (installed / f"{MODULE}.py").write_text('POLICY = {"providers": ["c:d"]}\n')
    said, shown = look(work, "a:b", str(files), named)
    assert f"is not among the providers that the module {MODULE} allows" in said
    assert shown == f"the policy in the module {MODULE} allows providers: c:d"
    for broken in ("1/0\n", "", "POLICY = None\n", "import no_such_module\n", "exit()\n"):
        (installed / f"{MODULE}.py").write_text(broken)
        said, shown = look(work, "a:b", str(files), named)
        assert "so no query is allowed" in said
        assert "so no query is allowed" in shown
    (installed / f"{MODULE}.py").unlink()
    (installed / MODULE).mkdir()
    assert "a folder without __init__.py" in look(work, "a:b", str(files), named)[1]
    assert not (tmp_path / "mark").exists()


def test_a_policy_is_found_in_an_editable_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Hook:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            file = tmp_path / f"{MODULE}.py"
            return spec_from_file_location(name, file) if name == MODULE else None

    (tmp_path / f"{MODULE}.py").write_text('POLICY = {"providers": ["c:d"]}\n')
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Hook])
    installed_policy.cache_clear()
    try:
        assert [each.providers for each in policies({})] == [("c:d",)]
    finally:
        installed_policy.cache_clear()


def test_this_process_has_no_policy_of_its_own() -> None:
    assert policies({}) == []
