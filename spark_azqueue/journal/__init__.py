"""Logs, and the stores in which they are. A log is a folder of objects. Each object is written
once, and is checked when it is read."""
