"""What a job does when something is done to it."""
