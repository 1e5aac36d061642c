"""Functions on DataFrames: call a function that may fail on rows, pack and unpack, drop
duplicates."""
