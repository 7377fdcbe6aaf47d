"""`python -m tfhet.native`: builds all compiled ops ahead of time, and says which of them this machine can have."""

from tfhet import native

if __name__ == "__main__":
    for name in native.names():
        print(f"{name}: {'ready' if native.available(name) else 'left out; plain TensorFlow does its work'}")
