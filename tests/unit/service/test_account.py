"""One account with one credential out of the options, and no secret in any text."""

import pytest

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.account import account_name, read_account
from spark_azqueue.options.blobs import read_blob_account
from spark_azqueue.service.account import Account, EntraIdentity, IdentityKind

KEY = "c2VjcmV0LWtleQ=="
SAS = "sv=2021-12-02&se=2030-01-01&sp=raup&sig=s3cr3t%2Fsig%3D"
URL = "https://acc.queue.core.windows.net"
WITH_KEY = f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={KEY}"


def refused(options, environment=None):
    with pytest.raises(InvalidOption) as caught:
        read_account(options, environment or {})
    text = str(caught.value)
    assert "s3cr3t" not in text
    assert KEY not in text
    return text


@pytest.mark.parametrize(
    ("text", "name", "url"),
    [
        (WITH_KEY, "acc", URL),
        (WITH_KEY + ";EndpointSuffix=core.windows.net;", "acc", URL),
        (
            WITH_KEY + ";EndpointSuffix=core.chinacloudapi.cn",
            "acc",
            "https://acc.queue.core.chinacloudapi.cn",
        ),
        (
            f"accountname=acc; ACCOUNTKEY={KEY} ;QueueEndpoint=http://127.0.0.1:7/acc/",
            "acc",
            "http://127.0.0.1:7/acc",
        ),
        (
            f"QueueEndpoint=http://127.0.0.1:7/other;AccountKey={KEY}",
            "other",
            "http://127.0.0.1:7/other",
        ),
        (f"QueueEndpoint={URL}/;AccountKey={KEY}", "acc", URL),
    ],
)
def test_a_connection_string_with_a_key(text, name, url):
    account = read_account({"secret.connectionString": text}, {})

    assert account == Account(name, url, key=KEY)


@pytest.mark.parametrize("sas", [SAS, "?" + SAS])
def test_a_connection_string_with_a_sas(sas):
    text = f"QueueEndpoint={URL};SharedAccessSignature={sas}"

    assert read_account({"secret.connectionString": text}, {}) == Account("acc", URL, sas=SAS)


def test_the_emulators_short_form():
    account = read_account({"secret.connectionString": "UseDevelopmentStorage=true"}, {})

    assert (account.name, account.url) == (
        "devstoreaccount1",
        "http://127.0.0.1:10001/devstoreaccount1",
    )
    assert account.key


def test_the_environment_is_asked_only_where_no_option_is_given():
    environment = {"AZURE_STORAGE_CONNECTION_STRING": WITH_KEY}

    assert read_account({}, environment) == Account("acc", URL, key=KEY)
    given = read_account({"accountUrl": "https://b.queue.x", "sasToken": SAS}, environment)
    assert given == Account("b", "https://b.queue.x", sas=SAS)
    assert "no credential with it" in refused({"accountUrl": URL}, environment)


@pytest.mark.parametrize(
    ("options", "account"),
    [
        ({"accountAccessKey": KEY}, Account("acc", URL, key=KEY)),
        ({"sasToken": "?" + SAS}, Account("acc", URL, sas=SAS)),
        (
            {"credential": IdentityKind.DEFAULT},
            Account("acc", URL, identity=EntraIdentity(IdentityKind.DEFAULT)),
        ),
        (
            {"credential": IdentityKind.MANAGED_IDENTITY, "clientId": "c"},
            Account(
                "acc", URL, identity=EntraIdentity(IdentityKind.MANAGED_IDENTITY, client_id="c")
            ),
        ),
        (
            {
                "credential": IdentityKind.SERVICE_PRINCIPAL,
                "tenantId": "t",
                "clientId": "c",
                "clientSecret": "s3cr3t",
            },
            Account(
                "acc",
                URL,
                identity=EntraIdentity(
                    IdentityKind.SERVICE_PRINCIPAL,
                    tenant_id="t",
                    client_id="c",
                    client_secret="s3cr3t",
                ),
            ),
        ),
        (
            {"credentialProvider": "a.b:c"},
            Account("acc", URL, identity=EntraIdentity(provider="a.b:c")),
        ),
    ],
)
def test_a_url_with_one_credential(options, account):
    assert read_account({"accountUrl": URL + "/", **options}, {}) == account


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://acc.queue.core.windows.net", "acc"),
        ("https://acc-secondary.queue.core.windows.net", "acc"),
        ("https://acc.z6.queue.storage.azure.net", "acc"),
        ("http://127.0.0.1:10001/devstoreaccount1", "devstoreaccount1"),
    ],
)
def test_the_accounts_name_is_in_the_host_or_in_the_path(url, name):
    assert read_account({"accountUrl": url, "sasToken": SAS}, {}).name == name


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "no credential: set 'secret.connectionString'"),
        ({}, "AZURE_STORAGE_CONNECTION_STRING"),
        (
            {"secret.connectionString": WITH_KEY, "sasToken": SAS},
            "'secret.connectionString' and 'sasToken'",
        ),
        (
            {"accountUrl": URL, "sasToken": SAS, "accountAccessKey": KEY},
            "'accountAccessKey' and 'sasToken' are set; keep one",
        ),
        ({"secret.connectionString": WITH_KEY, "accountUrl": URL}, "remove 'accountUrl'"),
        ({"sasToken": SAS}, "'sasToken' needs 'accountUrl'"),
        ({"credential": IdentityKind.DEFAULT}, "'credential' needs 'accountUrl'"),
        ({"accountUrl": URL}, "no credential with it"),
        ({"accountUrl": "acc.queue.core.windows.net", "sasToken": SAS}, "expected https://"),
        ({"accountUrl": "ftp://acc", "sasToken": SAS}, "expected https://"),
        ({"accountUrl": f"{URL}?{SAS}", "accountAccessKey": KEY}, "Give a SAS as 'sasToken'"),
        ({"accountUrl": URL, "sasToken": "sv=1"}, "no 'sig=' in it"),
        ({"accountUrl": URL, "accountAccessKey": "s3cr3t!"}, "is not an account key"),
        ({"accountUrl": URL, "accountAccessKey": "s3cr3"}, "is not an account key"),
        *(
            ({"accountUrl": URL, "accountAccessKey": key}, "key without the '=' at its end")
            for key in ("czNjcjN0IQ", "czNjcjN0IQ=")
        ),
        (
            {"accountUrl": "http://acc", "credential": IdentityKind.DEFAULT},
            "needs an https 'accountUrl'",
        ),
        (
            {"accountUrl": URL, "credential": IdentityKind.SERVICE_PRINCIPAL, "tenantId": "t"},
            "needs 'clientId'",
        ),
        (
            {"accountUrl": URL, "credential": IdentityKind.DEFAULT, "clientSecret": "s3cr3t"},
            "does not go with credential=default, but with credential=servicePrincipal",
        ),
        (
            {"accountUrl": URL, "sasToken": SAS, "tenantId": "t"},
            "'tenantId' does not go with 'sasToken'",
        ),
        (
            {"secret.connectionString": WITH_KEY, "clientId": "c"},
            "'clientId' does not go with",
        ),
        ({"secret.connectionString": "s3cr3t"}, "is not a connection string"),
        ({"secret.connectionString": f"AccountKey={KEY}"}, "neither AccountName nor QueueEndpoint"),
        ({"secret.connectionString": "AccountName=acc"}, "neither AccountKey nor Shared"),
        ({"secret.connectionString": "AccountName=acc;AccountKey=s3cr3t!"}, "not an account key"),
        (
            {"secret.connectionString": "AccountName=acc;AccountKey=czNjcjN0IQ"},
            "key without the '=' at its end",
        ),
        (
            {"secret.connectionString": "AccountName=acc;SharedAccessSignature=s3cr3t"},
            "no SAS token",
        ),
        ({"accountUrl": "https://[acc", "sasToken": SAS}, "expected https://"),
        ({"accountUrl": "https://acc:port", "sasToken": SAS}, "expected https://"),
        ({"secret.connectionString": f"QueueEndpoint=acc;AccountKey={KEY}"}, "QueueEndpoint"),
        (
            {"secret.connectionString": f"QueueEndpoint={URL}/?{SAS};AccountKey={KEY}"},
            "QueueEndpoint",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_option_and_without_the_secret(options, says):
    assert says in refused(options)


def test_a_bad_value_in_the_environment_is_told_as_that():
    text = refused({}, {"AZURE_STORAGE_CONNECTION_STRING": "s3cr3t"})

    assert "environment variable AZURE_STORAGE_CONNECTION_STRING is not a connection" in text


# ── the account of large bodies ───────────────────────────────────────────────────────────────────


def blob_account(given, **own):
    return read_blob_account(own, read_account(given, {}))


@pytest.mark.parametrize(
    ("given", "own", "url"),
    [
        ({"secret.connectionString": WITH_KEY}, {}, "https://acc.blob.core.windows.net"),
        (
            {"secret.connectionString": WITH_KEY + ";EndpointSuffix=core.chinacloudapi.cn"},
            {},
            "https://acc.blob.core.chinacloudapi.cn",
        ),
        (
            {"secret.connectionString": WITH_KEY + ";BlobEndpoint=http://127.0.0.1:8/acc/"},
            {},
            "http://127.0.0.1:8/acc",
        ),
        (
            {"secret.connectionString": f"QueueEndpoint={URL};SharedAccessSignature={SAS}"},
            {},
            "https://acc.blob.core.windows.net",
        ),
        (
            {"secret.connectionString": "UseDevelopmentStorage=true"},
            {},
            "http://127.0.0.1:10000/devstoreaccount1",
        ),
        ({"accountUrl": URL, "accountAccessKey": KEY}, {}, "https://acc.blob.core.windows.net"),
        ({"accountUrl": URL, "sasToken": SAS}, {}, "https://acc.blob.core.windows.net"),
        (
            {"accountUrl": URL, "credential": IdentityKind.DEFAULT},
            {"blobAccountUrl": "https://other.blob.core.windows.net/"},
            "https://other.blob.core.windows.net",
        ),
    ],
)
def test_the_blobs_are_beside_the_queues_unless_told_otherwise(given, own, url):
    account = read_account(given, {})
    found = read_blob_account(own, account)

    assert found.url == url
    assert found.name == account_name(url)
    assert (found.key, found.sas, found.identity) == (account.key, account.sas, account.identity)


def test_the_blobs_may_have_a_credential_of_their_own():
    own = f"BlobEndpoint=https://other.blob.core.windows.net;SharedAccessSignature={SAS}"
    found = blob_account(
        {"secret.connectionString": WITH_KEY}, **{"secret.blobConnectionString": own}
    )

    assert (found.name, found.url) == ("other", "https://other.blob.core.windows.net")
    assert found.key is None
    assert found.sas


@pytest.mark.parametrize(
    ("given", "own", "says"),
    [
        (
            {"secret.connectionString": WITH_KEY + ";QueueEndpoint=http://127.0.0.1:7/acc"},
            {},
            "set 'blobAccountUrl', or BlobEndpoint in the connection string",
        ),
        (
            {"secret.connectionString": WITH_KEY},
            {"blobAccountUrl": "https://acc.blob.core.windows.net/bodies"},
            "without a container",
        ),
        (
            {"secret.connectionString": WITH_KEY},
            {"blobAccountUrl": "https://b", "secret.blobConnectionString": WITH_KEY},
            "are both set; keep one",
        ),
        (
            {"secret.connectionString": WITH_KEY},
            {"secret.blobConnectionString": "AccountName=other"},
            "the option 'secret.blobConnectionString' has neither AccountKey nor",
        ),
        (
            {"accountUrl": URL, "credential": IdentityKind.DEFAULT},
            {"blobAccountUrl": "http://other.blob.core.windows.net"},
            "needs an https 'blobAccountUrl'",
        ),
    ],
)
def test_a_place_for_blobs_that_cannot_be_is_refused(given, own, says):
    with pytest.raises(InvalidOption) as caught:
        blob_account(given, **own)

    assert says in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "suffix", ["core.windows.net", "core.usgovcloudapi.net", "core.chinacloudapi.cn"]
)
def test_accounts_of_each_cloud(suffix):
    url = f"https://shop.queue.{suffix}"
    by_url = read_account({"accountUrl": url, "credential": IdentityKind.MANAGED_IDENTITY}, {})
    text = f"AccountName=shop;AccountKey=c2VjcmV0;EndpointSuffix={suffix}"
    by_text = read_account({"secret.connectionString": text}, {})

    for account in (by_url, by_text):
        assert (account.name, account.url) == ("shop", url)
        assert account.blob_url == f"https://shop.blob.{suffix}"
