"""The launcher beside that of AWS's example."""
