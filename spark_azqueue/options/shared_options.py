"""The options of source and sink: the account, bodies, the queue."""

from __future__ import annotations

from spark_azqueue.service.account import IdentityKind
from spark_azqueue.service.messages import (
    Encoding,
    container_name,
)

from . import parsers
from .choices import (
    LargeBody,
    Side,
)
from .option import Option

SHARED_OPTIONS: tuple[Option, ...] = (
    Option(
        "queue",
        parsers.queue_names,
        Side.BOTH,
        "Source: the queue to read, or several, separated by commas. In a pattern such as"
        " `orders-*`, `*` stands for any characters and `?` for one: the account's queues that"
        " match are found at the start and again every minute, up to 1,000 of them, without those"
        " that end with `-poison`. Sink: the queue for all rows; without it, each row names its own"
        " in a column `queue`.",
        shown="(required; the sink may name it per row)",
    ),
    Option(
        "secret.connectionString",
        parsers.text,
        Side.BOTH,
        "Connection string of the storage account: with an account key, or with a SAS.",
        shown="environment variable `AZURE_STORAGE_CONNECTION_STRING`",
        secret=True,
    ),
    Option(
        "connectionString",
        parsers.text,
        Side.BOTH,
        "The same under a name that Spark does not redact: query plans and event logs show it in"
        " plain text. Prefer `secret.connectionString`.",
        secret=True,
    ),
    Option(
        "accountUrl",
        parsers.text,
        Side.BOTH,
        "Queue endpoint, `https://<account>.queue.core.windows.net`; goes with one of the four"
        " options below.",
    ),
    Option("accountAccessKey", parsers.text, Side.BOTH, "Access key of the account.", secret=True),
    Option(
        "sasToken",
        parsers.text,
        Side.BOTH,
        "Shared access signature. The source needs the letters `p` and `u` (with"
        " `settingsFromQueue` also `r`), the sink `a` (to update `u`, to delete `p`), a peek `r`.",
        secret=True,
    ),
    Option(
        "credential",
        parsers.one_of(IdentityKind),
        Side.BOTH,
        "Microsoft Entra identity, through azure-identity: `default`, `managedIdentity`,"
        " `workloadIdentity`, `servicePrincipal` or `azureCli`. Or `databricks`: a service"
        " credential of Unity Catalog, see [databricks.md](databricks.md).",
    ),
    Option(
        "serviceCredential",
        parsers.text,
        Side.BOTH,
        "Name of the service credential in Unity Catalog, with `credential=databricks`.",
    ),
    Option(
        "credentialProvider",
        parsers.text,
        Side.BOTH,
        "`package.module:callable` that gives an `azure.core` TokenCredential: a class with"
        " `get_token`, or a function with the annotation `-> TokenCredential`. Called once in each"
        " process. The environment variable `AZQUEUE_CREDENTIAL_PROVIDERS` of the driver can name"
        " the only ones that are allowed, with commas.",
    ),
    Option(
        "credentialProviderArgument",
        parsers.text,
        Side.BOTH,
        "A text that the `credentialProvider` is called with, such as a name. No secret: query"
        " plans show it.",
    ),
    Option("tenantId", parsers.text, Side.BOTH, "Entra tenant, with `credential`."),
    Option(
        "clientId",
        parsers.text,
        Side.BOTH,
        "Entra application, or the user-assigned managed identity, with `credential`.",
    ),
    Option(
        "clientSecret",
        parsers.text,
        Side.BOTH,
        "Secret of the application, with `credential=servicePrincipal`.",
        secret=True,
    ),
    Option(
        "messageEncoding",
        parsers.one_of(Encoding),
        Side.BOTH,
        "How bodies are stored: `none` (as text) or `base64` (as Azure Functions expects by"
        " default). For reading also `auto`: base64 if the text is valid base64; see"
        " [encoding.md](encoding.md).",
        field="encoding",
        default=Encoding.NONE,
        shown="none",
    ),
    Option(
        "createQueue",
        parsers.flag,
        Side.BOTH,
        "Create a queue that does not exist instead of failing. The sink also creates the"
        " `blobContainer`.",
        field="create_queue",
        default=False,
        shown="false",
    ),
    Option(
        "largeBody",
        parsers.one_of(LargeBody),
        Side.BOTH,
        "A body over 64 KiB as stored: the sink `fail`s, or puts it into a `blob` and sends a small"
        " reference, which a source with `largeBody=blob` turns back into the body. See"
        " [claim-check.md](claim-check.md). Needs `pip install 'spark-azqueue[blob]'`.",
        default=LargeBody.FAIL,
        shown="fail",
    ),
    Option(
        "blobContainer",
        container_name,
        Side.BOTH,
        "The container of these blobs, required with `largeBody=blob`. A source reads no other"
        " container.",
    ),
    Option(
        "blobAccountUrl",
        parsers.text,
        Side.BOTH,
        "Blob endpoint, if it is not the queue's with `.queue.` replaced by `.blob.` (the"
        " credential is the queue's).",
        shown="that of the queue's account",
    ),
    Option(
        "secret.blobConnectionString",
        parsers.text,
        Side.BOTH,
        "Connection string for the blobs, if they have another storage account or credential.",
        shown="the queue's credential",
        secret=True,
    ),
)
