"""largeBody=blob: the account and container for large bodies, from the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.account import Account, account_name, checked_url

from .account import from_connection_string
from .choices import LargeBody
from .parse import named

_FOR_BLOBS = {"blobContainer", "blobAccountUrl", "secret.blobConnectionString", "deleteBlob"}
_FOR_LOG_TOO = {"blobAccountUrl", "secret.blobConnectionString"}


@dataclass(frozen=True)
class ClaimCheck:
    """Where large bodies are stored.

    account: its `url` is the blob endpoint. delete: delete a blob when its message is settled.
    """

    account: Account
    container: str
    delete: bool = True


def read_claim_check(
    values: Mapping[str, Any], given: Mapping[str, str], account: Account
) -> ClaimCheck | None:
    """The settings for large bodies; None with largeBody=fail. Raises InvalidOption.

    values: parsed options. given: options as Spark passed them. account: that of the queues.
    """
    if values["largeBody"] is LargeBody.FAIL:
        log = values["writeAheadLog"]
        used = _FOR_LOG_TOO if log and log.container else set()
        if idle := (_FOR_BLOBS - used) & named(given):
            raise InvalidOption(
                f"'{min(idle)}' is set, but no body ever goes into a blob: set largeBody=blob"
            )
        return None
    if values["blobContainer"] is None:
        raise InvalidOption("largeBody=blob needs 'blobContainer': the container for large bodies")
    return ClaimCheck(
        read_blob_account(values, account), values["blobContainer"], values["deleteBlob"]
    )


def read_blob_account(options: Mapping[str, Any], account: Account) -> Account:
    """The account of the blobs: the queue's, or a separate one. Its `url` is the blob endpoint.

    Raises InvalidOption if the address is unknown or contradictory.
    """
    text, url = options.get("secret.blobConnectionString"), options.get("blobAccountUrl")
    if text and url:
        raise InvalidOption(
            "'blobAccountUrl' and 'secret.blobConnectionString' are both set; keep one of them"
        )
    if text:
        source = "option 'secret.blobConnectionString'"
        return from_connection_string(text, source, "blob")
    if url is None and account.blob_url is None:
        raise InvalidOption(
            f"where the blobs of the account at {account.url} are cannot be told from that address:"
            " set 'blobAccountUrl', or BlobEndpoint in the connection string"
        )
    source = "option 'blobAccountUrl'" if url else "BlobEndpoint of the connection string"
    url = checked_url(str(url or account.blob_url), source, "blob")
    if account.identity and not url.startswith("https:"):
        raise InvalidOption(f"a Microsoft Entra token needs an https 'blobAccountUrl', not {url}")
    return replace(account, name=account_name(url), url=url)
