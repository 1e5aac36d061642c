"""Service credentials of Unity Catalog, by the two public ways to one.

Databricks documents `databricks.service_credentials` for code that its workers run (user-defined
functions), and `dbutils.credentials` for notebooks. Which of them the process beside the driver
offers is not documented, so both are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import AccessDenied, InvalidOption

from .policy import not_allowed, untrusted_file_of
from .redaction import shown

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

_LONGEST_REASON = 1_000


def service_credential(name: str) -> TokenCredential:
    """Get the credential object for a service credential, by its name, in this process.

    Raises InvalidOption outside of Databricks, and AccessDenied if Databricks gives none.
    """
    provider = _provider()
    try:
        credential = provider(name)
    except Exception as error:
        raise AccessDenied(
            f"Databricks gave no service credential '{shown(name)}'"
            f" ({type(error).__name__}: {shown(error, _LONGEST_REASON)}). Grant ACCESS on it to"
            " the query's principal, and correct the name (SHOW SERVICE CREDENTIALS)",
            condition=Condition.NO_TOKEN,
        ) from error
    if not hasattr(credential, "get_token"):
        raise InvalidOption(
            f"option 'serviceCredential': '{shown(name)}' is a {type(credential).__name__}, which"
            " has no get_token; take a service credential for Azure",
            condition=Condition.INVALID_ACCOUNT,
        )
    return cast("TokenCredential", credential)


def _check_installed(module: str) -> None:
    """Raise InvalidOption if the import of this module would run a file of a query's."""
    if file := untrusted_file_of(module):
        raise not_allowed(
            f"credential=databricks: {shown(repr(file))} stands for the module {module}, and is a"
            " file of the working folder or one that a query gave to Spark (ADD FILE, --py-files);"
            " only installed modules give credentials. Remove it, or name its folder in PYTHONPATH"
        )


def _provider() -> Callable[[str], Any]:
    try:
        _check_installed("databricks.service_credentials")
        from databricks.service_credentials import getServiceCredentialsProvider
    except ImportError:
        pass
    else:
        return cast("Callable[[str], Any]", getServiceCredentialsProvider)
    try:
        _check_installed("databricks.sdk.runtime")
        from databricks.sdk.runtime import dbutils

        return cast("Callable[[str], Any]", dbutils.credentials.getServiceCredentialsProvider)
    except InvalidOption:
        raise
    except Exception as error:
        raise InvalidOption(
            "credential=databricks works on Databricks only (Runtime 16.2 or newer, with Unity"
            f" Catalog), and this process has no service credentials ({type(error).__name__}:"
            f" {shown(error, _LONGEST_REASON)}). Elsewhere set another 'credential'; on Databricks"
            " a secret scope works in every process: docs/databricks.md",
            condition=Condition.INVALID_ACCOUNT,
        ) from error
