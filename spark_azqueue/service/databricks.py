"""Gets service credentials of Unity Catalog from one of the two public functions of Databricks.

`databricks.service_credentials` is for code that runs in a task. In other processes, such as the
Python process beside the driver, the module may exist but refuse calls. `dbutils.credentials` is
for notebooks. If `databricks.service_credentials` is missing or refuses, `dbutils.credentials` is
tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from spark_azqueue.errors import AccessDenied, InvalidOption
from spark_azqueue.errors.conditions import Condition

from .policy import check_installed
from .redaction import shown

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

_LONGEST_REASON = 1_000


def service_credential(name: str) -> TokenCredential:
    """Return the credential object of the service credential with this name.

    Raises InvalidOption if this process does not run on Databricks. Raises AccessDenied if
    Databricks returns no credential.
    """
    missing: list[Exception] = []
    refused: list[Exception] = []
    for way in (_of_tasks, _of_notebooks):
        try:
            provider = way()
        except InvalidOption:
            raise
        except Exception as error:  # noqa: BLE001 (outside a workspace the SDK raises anything)
            missing.append(error)
            continue
        try:
            credential = provider(name)
        except Exception as error:  # noqa: BLE001 (no exceptions are documented)
            refused.append(error)
            continue
        if not hasattr(credential, "get_token"):
            raise InvalidOption(
                f"option 'serviceCredential': '{shown(name)}' is a {type(credential).__name__},"
                " which has no get_token; take a service credential for Azure",
                condition=Condition.INVALID_ACCOUNT,
            )
        return cast("TokenCredential", credential)
    if refused:
        raise AccessDenied(
            f"Databricks gave no service credential '{shown(name)}' ({_reasons(refused)}). Grant"
            " ACCESS on it to the query's principal, and correct the name (SHOW SERVICE"
            " CREDENTIALS)",
            condition=Condition.NO_TOKEN,
        ) from refused[0]
    raise InvalidOption(
        "credential=databricks works on Databricks only (Runtime 16.2 or newer, with Unity"
        f" Catalog), and this process has no service credentials ({_reasons(missing[-1:])})."
        " Elsewhere set another 'credential'; on Databricks a secret scope works in every process:"
        " docs/databricks.md",
        condition=Condition.INVALID_ACCOUNT,
    ) from missing[-1]


def _of_tasks() -> Callable[[str], Any]:
    check_installed("databricks.service_credentials", "databricks")
    from databricks.service_credentials import getServiceCredentialsProvider

    return cast("Callable[[str], Any]", getServiceCredentialsProvider)


def _of_notebooks() -> Callable[[str], Any]:
    check_installed("databricks.sdk.runtime", "databricks")
    from databricks.sdk.runtime import dbutils

    return cast("Callable[[str], Any]", dbutils.credentials.getServiceCredentialsProvider)


def _reasons(errors: list[Exception]) -> str:
    return "; ".join(f"{type(each).__name__}: {shown(each, _LONGEST_REASON)}" for each in errors)
