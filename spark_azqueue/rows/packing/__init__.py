"""Packed messages: two formats for many rows in one body, and the tasks of `pack` and `unpack`.

The only other users of this package are the commands that show and split packs.
"""
