"""Findings of the doctor, and functions for printing that the doctor and the commands share."""

from __future__ import annotations

import datetime
import sys
from dataclasses import dataclass

from spark_azqueue.errors import AzQueueError
from spark_azqueue.errors.explanation import explain
from spark_azqueue.service.account import Account
from spark_azqueue.service.redaction import escaped, hide_secrets


@dataclass(frozen=True)
class Finding:
    """The result of one check. `good`: True, False, or None for information. `advice`: the remedy.

    Raises ValueError for a bad result without advice.
    """

    good: bool | None
    text: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.good is False and not self.advice:
            raise ValueError(f"no advice: {self.text}")


def say(text: str, *, is_error: bool = False) -> None:
    """Print a text of one or more lines. A text about an error goes to stderr.

    The text may contain parts of an answer, a log or a message. So secrets are hidden, and control
    characters are escaped.
    """
    printable = escaped(hide_secrets(text), lines=True)
    print(printable, file=sys.stderr if is_error else sys.stdout, flush=True)


def advice_on(error: AzQueueError) -> str:
    """Return a text of two lines: the error, and its remedy."""
    return f"{error}\nWhat to do: {explain(error).remedy}"


def moment_of(seconds: float) -> str:
    """Return a time in seconds since 1970 as text."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def credential_in_words(account: Account) -> str:
    """Return an account's credential without its value, such as "Microsoft Entra
    (managedIdentity)".
    """
    if account.key:
        return "account key"
    sas = "shared access signature" if account.sas else ""
    if account.sas_provider:
        sas = f"shared access signature of sasProvider {account.sas_provider.path}"
    identity = account.identity
    if sas:
        return sas + (", bound to a user, with a token" if identity else "")
    if identity and identity.provider:
        return f"credentialProvider {identity.provider}"
    return f"Microsoft Entra ({identity.kind.value if identity and identity.kind else 'default'})"
