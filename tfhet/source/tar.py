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
    Links within the tar are followed; folders, devices and names without a dot are skipped.

    Raises:
        DataError: A tar (`path`) is missing, broken or truncated, a sample has a file twice, its files are not next to
            each other, or a link leads out of the tar.
    """
    for tar in [os.fspath(path) for path in tars]:
        sample: dict[str, bytes] = {}
        ended: set[bytes] = set()
        try:
            with tarfile.open(tar, "r:*") as archive:
                for member in archive:
                    folder, slash, name = member.name.rpartition("/")
                    stem, _, kind = name.partition(".")
                    if not (stem and kind and (member.isfile() or member.islnk() or member.issym())):
                        continue
                    file = _content(archive, member, tar)
                    key = f"{folder}{slash}{stem}".encode("utf-8", "surrogateescape")
                    if sample and sample[KEY] != key:
                        yield sample
                        ended.add(sample[KEY])
                        sample = {}
                    if key in ended:
                        raise DataError(
                            f"{tar}: the files of sample {member.name.removesuffix('.' + kind)!r} are not next to each "
                            "other; write the tar with its names sorted (tar --sort=name)",
                            path=tar,
                        )
                    if kind in sample:
                        raise DataError(f"{tar} has {member.name} twice in one sample", path=tar)
                    sample = {KEY: key, **sample, kind: file}
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


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, tar: str) -> bytes:
    try:
        file = archive.extractfile(member)
    except KeyError:
        file = None
    if file is None:
        raise DataError(f"{tar}: {member.name} is a link to {member.linkname}, which is no file of the tar", path=tar)
    return file.read()
