"""The suite `plan_runs`."""
