"""The account that a connection string names."""

from __future__ import annotations

from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import Account


def account_of(connection_string: str) -> Account:
    return read_account({"secret.connectionString": connection_string}, {})
