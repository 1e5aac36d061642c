"""Functions on DataFrames: call a function for each row, pack and unpack, drop duplicates."""
