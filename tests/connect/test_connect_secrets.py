"""A Connect server writes each statement into its event log: the shipped settings hide secrets."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from azure.storage.queue import AccountSasPermissions, ResourceTypes, generate_account_sas
from searching import holders
from serving import PATIENCE_S, run_client, serving

from spark_azqueue.testing import FakeQueueService

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "conf" / "spark-defaults.conf"
CLIENT_SECRET = "S3cret~of.an_application-0123456789"

Credentials = dict[str, dict[str, str]]


def credentials(fake: FakeQueueService) -> tuple[Credentials, list[str]]:
    """Each way to give a secret as an option; and the secrets."""
    sas = generate_account_sas(
        fake.account,
        fake.key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(
            read=True, write=True, delete=True, list=True, add=True, update=True, process=True
        ),
        datetime.now(timezone.utc) + timedelta(days=1),
    )
    (signature,) = urllib.parse.parse_qs(sas)["sig"]
    return {
        "sas_in_string": {
            "secret.connectionString": f"QueueEndpoint={fake.url};SharedAccessSignature={sas}"
        },
        "key_in_string": {"secret.connectionString": fake.connection_string},
        "key": {"accountUrl": fake.url, "accountAccessKey": fake.key},
        "sas": {"accountUrl": fake.url, "sasToken": sas},
        "application": {
            "accountUrl": "https://127.0.0.1:1/account",
            "credential": "servicePrincipal",
            "tenantId": "tenant",
            "clientId": "application",
            "clientSecret": CLIENT_SECRET,
        },
    }, [fake.key, signature, urllib.parse.quote(signature, safe=""), CLIENT_SECRET]


def logged(folder: Path) -> dict[str, str]:
    """Settings with an event log in which plans stand as fully as Spark can write them."""
    (folder / "events").mkdir(parents=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.sql.ui.explainMode": "extended",
    }


def use(client: Path, address: str, folder: Path, queue: str, given: Credentials) -> dict[str, str]:
    """Run the client; return what became of each use of each credential."""
    seen: dict[str, str]
    seen, _ = run_client(
        client, "secrets_client.py", address, folder, queue, CREDENTIALS=json.dumps(given)
    )
    return seen


def doctor(address: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "spark_azqueue", "--remote", address],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout


def test_with_the_shipped_settings_no_secret_is_in_event_log_server_log_or_checkpoint(
    client: Path,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "https://127.0.0.1:1")
    fake.create_queue(queue)
    given, secrets = credentials(fake)
    with serving(tmp_path, logged(tmp_path), "--properties-file", str(SHIPPED)) as address:
        seen = use(client, address, tmp_path, queue, given)
        said = doctor(address)

    failed = {name for name, result in seen.items() if result != "done"}
    assert failed == {f"application {name}" for name in ("write", "insert")}, seen
    assert not [secret for secret in secrets if secret in json.dumps(seen)]
    assert "ok   Connect server 127.0.0.1:" in said, said
    (events,) = (tmp_path / "events").iterdir()
    text = events.read_text(encoding="utf-8")
    assert text.count("ConnectOperationStarted") >= 4 * len(given)
    assert text.count("*********(redacted)") >= 4 * len(given)
    assert queue in text
    for stream in ("sas_in_string", "executors-sas_in_string"):
        assert [*(tmp_path / f"checkpoint-{stream}" / "commits").glob("[0-9]*")]
    assert [*(tmp_path / "log-sas_in_string" / "slots").iterdir()]
    assert [holders(tmp_path, secret) for secret in secrets] == [[]] * len(secrets)


def test_without_them_the_event_log_holds_secrets(
    client: Path, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    """Spark's own settings hide none of it: so the search above can fail."""
    fake.create_queue(queue)
    given, (key, *_) = credentials(fake)
    with serving(tmp_path, logged(tmp_path)) as address:
        use(client, address, tmp_path, queue, {"key": given["key"]})
        said = doctor(address)

    assert [name.partition("/")[0] for name in holders(tmp_path, key)] == ["events"]
    assert "BAD  Connect server 127.0.0.1:" in said, said
    assert "accountAccessKey" in said
