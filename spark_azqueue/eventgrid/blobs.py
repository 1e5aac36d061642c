"""Events of Azure Storage to the blobs that they name."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .parsing import parsed, quoted

COLUMNS = (
    *("change", "is_directory", "account", "container", "path", "renamed_from"),
    *("abfss", "wasbs", "https", "size", "content_type", "etag", "blob_type", "api", "sequencer"),
)

_CHANGES = {
    "created": ("BlobCreated", "DirectoryCreated"),
    "deleted": ("BlobDeleted", "DirectoryDeleted"),
    "renamed": ("BlobRenamed", "DirectoryRenamed"),
    "tier": ("BlobTierChanged",),
    "rehydrating": ("AsyncOperationInitiated",),
}
_DATA = (
    *("api", "url", "blobUrl", "sourceUrl", "destinationUrl", "contentType", "contentLength"),
    *("eTag", "blobType", "sequencer"),
)
_SUBJECT = r"(?s)^/blobServices/default/containers/([^/]+)/blobs/(.+)$"
_URL = r"(?s)^https?://([^/?#]+)/(.+)$"
_UNKNOWN = "\ufffd"  # what Event Grid is reported to put in place of an emoji


def blob_events(df: DataFrame) -> DataFrame:
    """Add the events in `body` as columns, as `parsed` does, and the blobs of storage events.

    `df` is a DataFrame with a column `body`, as for `parsed`. Beside the columns of `parsed`:

    ==============  =======  ==================================================================
    column          type     what it is
    ==============  =======  ==================================================================
    `change`        STRING   `created` (or replaced), `deleted`, `renamed`, `tier` (changed) or
                             `rehydrating` (from the archive has begun); null if the event is of
                             another type
    `is_directory`  BOOLEAN  true if the path is a directory's
    `account`       STRING   the storage account
    `container`     STRING   the container or file system, such as `$web`
    `path`          STRING   the name of the blob, nothing in it encoded; after a rename the new
                             one
    `renamed_from`  STRING   the old path, after a rename
    `abfss`         STRING   `abfss://container@account.dfs.core.windows.net/path`, for Spark, with
                             nothing encoded
    `wasbs`         STRING   `wasbs://container@account.blob.core.windows.net/path`, the same
    `https`         STRING   the URL of the blob, with its path percent-encoded
    `size`          BIGINT   the blob's length in bytes
    `content_type`  STRING
    `etag`          STRING   without quotation marks
    `blob_type`     STRING   `BlockBlob`, `PageBlob`, …
    `api`           STRING   the operation, such as `PutBlob`, `FlushWithClose`
    `sequencer`     STRING   of two events of one blob the later has the greater one, as strings
    ==============  =======  ==================================================================

    The columns are null for events of other types. `reason` is also set if an event of a blob does
    not name its container, path and host, if subject and URL name different blobs, or if its length
    is no number. Raises ValueError if `df` has one of these columns already.
    """
    taken = [name for name in df.columns if name.lower() in COLUMNS]
    if taken:
        raise ValueError(f"the DataFrame has {', '.join(taken)} already: rename or drop it")
    events = parsed(df)
    names = ", ".join(f"`{name}` STRING" for name in _DATA)
    data, change = F.col("_data"), F.col("change")
    found = (
        events.withColumn("change", _change(F.col("type")))
        .withColumn("_data", F.when(change.isNotNull(), F.from_json("data", names)))
        .withColumn("_url", F.coalesce(data["destinationUrl"], data["url"], data["blobUrl"]))
        .withColumns(
            {
                "_host": _group(F.col("_url"), _URL, 1),
                "_raw": _group(F.col("_url"), _URL, 2),
                "_decoded": _decoded(_group(F.col("_url"), _URL, 2)),
                "container": F.when(change.isNotNull(), _group(F.col("subject"), _SUBJECT, 1)),
                "_path": _group(F.col("subject"), _SUBJECT, 2),
            }
        )
        .withColumn("_lost", _lost())
        .withColumn("path", _path())
        .withColumn("_named", _named())
    )
    reason = F.coalesce(F.col("reason"), F.when(change.isNotNull(), _reason(data)))
    rest = [name for name in events.columns if name != "reason"]
    return found.select(*quoted(rest), reason.alias("reason"), *_columns(data))


def _change(event_type: Column) -> Column:
    change = F.lit(None).cast("string")
    for name, types in _CHANGES.items():
        change = F.when(
            event_type.isin(*(f"Microsoft.Storage.{t}" for t in types)), name
        ).otherwise(change)
    return change


# The subject has the path as it is. A URL has it percent-encoded or, after some operations, as it
# is.


def _prefix() -> Column:
    return F.concat("container", F.lit("/"))


def _lost() -> Column:
    """Whether the subject has lost characters of the path that the URL has."""
    decoded = F.col("_decoded")
    found = decoded.startswith(_prefix()) & ~decoded.contains(_UNKNOWN)
    return F.coalesce(F.col("_path").contains(_UNKNOWN) & found, F.lit(False))


def _path() -> Column:
    of_subject = F.when(F.col("container").isNotNull(), F.col("_path"))
    return F.when(F.col("_lost"), _behind(_prefix(), F.col("_decoded"))).otherwise(of_subject)


def _named() -> Column:
    """Container and path as a URL has them, which does not name the root container."""
    in_root = (F.col("container") == "$root") & ~F.col("_raw").startswith("$root/")
    return F.when(in_root, F.col("path")).otherwise(F.concat(_prefix(), "path"))


def _columns(data: Column) -> list[Column]:
    host, container, path = F.col("_host"), F.col("container"), F.col("path")
    blob = F.regexp_replace(host, r"\.dfs\.", ".blob.")
    dfs = F.regexp_replace(host, r"\.blob\.", ".dfs.")
    old = _group(data["sourceUrl"], _URL, 2)
    old = F.when(F.col("_named") == F.col("_raw"), old).otherwise(F.coalesce(_decoded(old), old))
    # Spark's names do not differ by case alone, so `etag` is not in `_data`.
    etag = F.when(data.isNotNull(), F.coalesce(data["eTag"], F.get_json_object("data", "$.etag")))
    return [
        F.col("change"),
        F.when(F.col("change").isNotNull(), F.col("type").contains(".Directory")).alias(
            "is_directory"
        ),
        F.regexp_extract(host, r"^[^.:]+", 0).alias("account"),
        container,
        path,
        _behind(_prefix(), old).alias("renamed_from"),
        F.concat(F.lit("abfss://"), container, F.lit("@"), dfs, F.lit("/"), path).alias("abfss"),
        F.concat(F.lit("wasbs://"), container, F.lit("@"), blob, F.lit("/"), path).alias("wasbs"),
        F.concat(F.lit("https://"), blob, F.lit("/"), _encoded(F.col("_named"))).alias("https"),
        data["contentLength"].try_cast("bigint").alias("size"),
        data["contentType"].alias("content_type"),
        F.trim(etag, F.lit('"')).alias("etag"),
        data["blobType"].alias("blob_type"),
        data["api"].alias("api"),
        data["sequencer"].alias("sequencer"),
    ]


def _reason(data: Column) -> Column:
    length, named = data["contentLength"], F.col("_named")
    agrees = (named.isin(F.col("_raw"), F.col("_decoded"))) & ~F.col("path").contains(_UNKNOWN)
    return (
        F.when(data.isNull(), "the event of a blob has no data")
        .when(F.col("path").isNull(), "the subject does not name a blob")
        .when(F.col("_host").isNull(), "the data has no URL of a blob")
        .when(~F.coalesce(agrees, F.lit(False)), "subject and URL name different blobs")
        .when(
            length.isNotNull() & (F.coalesce(length.try_cast("bigint"), F.lit(-1)) < 0),
            "contentLength is not a number of bytes",
        )
    )


def _group(text: Column, pattern: str, number: int) -> Column:
    """What a group of the pattern matches; null if the pattern does not match."""
    return F.when(text.rlike(pattern), F.regexp_extract(text, pattern, number))


def _decoded(path: Column) -> Column:
    """A percent-decoded path; null if it is no percent-encoding. A plus stays a plus."""
    return F.try_url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))


def _encoded(name: Column) -> Column:
    encoded = F.url_encode(name)
    for found, wanted in (("+", "%20"), ("%2F", "/"), ("%24", "$")):
        encoded = F.replace(encoded, F.lit(found), F.lit(wanted))
    return encoded


def _behind(prefix: Column, name: Column) -> Column:
    return F.when(name.startswith(prefix), F.substr(name, F.length(prefix) + 1)).otherwise(name)
