"""The steps that are found in a training script: what that costs, and whether they are its steps."""
