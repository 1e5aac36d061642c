"""Functions on DataFrames: apply a function per row, pack and unpack messages, drop duplicates."""
