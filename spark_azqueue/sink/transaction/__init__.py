"""transactionLog: messages are prepared (put as invisible messages), recorded in a log, then
published.

Read first: `record.py` (log entry of a batch), `task.py` (work of a task), `commit.py` (work of the
driver after all tasks).
"""
