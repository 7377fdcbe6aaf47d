"""Versions of the installed packages that matter to a measurement, read from their metadata: nothing is imported.

versions()                   # {'tfhet': '0.1.0', 'numpy': '1.26.4', ...}
versions(("grpcio",))        # of these packages
"""

from __future__ import annotations

PACKAGES = ("tfhet", "tensorflow", "keras", "horovod", "tensorflow-addons", "sagemaker-training", "numpy")
"""Distributions whose versions a record names when they are installed."""


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Distribution name to installed version; what is not installed is left out."""
    from importlib import metadata  # imports the whole package email

    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
