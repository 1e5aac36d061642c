"""Logs, and the stores that hold them. A log is a folder of objects; each object is written once,
and is checked when it is read."""
