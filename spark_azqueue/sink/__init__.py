"""The sink: turns rows into requests, sends them, and accounts for each one."""
