"""The suite `ray`."""
