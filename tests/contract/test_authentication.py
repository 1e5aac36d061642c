"""Every kind of credential, from options to a queue, on Azurite over HTTPS: black boxes.

The doctor makes requests of both planes with each: peeks, counts, updates, deletes, puts.
"""

from __future__ import annotations

import datetime
import json
import os
import pickle
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from azure.core.credentials import AccessToken
from azure.storage.queue import (
    AccountSasPermissions,
    QueueSasPermissions,
    ResourceTypes,
    generate_account_sas,
    generate_queue_sas,
)
from certificates import make_certificates
from entra import (
    CLIENT_ID,
    CLIENT_SECRET,
    TENANT,
    Certificates,
    TokenService,
    jwt,
    token_service,
)
from pyspark.sql.types import StringType, StructField, StructType

from spark_azqueue.commands.doctor.finding import Finding
from spark_azqueue.commands.doctor.queue_checks import examine
from spark_azqueue.datasource import AzQueueDataSource
from spark_azqueue.options.choices import Side
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.queues.management import create_queue
from spark_azqueue.testing.azurite import ACCOUNT, ACCOUNT_KEY, Azurite, AzuriteUnavailable

REPOSITORY = Path(__file__).resolve().parents[2]
SOON = datetime.timedelta(hours=1)
BODY = StructType([StructField("body", StringType())])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def azurite(certificates: Certificates) -> Iterator[Azurite]:
    try:
        service = Azurite(
            REPOSITORY / ".azurite", certificate=certificates.certificate, key=certificates.key
        )
    except AzuriteUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with service:
        yield service


@pytest.fixture
def tokens(certificates: Certificates) -> Iterator[TokenService]:
    with token_service(certificates) as service:
        yield service


@pytest.fixture(params=["REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"])
def trusted(
    request: pytest.FixtureRequest, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment names our authority, in one of the two usual ways, and allows this host."""
    monkeypatch.setenv("AZQUEUE_POLICY", '{"hosts": ["127.0.0.1", "localhost"]}')
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(request.param, str(certificates.authority))


def look(azurite: Azurite, queue: str, options: Mapping[str, str]) -> list[Finding]:
    """Create the queue by the control plane with its owner's key, then look by these options."""
    create_queue(
        source_config(
            {"secret.connectionString": azurite.connection_string, "queue": queue}, {}
        ).account,
        queue,
    )
    return list(examine({**options, "queue": queue}, Side.SOURCE))


def assert_all_good(found: list[Finding]) -> None:
    # The last one tells that the queue is empty, which is neither good nor bad.
    assert [finding for finding in found if finding.good is False] == []
    assert len(found) == 6


def sas_token(kind: str, queue: str) -> str:
    expiry = datetime.datetime.now(datetime.timezone.utc) + SOON
    if kind == "queue SAS":
        permissions = QueueSasPermissions(read=True, add=True, update=True, process=True)
        return str(generate_queue_sas(ACCOUNT, queue, ACCOUNT_KEY, permissions, expiry))
    rights = AccountSasPermissions(read=True, add=True, update=True, process=True, create=True)
    types = ResourceTypes(service=True, container=True, object=True)
    return str(generate_account_sas(ACCOUNT, ACCOUNT_KEY, types, rights, expiry))


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    "kind", ["connection string", "account key", "queue SAS", "account SAS", "string with SAS"]
)
def test_keys_and_signatures(azurite: Azurite, queue: str, kind: str) -> None:
    options = {"accountUrl": azurite.url}
    if kind == "connection string":
        options = {"secret.connectionString": azurite.connection_string}
    elif kind == "account key":
        options["accountAccessKey"] = ACCOUNT_KEY
    elif kind == "string with SAS":
        sas = sas_token("queue SAS", queue)
        text = f"QueueEndpoint={azurite.url};SharedAccessSignature={sas}"
        options = {"secret.connectionString": text}
    else:
        options["sasToken"] = sas_token(kind, queue)
    assert_all_good(look(azurite, queue, options))


IDENTITIES = ["default", "managedIdentity", "workloadIdentity", "servicePrincipal", "azureCli"]


@pytest.fixture(params=IDENTITIES)
def identity(
    request: pytest.FixtureRequest,
    tokens: TokenService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, str]:
    """Options of one kind of identity, and the environment in which Azure offers it."""
    kind: str = request.param
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", tokens.authority)
    if kind == "default":  # its first way is the environment
        monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
        monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT_ID)
        monkeypatch.setenv("AZURE_CLIENT_SECRET", CLIENT_SECRET)
    elif kind == "managedIdentity":  # as App Service and Azure Functions offer it
        monkeypatch.setenv("IDENTITY_ENDPOINT", tokens.identity_endpoint)
        monkeypatch.setenv("IDENTITY_HEADER", "header")
    elif kind == "workloadIdentity":  # as Kubernetes offers it
        (tmp_path / "token").write_text(jwt())
        monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
        return {"credential": kind, "tenantId": TENANT, "clientId": CLIENT_ID}
    elif kind == "servicePrincipal":
        return {
            "credential": kind,
            "tenantId": TENANT,
            "clientId": CLIENT_ID,
            "clientSecret": CLIENT_SECRET,
        }
    else:
        said = {"accessToken": tokens.issue("cli"), "expires_on": int(time.time()) + 3600}
        said |= {"expiresOn": "2099-01-01 00:00:00.000000", "tokenType": "Bearer"}
        az = tmp_path / "az"
        az.write_text(f"#!/bin/sh\ntouch '{tmp_path}/asked'\necho '{json.dumps(said)}'\n")
        az.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return {"credential": kind}


@pytest.mark.usefixtures("trusted")
def test_every_identity_of_microsoft_entra(
    azurite: Azurite, queue: str, identity: dict[str, str], tokens: TokenService, tmp_path: Path
) -> None:
    found = look(azurite, queue, {"accountUrl": azurite.url, **identity})

    assert_all_good(found)
    assert identity["credential"] in found[0].text
    way = {"managedIdentity": "managed identity", "workloadIdentity": "assertion"}
    way |= {"default": "secret", "servicePrincipal": "secret", "azureCli": "cli"}
    assert tokens.issued.keys() == {way[identity["credential"]]}
    assert (tmp_path / "asked").exists() == (identity["credential"] == "azureCli")
    assert not any(token in repr(found) for token in tokens.tokens)
    assert CLIENT_SECRET not in repr(found)


@pytest.mark.usefixtures("trusted")
def test_only_options_travel_to_other_processes(
    azurite: Azurite, queue: str, identity: dict[str, str], tokens: TokenService
) -> None:
    """A reader in full use is pickled as Spark does it: no credential, token, connection in it."""
    options = {"accountUrl": azurite.url, "queue": queue, **identity}
    create_queue(source_config(options, os.environ).account, queue)
    reader = AzQueueDataSource(options).streamReader(BODY)
    start = reader.initialOffset()
    assert reader.latestOffset(start) == start  # it has asked the queue

    pickled = pickle.dumps(reader)
    reader.stop()

    again = pickle.loads(pickled)
    assert again.latestOffset(start) == start
    again.stop()
    assert not any(token.encode() in pickled for token in tokens.tokens)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A module of the user's own, whose credential counts what it is asked."""
    module = SimpleNamespace(life_s=3600.0, given=0, claims={}, ends=float("inf"), late=0)

    class Credential:
        def get_token(self, *scopes: str, **more: object) -> AccessToken:
            assert scopes == ("https://storage.azure.com/.default",)
            module.given += 1
            module.late += time.time() >= module.ends
            module.ends = int(time.time() + module.life_s)
            return AccessToken(jwt(module.life_s, **module.claims), module.ends)

    module.credential = Credential
    monkeypatch.setitem(sys.modules, "users_own", module)  # type: ignore[arg-type]
    return module


@pytest.mark.usefixtures("trusted")
def test_a_provider_of_the_users_own(
    azurite: Azurite, queue: str, provider: SimpleNamespace
) -> None:
    options = {"accountUrl": azurite.url, "credentialProvider": "users_own:credential"}

    assert_all_good(look(azurite, queue, options))
    # At most one object for the hot plane and one for the control plane, each asked once.
    assert 1 <= provider.given <= 2


@pytest.mark.usefixtures("trusted")
def test_a_token_is_renewed_before_it_ends(
    azurite: Azurite, queue: str, provider: SimpleNamespace
) -> None:
    """Requests go on and on while tokens of a few seconds come and go; none is refused."""
    provider.life_s = 3.0
    options = {
        "accountUrl": azurite.url,
        "credentialProvider": "users_own:credential",
        "queue": queue,
        "createQueue": "true",
        "maxPollInterval": "0.1",
    }
    reader = AzQueueDataSource(options).streamReader(BODY)
    start = reader.initialOffset()
    end = time.monotonic() + 120
    while provider.given < 6:
        assert reader.latestOffset(start) == start
        assert time.monotonic() < end
    reader.stop()
    assert provider.late == 0, "a new token was asked for when the last one had ended already"


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("claims", [{"audience": "https://graph.microsoft.com"}, {}])
def test_a_token_that_is_refused_is_told_with_advice(
    azurite: Azurite, queue: str, provider: SimpleNamespace, claims: dict[str, str]
) -> None:
    provider.claims = claims
    if not claims:
        provider.life_s = -3600.0  # ended an hour ago
    options = {"accountUrl": azurite.url, "credentialProvider": "users_own:credential"}

    found = look(azurite, queue, options)

    assert found[-1].good is False
    assert "does not accept this credential" in found[-1].advice
    assert "eyJ" not in repr(found)


def test_a_certificate_that_nobody_vouches_for_is_refused(
    azurite: Azurite, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        "spark_azqueue.commands.doctor.queue_checks._PATIENT", lambda ask, *given: ask(*given)
    )
    options = {"secret.connectionString": azurite.connection_string, "queue": queue}

    found = list(examine(options, Side.SOURCE))

    assert found[-1].good is False
    assert "certificate" in found[-1].advice.lower()
