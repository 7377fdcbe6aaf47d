"""tfhet keeps GPUs from waiting for their input.

    import tfhet

    ds = tfhet.distribute(ds)      # a plain data set without a data group; a served one with it

Names are loaded when they are first used: `import tfhet` loads neither TensorFlow nor Horovod.
"""

from tfhet import extras

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
