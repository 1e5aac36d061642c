"""`try_apply` in a task: call a function on pieces of rows, and find the rows on which it fails."""
