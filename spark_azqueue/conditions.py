"""The conditions of our errors: a stable id for each, and what to do about it.

Each error shows the id of its condition, as in `[AZQUEUE_QUEUE_NOT_FOUND] could not …`. The id
stays in the text into which Spark turns the error. `explain`, the doctor and
docs/troubleshooting.md find the advice by it.
"""

from __future__ import annotations

import enum

_OPTIONS = "options"
_CREDENTIALS = "credentials"
_COLUMNS = "columns"
_SERVICE = "the-service"
_BODIES = "bodies"
_CHECKPOINTS = "checkpoints"
_WRITING = "writing"
_BLOBS = "large-bodies"
_LOG = "the-write-ahead-log"
_TRANSACTIONS = "transactions"
_EXECUTORS = "executors-that-lease"


class Condition(enum.Enum):
    """What is wrong, in general. The text of an error says it in detail.

    section: of docs/troubleshooting.md. remedy: what to do.
    """

    INVALID_OPTION = (
        _OPTIONS,
        "correct the option that the sentence names; docs/options.md lists what each one allows",
    )
    PACKAGE_MISSING = (_OPTIONS, "install spark-azqueue[blob] on driver and executors")
    INVALID_ACCOUNT = (
        _CREDENTIALS,
        "give one account with one credential: 'secret.connectionString', or 'accountUrl' with a"
        " key, a SAS or 'credential'",
    )
    NOT_ALLOWED = (
        _CREDENTIALS,
        "name a provider, host or folder that is allowed, or ask an administrator to allow it;"
        " docs/permissions.md says what is allowed without a policy",
    )
    INVALID_LOG_OPTION = (
        _LOG,
        "correct the options of the write-ahead log; docs/exactly-once.md says what goes with it",
    )
    INVALID_EXECUTORS_OPTION = (
        _EXECUTORS,
        "correct the options of leaseOn=executors; docs/executors.md says what goes with it",
    )
    INVALID_BLOB_OPTION = (
        _BLOBS,
        "set largeBody=blob with 'blobContainer', or leave out what only goes with it",
    )
    INVALID_BLOB_ACCOUNT = (
        _BLOBS,
        "say once where the blobs are: 'blobAccountUrl=https://<account>.blob.core.windows.net',"
        " BlobEndpoint in the connection string, or 'secret.blobConnectionString' for an account of"
        " their own. A log in file:/… needs none",
    )
    INVALID_SCHEMA = (_COLUMNS, "select, rename or cast the columns that the sentence names")
    INVALID_SOURCE_SCHEMA = (
        _COLUMNS,
        "leave .schema(…) out: it picks among the source's columns, and does not parse the body."
        " docs/bad-rows.md has from_json",
    )
    INVALID_ROW = (
        _WRITING,
        "correct or filter such rows before the write; bodies that are too large go with"
        " largeBody=blob",
    )
    DELETED_ON_COMMIT = (
        _WRITING,
        "read the messages with deleteOnCommit=false (at readStream, without a write-ahead log), or"
        " leave them to the source: docs/writing.md",
    )
    STALE_RECEIPT = (
        _WRITING,
        "set a longer 'visibilityTimeout' at the source, or onStaleReceipt=ignore at the sink",
    )
    UNDECODABLE_BODY = (
        _BODIES,
        "set 'messageEncoding' and 'bodyType' as the sender writes, or keep such messages from"
        " stopping the query with onUndecodable=permissive or poison",
    )
    UNDECODABLE_BODY_IN_LOG = (
        _LOG,
        "what the batch was logged with was tried first: set 'messageEncoding', 'bodyType' and"
        " 'largeBody' as the sender writes, or 'onUndecodable', until the batch is committed",
    )
    INVALID_BLOB_REFERENCE = (
        _BLOBS,
        "see docs/writing.md: options of sender and reader have to fit each other",
    )
    LOST_BLOB = (
        _BLOBS,
        "restore the blob (soft delete), or set onUndecodable; docs/writing.md",
    )
    CHECKPOINT_MISMATCH = (
        _CHECKPOINTS,
        "set the options as they were when the checkpoint was written, or take a new checkpoint"
        " and a new output",
    )
    LOG_CHECKPOINT_MISMATCH = (
        _LOG,
        "do what the sentence says. If the folder cannot be restored, take a new folder, a new"
        " checkpoint and a new output together",
    )
    LOG_CONFLICT = (
        _LOG,
        "do what the sentence says: each load() has a folder of its own. After a double start do"
        " nothing if one of them runs",
    )
    LATE_SEGMENT = (_LOG, "start the query again, as run_until_done does by itself")
    LOG_DAMAGED = (
        _LOG,
        "restore the object from a version or a backup. If it cannot be restored, the sentence says"
        " what to take anew, all of it together",
    )
    LOST_SEGMENT = (
        _LOG,
        "restore what is lost (soft delete, backup), or set failOnDataLoss=false to go on without"
        " these rows",
    )
    LOG_UNAVAILABLE = (
        _LOG,
        "do what the sentence says, and see that the driver can read and write the folder",
    )
    INVALID_TRANSACTION_OPTION = (
        _TRANSACTIONS,
        "correct the options of the transaction; docs/transactions.md says what goes with it",
    )
    TRANSACTION_CONFLICT = (
        _TRANSACTIONS,
        "see which other process writes with this checkpoint, or with this txnAppId, and end one of"
        " the two. If it was an earlier process of this query, start the query again. A copied"
        " checkpoint needs a 'transactionLog' of its own",
    )
    TRANSACTION_UNKNOWN = (
        _TRANSACTIONS,
        "name the folder that the query used before, or restore it. If 'transactionLog' is new for"
        " this checkpoint, set failOnDataLoss=false for one start",
    )
    TRANSACTION_NOT_WRITTEN = (
        _TRANSACTIONS,
        "take a number above the newest. If this one was begun before, python -m spark_azqueue"
        " finish says what is still hidden of it. To pass it over, set failOnDataLoss=false",
    )
    TRANSACTION_OTHER_QUEUE = (
        _TRANSACTIONS,
        "set 'queue' back for one start if you changed it; else see who else may write to the"
        " log's folder",
    )
    TRANSACTION_EXPIRED = (
        _TRANSACTIONS,
        "raise 'timeToLive', or write smaller batches. To go on without what has expired, set"
        " failOnDataLoss=false for one start",
    )
    NOT_DRAINED = (_SERVICE, "start the query again after the time that the sentence names")
    QUEUE_NOT_FOUND = (
        _SERVICE,
        "correct the name of the queue, or create it (az storage queue create --name <queue>); a"
        " query or write with createQueue=true does that itself",
    )
    QUEUE_BEING_DELETED = (
        _SERVICE,
        "wait a minute or so until the queue is gone, then create it and start again",
    )
    CONTAINER_NOT_FOUND = (
        _SERVICE,
        "create the container (az storage container create --name <container>), or correct the"
        " option that the sentence names",
    )
    NO_TOKEN = (
        _CREDENTIALS,
        "name the kind of credential that you mean rather than 'default', and try it outside Spark"
        " (az account get-access-token)",
    )
    UNREADABLE_TOKEN = (
        _CREDENTIALS,
        "try the credential outside Spark (az account get-access-token --resource"
        " https://storage.azure.com); a token of a credentialProvider has to be for Azure Storage",
    )
    ACCESS_DENIED = (
        _SERVICE,
        "compare the key or SAS with the portal's (Access keys), the queue that the SAS was made"
        " for, its expiry, the tenant and this machine's clock",
    )
    PERMISSION_MISSING = (
        _SERVICE,
        "add the permission that the sentence names; a new role takes minutes to work."
        " docs/permissions.md has the list",
    )
    SAS_NOT_VALID_NOW = (
        _SERVICE,
        "make a new SAS and set it as 'sasToken', for a stream that runs for long rather"
        " 'credential'. If the SAS is still valid, the service's clock has not reached its start"
        " ('st' in it)",
    )
    SAS_MISMATCH = (
        _SERVICE,
        "compare the queue and the account that the SAS was made for with 'queue' and 'accountUrl',"
        " and copy it whole, without further percent-encoding",
    )
    SAS_RESTRICTED = (_SERVICE, "make a new SAS as the sentence says, and set it as 'sasToken'")
    KEYS_NOT_PERMITTED = (
        _SERVICE,
        "use a Microsoft Entra identity: 'accountUrl' with 'credential'; docs/permissions.md has"
        " the roles",
    )
    FIREWALL = (
        _SERVICE,
        "look at the account's firewall (Networking in the portal). If it lets this machine in, use"
        " what the sentence names",
    )
    ACCOUNT_DISABLED = (_SERVICE, "have the account enabled again, or use another one")
    SERVICE_UNAVAILABLE = (
        _SERVICE,
        "try the way from the driver: curl -I <address of the account>. Check the account's name,"
        " DNS, the account's firewall, its private endpoint and the proxy (https_proxy)",
    )
    SERVICE_BUSY = (
        _SERVICE,
        "the queue or the account is over its target: use more queues and accounts, and leave"
        " sendParallelism and deleteParallelism at auto",
    )
    SERVICE_ERROR = (
        _SERVICE,
        "do what the sentence says; else run the doctor on the driver: python -m spark_azqueue"
        " <queue>",
    )
    INTERNAL_ERROR = (_SERVICE, "please report it, with the log of the query or the task")

    def __init__(self, section: str, remedy: str) -> None:
        self.section, self.remedy = section, remedy

    @property
    def id(self) -> str:
        """Its name in texts, such as "AZQUEUE_QUEUE_NOT_FOUND"."""
        return f"AZQUEUE_{self.name}"
