"""Extracts the blobs from events of Azure Storage."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .parsing import bounded, check_free, parsed_events, quoted
from .trusted import TrustedPlace, places

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
_SUBJECT = r"(?s)\A/blobServices/default/containers/([^/]+)/blobs/(.+)\z"
_URL = r"(?i)\Ahttps?://."
# Matches a path that could lead out of its container when a reader joins or decodes the path: an
# absolute path, a path with "..", or a path with a character that ends a name or a line. Some
# readers treat a backslash as a slash.
_UNSAFE = r"\A/|(?:\A|/)\.{1,2}(?:/|\z)|[\x00-\x1f\x7f-\x9f\u2028\u2029\\]"
_UNKNOWN = "\ufffd"  # Event Grid seems to send this character in place of an emoji


def blob_events(df: DataFrame, *, trusted: str | Iterable[str]) -> DataFrame:
    """Add the events in `body` as columns, as `parsed_events` does, and the blobs of these events.

    `df` is a DataFrame with a column `body`, as for `parsed_events`. `trusted` names the containers
    that the events may be about: `<account>/<container>` such as ``"shopdata/landing"``, or the URL
    of a container, one text or several. Beside the columns of `parsed_events`:

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
    `sequencer`     STRING   of two events of a blob, the later has the greater string
    ==============  =======  ==================================================================

    The columns are null for events of other types. `reason` is also set if container, path or URL
    are missing, contradict each other, are not trusted or lead out of the container, or if the
    length is no number. `account` to `https` are then null; else they are made from `trusted`,
    never from the text of a message. Raises ValueError if `df` has one of these
    columns already, or if `trusted` names no container.
    """
    check_free(df, COLUMNS)
    known = places(trusted)
    events = parsed_events(df)
    names = ", ".join(f"`{name}` STRING" for name in _DATA)
    data, change, place = F.col("_data"), F.col("change"), F.col("_place")
    found = (
        events.withColumn("change", _change(F.col("type")))
        .withColumn("_data", F.when(change.isNotNull(), F.from_json(bounded(F.col("data")), names)))
        .withColumns(
            {
                "_url": F.coalesce(data["destinationUrl"], data["url"], data["blobUrl"]),
                "_named": F.when(change.isNotNull(), _group(F.col("subject"), _SUBJECT, 1)),
                "_path": _group(F.col("subject"), _SUBJECT, 2),
            }
        )
        .withColumn("_place", _place(known))
        .withColumns({"_raw": place["raw"], "_decoded": _decoded(place["raw"])})
        .withColumn("_incomplete", _is_incomplete())
        .withColumn(
            "_path", F.when(F.col("_incomplete"), F.col("_decoded")).otherwise(F.col("_path"))
        )
    )
    reason = F.coalesce(F.col("reason"), F.when(change.isNotNull(), _reason(data)))
    rest = [name for name in events.columns if name != "reason"]
    judged = found.withColumn("reason", reason)
    return judged.select(*quoted(rest), "reason", *_columns(data))


def _change(event_type: Column) -> Column:
    change = F.lit(None).cast("string")
    for name, types in _CHANGES.items():
        change = F.when(
            event_type.isin(*(f"Microsoft.Storage.{t}" for t in types)), name
        ).otherwise(change)
    return change


def _place(known: tuple[TrustedPlace, ...]) -> Column:
    """Return the trusted container that both the subject and the URL name, and the URL's path; null
    if there is none.

    In the result, `raw` is the path as in the URL, and `old` is the path in the URL from before a
    rename, if it is in the same container.
    """
    url = F.col("_url")
    found = [
        F.when(
            (F.col("_named") == place.container) & url.rlike(place.pattern),
            F.struct(
                F.lit(place.account).alias("account"),
                F.lit(place.container).alias("container"),
                F.lit(place.abfss).cast("string").alias("abfss"),
                F.lit(place.wasbs).cast("string").alias("wasbs"),
                F.lit(place.https).alias("https"),
                F.regexp_extract(url, place.pattern, 1).alias("raw"),
                _group(F.col("_data")["sourceUrl"], place.pattern, 1).alias("old"),
            ),
        )
        for place in known
    ]
    return F.coalesce(*found)


# The path in the subject is not encoded. The path in a URL is percent-encoded, except after some
# operations.


def _is_incomplete() -> Column:
    """Return true if the URL's path has characters that the subject's path lacks."""
    found = F.col("_decoded").isNotNull() & ~F.col("_decoded").contains(_UNKNOWN)
    return F.coalesce(F.col("_path").contains(_UNKNOWN) & found, F.lit(False))


def _is_safe(path: Column) -> Column:
    """Return true if a path stays in its container, even if a reader decodes the path a second
    time.
    """
    decoded = F.coalesce(_decoded(path), path)
    return ~path.rlike(_UNSAFE) & ~decoded.rlike(_UNSAFE)


def _is_in_another(path: Column) -> Column:
    """Return true if a path in the root container begins like a path in another container.

    URLs leave out the name of the root container, and names of its blobs have no slash.
    """
    return (F.col("_place")["container"] == "$root") & path.contains("/")


def _columns(data: Column) -> list[Column]:
    place, path = F.col("_place"), F.col("_path")
    is_blob = F.col("reason").isNull() & F.col("change").isNotNull()
    raw = place["old"]
    old = F.when(path == F.col("_raw"), raw).otherwise(F.coalesce(_decoded(raw), raw))
    leads = {
        "account": place["account"],
        "container": place["container"],
        "path": path,
        "renamed_from": F.when(_is_safe(old) & ~_is_in_another(old), old),
        "abfss": F.concat(place["abfss"], path),
        "wasbs": F.concat(place["wasbs"], path),
        "https": F.concat(place["https"], _encoded(path)),
    }
    # `etag` is not in `_data`, because in Spark two field names must not differ only in case.
    etag = F.when(data.isNotNull(), F.coalesce(data["eTag"], F.get_json_object("data", "$.etag")))
    return [
        F.col("change"),
        F.when(F.col("change").isNotNull(), F.col("type").contains(".Directory")).alias(
            "is_directory"
        ),
        *(F.when(is_blob, column).alias(name) for name, column in leads.items()),
        data["contentLength"].try_cast("bigint").alias("size"),
        data["contentType"].alias("content_type"),
        F.trim(etag, F.lit('"')).alias("etag"),
        data["blobType"].alias("blob_type"),
        data["api"].alias("api"),
        data["sequencer"].alias("sequencer"),
    ]


def _reason(data: Column) -> Column:
    length, path = data["contentLength"], F.col("_path")
    agrees = path.isin(F.col("_raw"), F.col("_decoded")) & ~path.contains(_UNKNOWN)
    return (
        F.when(data.isNull(), "the event of a blob has no data")
        .when(F.col("_named").isNull(), "the subject does not name a blob")
        .when(~F.coalesce(F.col("_url").rlike(_URL), F.lit(False)), "the data has no URL of a blob")
        .when(F.col("_place").isNull(), "the blob is in no trusted container")
        .when(~F.coalesce(agrees, F.lit(False)), "subject and URL name different blobs")
        .when(~_is_safe(path) | _is_in_another(path), "the path could lead out of its container")
        .when(
            length.isNotNull() & (F.coalesce(length.try_cast("bigint"), F.lit(-1)) < 0),
            "contentLength is not a number of bytes",
        )
    )


def _group(text: Column, pattern: str, number: int) -> Column:
    """Return the text that a group of the pattern matches; null if the pattern does not match."""
    return F.when(text.rlike(pattern), F.regexp_extract(text, pattern, number))


def _decoded(path: Column) -> Column:
    """Return the percent-decoded path, or null if the encoding is invalid. A plus sign stays."""
    return F.try_url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))


def _encoded(name: Column) -> Column:
    encoded = F.url_encode(name)
    for found, wanted in (("+", "%20"), ("%2F", "/"), ("%24", "$")):
        encoded = F.replace(encoded, F.lit(found), F.lit(wanted))
    return encoded
