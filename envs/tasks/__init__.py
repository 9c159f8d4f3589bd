"""One file a task, one line each in the table."""
