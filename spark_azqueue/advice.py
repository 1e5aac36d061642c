"""What to do about an error: one table for ours, by class and words, and one for Spark's own."""

from __future__ import annotations

import re
from typing import NamedTuple


class Advice(NamedTuple):
    """What to do about our errors of these classes, if the sentence contains the pattern.

    section: of docs/troubleshooting.md.
    """

    classes: frozenset[str]
    pattern: str
    section: str
    remedy: str


class Symptom(NamedTuple):
    """An error of Spark: its name, a pattern in its text, what it means and what to do.

    section: of docs/troubleshooting.md.
    """

    name: str
    pattern: str
    sentence: str
    section: str
    remedy: str


def advice_for(kind: str, sentence: str) -> Advice | None:
    """The advice for an error of ours. kind: its class. None for a class that is not ours."""
    for advice in ADVICE:
        if kind in advice.classes and re.search(advice.pattern, sentence):
            return advice
    return None


def symptom_in(text: str) -> Symptom | None:
    """The first symptom in the text of an error that is not ours, None if there is none."""
    return next((each for each in SYMPTOMS if re.search(each.pattern, text)), None)


def _advice(classes: str, pattern: str, section: str, remedy: str) -> Advice:
    return Advice(frozenset(classes.split()), pattern, section, remedy)


_OPTION = "InvalidOption"
_READS = "correct the option that the sentence names; docs/options.md lists what each one allows"
_LOG = (
    "do what the sentence says. If the folder cannot be restored, take a new folder, a new"
    " checkpoint and a new output together"
)

ADVICE = (
    # Classes, a pattern in the sentence, section, what to do. The first that fits is taken.
    _advice(
        _OPTION,
        r"^unknown option|is not allowed; expected|is for the (source|sink)|takes no path",
        "options",
        _READS,
    ),
    _advice(
        _OPTION,
        r"write-?ahead ?log|writeAheadLog|deleteAfter",
        "the-write-ahead-log",
        "correct the options of the write-ahead log; docs/exactly-once.md says what goes with it",
    ),
    _advice(
        _OPTION,
        r"^'blobAccountUrl|blobConnectionString' are|where the blobs of",
        "large-bodies",
        "name the account of the blobs once: 'blobAccountUrl', or 'secret.blobConnectionString'",
    ),
    _advice(
        _OPTION,
        r"needs the package|blobContainer|goes into a blob",
        "options",
        "set largeBody=blob with 'blobContainer', and install spark-azqueue[blob] on driver and"
        " executors",
    ),
    _advice(
        _OPTION,
        r"(?i)credential|accountUrl|connection string|account key|SAS token|AccountName|AccountKey"
        r"|clientSecret|expected https://|query part|get_token|token ",
        "credentials",
        "give one account with one credential: 'secret.connectionString', or 'accountUrl' with a"
        " key, a SAS or 'credential'",
    ),
    _advice(_OPTION, "", "options", _READS),
    _advice(
        "InvalidSchema",
        "^the schema ",
        "columns",
        "leave .schema(…) out: it picks among the source's columns, and does not parse the body."
        " docs/bad-rows.md has from_json",
    ),
    _advice(
        "InvalidSchema",
        "",
        "columns",
        "select, rename or cast the columns that the sentence names",
    ),
    _advice(
        "QueueNotFound",
        "deletion has finished",
        "the-service",
        "wait a minute or so until the queue is gone, then create it and start again",
    ),
    _advice(
        "QueueNotFound",
        "",
        "the-service",
        "correct the option 'queue', create the queue (az storage queue create --name <queue>), or"
        " set createQueue=true",
    ),
    _advice(
        "AccessDenied",
        "^no Microsoft Entra token|^the token from|^Databricks gave no",
        "credentials",
        "name the kind of credential that you mean rather than 'default', and try it outside Spark"
        " (az account get-access-token)",
    ),
    _advice(
        "AccessDenied",
        "The credential is good",
        "the-service",
        "add the permission that the sentence names; a new role takes minutes to work."
        " docs/permissions.md has the list",
    ),
    _advice(
        "AccessDenied",
        "the SAS has ended",
        "the-service",
        "make a new SAS and set it as 'sasToken', for a stream that runs for long rather"
        " 'credential'. If the SAS is still valid, the service's clock has not reached its start"
        " ('st' in it)",
    ),
    _advice(
        "AccessDenied",
        "the SAS does not fit",
        "the-service",
        "compare the queue and the account that the SAS was made for with 'queue' and 'accountUrl',"
        " and copy it whole, without further percent-encoding",
    ),
    _advice(
        "AccessDenied",
        "neither account keys nor SAS",
        "the-service",
        "use a Microsoft Entra identity: 'accountUrl' with 'credential'; docs/permissions.md has"
        " the roles",
    ),
    _advice(
        "AccessDenied",
        r"srt=sco|whose 'ss' has|\(spr\)|\(sip\)",
        "the-service",
        "make a new SAS as the sentence says, and set it as 'sasToken'",
    ),
    _advice(
        "AccessDenied",
        "firewall does not let",
        "the-service",
        "look at the account's firewall (Networking in the portal). If it lets this machine in, use"
        " what the sentence names",
    ),
    _advice(
        "AccessDenied",
        "cannot read the token",
        "credentials",
        "try the credential outside Spark (az account get-access-token --resource"
        " https://storage.azure.com); a token of a credentialProvider has to be for Azure Storage",
    ),
    _advice(
        "AccessDenied",
        "account is disabled",
        "the-service",
        "have the account enabled again, or use another one",
    ),
    _advice(
        "AccessDenied",
        "",
        "the-service",
        "compare the key or SAS with the portal's (Access keys), the queue that the SAS was made"
        " for, its expiry, the tenant and this machine's clock",
    ),
    _advice(
        "ServiceUnavailable",
        "could not reach|no answer",
        "the-service",
        "try the way from the driver: curl -I <address of the account>. Check the account's name,"
        " DNS, the account's firewall, its private endpoint and the proxy (https_proxy)",
    ),
    _advice(
        "ServiceUnavailable",
        "50[03]|429",
        "the-service",
        "the queue or the account is over its target: use more queues and accounts, and leave"
        " sendParallelism and deleteParallelism at auto",
    ),
    _advice(
        "StaleReceipt",
        "",
        "writing",
        "set a longer 'visibilityTimeout' at the source, or onStaleReceipt=ignore at the sink",
    ),
    _advice(
        "LogUnavailable",
        "",
        "the-write-ahead-log",
        "do what the sentence says, and see that the driver can read and write the folder",
    ),
    _advice(
        "LateSegment",
        "",
        "the-write-ahead-log",
        "start the query again, as run_until_done does by itself",
    ),
    _advice(
        "LogConflict LogDamaged LostSegment",
        "",
        "the-write-ahead-log",
        _LOG,
    ),
    _advice("CheckpointMismatch AzQueueError", "write-ahead log", "the-write-ahead-log", _LOG),
    _advice(
        "CheckpointMismatch",
        "",
        "checkpoints",
        "set the options as they were when the checkpoint was written, or take a new checkpoint"
        " and a new output",
    ),
    _advice(
        "NotDrained",
        "",
        "the-service",
        "start the query again after the time that the sentence names",
    ),
    _advice(
        "LostBlob",
        "",
        "large-bodies",
        "restore the blob (soft delete), or set onUndecodable; docs/claim-check.md",
    ),
    _advice(
        "UndecodableBody",
        "^batch",
        "the-write-ahead-log",
        "set the options of the bodies as they were, until the batch is committed",
    ),
    _advice(
        "UndecodableBody",
        r"\bblob\b|blobContainer",
        "large-bodies",
        "see docs/claim-check.md: options of sender and reader have to fit each other",
    ),
    _advice(
        "UndecodableBody",
        "",
        "bodies",
        "set 'messageEncoding' and 'bodyType' as the sender writes, or keep such messages from"
        " stopping the query with onUndecodable=permissive or poison",
    ),
    _advice(
        "InvalidRow",
        "",
        "writing",
        "correct or filter such rows before the write; bodies that are too large go with"
        " largeBody=blob",
    ),
    _advice(
        "ServiceError",
        "write-ahead log|writeAheadLog",
        "the-write-ahead-log",
        "do what the sentence says, and see that the driver can read and write the folder",
    ),
    _advice(
        "AzQueueError",
        "lost count",
        "writing",
        "please report it, with the task's log",
    ),
    _advice(
        "ServiceError ServiceUnavailable AzQueueError",
        "",
        "the-service",
        "do what the sentence says; else run the doctor on the driver: python -m spark_azqueue"
        " <queue>",
    ),
)

_START = "nothing-is-found-nothing-starts"
_SAME_PYTHON = (
    "before the session is made, set os.environ['PYSPARK_PYTHON'] = sys.executable (not set, it is"
    " the python3 on the path), and install spark-azqueue in that Python"
)

SYMPTOMS = (
    Symptom(
        "PYTHON_VERSION_MISMATCH",
        r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
        "Spark's workers run another version of Python than the driver.",
        _START,
        _SAME_PYTHON,
    ),
    Symptom(
        "DATA_SOURCE_NOT_FOUND",
        r"DATA_SOURCE_NOT_FOUND|Failed to find the data source: azqueue",
        "Spark finds no format of this name.",
        _START,
        f"{_SAME_PYTHON}. Spark looks there, once for each session. The doctor says which one it is"
        " (python -m spark_azqueue). Or call"
        " spark.dataSource.register(spark_azqueue.AzQueueDataSource)",
    ),
    Symptom(
        "ModuleNotFoundError",
        r"No module named '?(spark_azqueue|pyspark_azqueue)",
        "The package is missing in a process of Spark.",
        _START,
        "install it on the executors, too; --py-files and addArtifact do not reach every process",
    ),
    Symptom(
        "Python worker",
        r"worker failed to connect back|worker exited unexpectedly",
        "The Python of a worker ended, or did not start in time.",
        _START,
        "check PYSPARK_PYTHON, the memory beside the JVM, and whether the machine is overloaded"
        " (too many queries that start at once)",
    ),
    Symptom(
        "EOFException",
        r"java\.io\.EOFException",
        "A process of Python was killed, most often for want of memory.",
        _START,
        "lower maxBytesPerTrigger or maxMessagesPerTrigger, or give the driver's machine more"
        " memory; then restart the query: nothing is lost",
    ),
    Symptom(
        "write mode",
        r"UNSUPPORTED_DATA_SOURCE_SAVE_MODE|ErrorIfExists",
        "df.write alone means 'fail if it exists', which a queue does not have.",
        _START,
        "add .mode('append')",
    ),
    Symptom(
        "checkpointLocation",
        r"checkpointLocation must be specified",
        "The query has no folder for its checkpoint.",
        _START,
        "set .option('checkpointLocation', …): a folder of this query alone, which outlives it",
    ),
)
