"""All rows of the table."""

from differential.row import ROWS as ROWS
from differential.rows import elements, keras_data, order, own_code, random, sources  # noqa: F401  # they add their rows
