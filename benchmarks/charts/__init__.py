"""Pictures of records, through matplotlib (extra `demo`)."""
