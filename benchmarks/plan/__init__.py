"""The plan's predictions against simulated clusters."""
