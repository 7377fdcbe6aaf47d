"""The part of `tfhet watch` that runs in the process of a script: it notes deliveries, and imports no other package.

The environment of a script may have no tfhet, so these modules use the standard library alone. `start/sitecustomize.py`
imports them without the rest of tfhet. They write one file per process; `tfhet.watching.merge` reads it.
"""
