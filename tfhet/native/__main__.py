"""`python -m tfhet.native`: builds the compiled core and ops that are missing, and says which this machine can have."""

from tfhet import kernels, native

if __name__ == "__main__":
    print(f"core: {'ready' if kernels.available() else 'left out; pipelines with stages cannot be used'}")
    for name in native.names():
        print(f"{name}: {'ready' if native.available(name) else 'left out'}")
    print(f"wire: {'ready' if native.wire_library() else 'left out; tf.data service cannot be used'}")
