"""What the account of which examples were seen costs a host."""
