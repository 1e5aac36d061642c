"""Packed messages: two formats for many rows in one body, and what tasks of `pack` and `unpack` do.

Nothing else of the package knows of packs, except the commands that show and split them.
"""
