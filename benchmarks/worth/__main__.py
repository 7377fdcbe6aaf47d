"""`python -m benchmarks.worth`: which published training runs are input-bound, and where a data group pays."""

from benchmarks.worth.answer import HEAD, rows
from tfhet.report import show, table

if __name__ == "__main__":
    show(table(rows(), columns=HEAD, title="worth"), wide=True)
