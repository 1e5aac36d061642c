"""Packed messages: two formats for many rows in one body, and the tasks of `pack` and `unpack`.

Outside of this package, only the commands that show and split packs use them.
"""
