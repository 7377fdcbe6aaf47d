"""Simulated jobs under observation, and what is measured beside them: shared by the suites that run clusters."""
