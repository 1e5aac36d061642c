"""largeBody=blob: reads the account and container for large bodies from the options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import container_name
from spark_azqueue.service.policy import check_destination, not_allowed

from . import parsers
from .account import account_name, checked_url, from_connection_string, invalid_account
from .choices import LargeBody, Side
from .option import Option, ParsedOptions, made_of, option, options_of, taken

T = TypeVar("T")

_invalid = partial(InvalidOption, condition=Condition.INVALID_BLOB_OPTION)
_invalid_account = partial(InvalidOption, condition=Condition.INVALID_BLOB_ACCOUNT)

_LARGE_BODY = Option(
    "largeBody",
    parsers.one_of(LargeBody),
    "A body over 64 KiB as stored: the sink `fail`s, or stores it in a `blob` and sends a small"
    " reference, from which a source with `largeBody=blob` reads the body. See"
    " [writing.md](writing.md#bodies-over-64-kib).",
    default=LargeBody.FAIL,
)

_BLOB_ACCOUNT = (
    Option(
        "blobAccountUrl",
        parsers.text,
        "Blob endpoint, if it is not the queue's with `.queue.` replaced by `.blob.` (the"
        " credential is the queue's).",
        shown="that of the queue's account",
    ),
    Option(
        "secret.blobConnectionString",
        parsers.text,
        "Connection string for the blobs, if they have another storage account or credential.",
        shown="the queue's credential",
        secret=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class ClaimCheck:
    """Where large bodies are stored.

    account: the account; its `url` is the blob endpoint. delete: True to delete a blob when its
    message is settled.
    """

    container: str = option(
        "blobContainer",
        container_name,
        "The container of these blobs, required with `largeBody=blob`. A source never reads"
        " another container.",
    )
    account: Account = made_of(*_BLOB_ACCOUNT)
    delete: bool = option(
        "deleteBlob",
        parsers.flag,
        "With `largeBody=blob`: delete a message's blob after the message is deleted. With `false`,"
        " blobs stay.",
        default=True,
        side=Side.SOURCE,
    )


BLOB_OPTIONS = (_LARGE_BODY, *options_of(ClaimCheck))


def read_claim_check(values: ParsedOptions, account: Account | None) -> ClaimCheck | None:
    """Return the settings for large bodies, or None with largeBody=fail. Raises InvalidOption.

    account: account of the queues; None if the options name a separate account for blobs.
    """
    if values["largeBody"] is LargeBody.FAIL:
        logs = [values[name] for name in ("writeAheadLog", "transactionLog", "readLog")]
        used = _BLOB_ACCOUNT if any(log and log.container for log in logs) else ()
        if idle := values.idle(ClaimCheck, besides=used):
            raise _invalid(
                f"'{idle}' is set, but no body ever goes into a blob: set largeBody=blob"
            )
        return None
    if values["blobContainer"] is None:
        raise _invalid("largeBody=blob needs 'blobContainer': the container for large bodies")
    return ClaimCheck(account=read_blob_account(values, account), **taken(ClaimCheck, values))


def read_blob_account(options: Mapping[str, Any], account: Account | None) -> Account:
    """Return the account of the blobs: the account of the queues, or a separate account. Its `url`
    is the blob endpoint.

    account: account of the queues, needed without 'secret.blobConnectionString'. Raises
    InvalidOption if the address is unknown or contradictory.
    """
    text, url = options.get("secret.blobConnectionString"), options.get("blobAccountUrl")
    if text and url:
        raise _invalid_account(
            "'blobAccountUrl' and 'secret.blobConnectionString' are both set; keep one of them"
        )
    if text:
        source = "option 'secret.blobConnectionString'"
        account = from_connection_string(text, source, "blob")
        check_destination(account, source, os.environ)
        return account
    assert account is not None
    if url is None and account.blob_url is None:
        raise _invalid_account(
            f"where the blobs of the account at {account.url} are cannot be told from that address:"
            " set 'blobAccountUrl', or BlobEndpoint in the connection string"
        )
    own_source = "BlobEndpoint of the connection string"
    source = "option 'blobAccountUrl'" if url else own_source
    own, url = account.blob_url, checked_url(str(url or account.blob_url), source, "blob")
    if account.of_environment and url != (own and checked_url(own, own_source, "blob")):
        raise not_allowed(
            f"option 'blobAccountUrl' names {url}, and the credential in the environment variable"
            f" AZURE_STORAGE_CONNECTION_STRING goes to its own blob endpoint only"
            f" ({own or 'it names none'}): remove 'blobAccountUrl' and name BlobEndpoint in that"
            " connection string, or give the blobs a credential by 'secret.blobConnectionString'"
        )
    if account.identity and not url.startswith("https:"):
        raise invalid_account(f"a Microsoft Entra token needs an https 'blobAccountUrl', not {url}")
    blobs = replace(account, name=account_name(url), url=url)
    check_destination(blobs, source, os.environ)
    return blobs


def section(
    config: type[T],
    values: ParsedOptions,
    account: Account,
    invalid: Callable[[str], InvalidOption],
) -> T | None:
    """Return the settings of a log, with the log's account; None if the first option of `config` is
    not set.

    The first option is the place of the log. account: account of the queues. invalid: makes the
    error if another option of `config` is set, but not the place.
    """
    place = values[next(options_of(config)).name]
    if place is None:
        if idle := values.idle(config):
            raise invalid(idle)
        return None
    make: Callable[..., T] = config
    blobs = read_blob_account(values, account) if place.container else None
    return make(account=blobs, **taken(config, values))
