"""The suite `feed`."""
