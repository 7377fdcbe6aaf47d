"""The suite `malloc`."""
