"""Whether simulated hosts get the CPU and bandwidth that they are said to have."""
