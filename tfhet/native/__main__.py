"""`python -m tfhet.native`: builds the compiled ops that are not there yet, and says which this machine can have."""

from tfhet import native

if __name__ == "__main__":
    for name in native.names():
        print(f"{name}: {'ready' if native.available(name) else 'left out; plain TensorFlow does its work'}")
    print(f"wire: {'ready' if native.wire_library() else 'left out; tf.data service cannot be used'}")
