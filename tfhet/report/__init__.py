"""Shows records: tables on the terminal, one HTML page, a running job.

from pathlib import Path
from tfhet import report

given = report.read_given([Path("runs/a")])
report.show(report.run_table(given.runs[0].run))
Path("a.html").write_text(report.page(given))
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
