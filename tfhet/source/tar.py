"""Tars in the form of WebDataset, read into samples that `write_tfrecords` takes."""

from __future__ import annotations

import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator

from tfhet.errors import DataError

KEY = "__key__"


def tar_samples(tars: Iterable[str | os.PathLike[str]]) -> Iterator[dict[str, bytes]]:
    """Yields the samples of tars, compressed or not: neighbouring files of one path up to the first dot of the name.
    `cats/0001.jpg` and `cats/0001.cls` become {"__key__": b"cats/0001", "jpg": ..., "cls": ...}, the contents as bytes.
    Other files are omitted. Raises DataError (path) for a missing or broken tar, and for a file twice in a sample."""
    for tar in [os.fspath(path) for path in tars]:
        sample: dict[str, bytes] = {}
        try:
            with tarfile.open(tar, "r:*") as archive:
                for member in archive:
                    folder, slash, name = member.name.rpartition("/")
                    stem, _, kind = name.partition(".")
                    file = archive.extractfile(member) if stem and kind and member.isfile() else None
                    if file is None:
                        continue
                    key = f"{folder}{slash}{stem}".encode()
                    if sample and sample[KEY] != key:
                        yield sample
                        sample = {}
                    if kind in sample:
                        raise DataError(f"{tar} has {member.name} twice in one sample", path=tar)
                    sample = {KEY: key, **sample, kind: file.read()}
                # A tar that was cut, or is broken, between two files is a whole one for tarfile.
                assert archive.fileobj is not None
                archive.fileobj.seek(archive.offset)
                if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                    raise EOFError(f"it has no end mark at byte {archive.offset}, so it was cut there, or is broken")
                while archive.fileobj.read(tarfile.RECORDSIZE):  # the checksum of a compressed one stands at its end
                    pass
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            raise DataError(f"{tar} cannot be read to its end: {error}", path=tar) from None
        if sample:
            yield sample
