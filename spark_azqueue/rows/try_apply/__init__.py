"""`try_apply` in a task: call a function on pieces of rows, and find the rows that make it fail."""
