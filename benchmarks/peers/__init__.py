"""Other libraries that run the same chains, each in a process of its own."""
