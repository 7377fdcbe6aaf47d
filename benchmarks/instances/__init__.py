"""Which instance type is best for a job, by what binds it."""
