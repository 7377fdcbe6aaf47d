"""Simulated jobs that are measured, and what is measured outside them: shared by `launch`, `cluster` and `plan`."""
