"""Leases of messages: tracked, renewed, deleted and released.

Read first: `ledger.py` (the state of each message), `holder.py` (what a consumer calls),
`worker.py` (the thread that sends requests). A consumer without a log: `source/driver/leased.py`.
"""
