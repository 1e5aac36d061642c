"""The credential of an account, in words."""

from __future__ import annotations

from spark_azqueue.service.account import Account


def credential_in_words(account: Account) -> str:
    """What is used, without its value: "account key", "Microsoft Entra (managedIdentity)"."""
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
