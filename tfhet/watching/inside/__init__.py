"""The part of `tfhet watch` that runs in the process of a script: it notes deliveries, and imports no other package.

The environment of a script may have no tfhet, so these modules use the standard library alone. They write one file per
process, which `tfhet.watching.merge` reads. `start/sitecustomize.py` imports them without the rest of tfhet, so they
import each other by `from tfhet.watching.inside.MODULE import NAME`: with `import MODULE` Python would import tfhet.
"""
