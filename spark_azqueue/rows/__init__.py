"""Functions on DataFrames: a function for each row, packed messages, no row twice."""
