"""The built-in trainer: models, train step, step loop, checkpoints; `python -m tfhet.trainer` runs it all."""
