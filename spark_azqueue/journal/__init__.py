"""Stores of logs: folders of objects. Each object is written once, and checked when it is read."""
