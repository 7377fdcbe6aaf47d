"""The CPU and memory that the account of seen examples costs a host."""
