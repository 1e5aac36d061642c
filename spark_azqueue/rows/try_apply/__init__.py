"""`try_apply` in a task: calls a function on groups of rows, and finds the rows that make the
function fail."""
