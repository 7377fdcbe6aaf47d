"""The suite `memory`."""
