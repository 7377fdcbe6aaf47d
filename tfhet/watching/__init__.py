"""Watches a training script that does not know tfhet: whether it waits for its input, and which part of it costs time.

    import tfhet

    watch = tfhet.watch()         # in a script or a notebook; without it: tfhet watch -- python train.py
    ...                           # trains
    print(watch.verdict())

The folder `inside` runs in the process of the script and notes deliveries; `merge` makes the record of a run of them.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
