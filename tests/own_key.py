"""The key of the data planes in a process of the tests, which no launcher gives one."""

KEY = bytes(range(32))
