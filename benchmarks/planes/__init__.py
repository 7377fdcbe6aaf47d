"""The suite `planes`."""
