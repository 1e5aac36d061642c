"""Packed messages: two formats for many rows in one body, and what tasks of `pack` and `unpack` do.

Users import from `spark_azqueue/packing.py`. Nothing else of the package knows of packs, except for
the commands that show and split them.
"""
