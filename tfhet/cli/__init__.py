"""The commands of `tfhet`: one module adds the options of a command and runs it."""
