"""Tars in the form of WebDataset, read into samples that `write_tfrecords` takes."""

from __future__ import annotations

import functools
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar

from tfhet.errors import DataError
from tfhet.source.files import opened

KEY = "__key__"
T = TypeVar("T")


def tar_samples(tars: Iterable[str | os.PathLike[str]]) -> Iterator[dict[str, bytes]]:
    """Yields the samples of tars, compressed or not: neighbouring files of one path up to the first dot of the name.

    `cats/0001.jpg` and `cats/0001.cls` become {"__key__": b"cats/0001", "jpg": ..., "cls": ...}, the contents as bytes.
    Links within the tar are followed; folders, devices and names without a dot are skipped.

    Raises:
        DataError: A tar (`path`) is missing, broken or truncated, a sample has a file twice, its files are not next to
            each other, or a link leads out of the tar.
    """
    for tar in [os.fspath(path) for path in tars]:
        for key, files in grouped(tar, functools.partial(_content, tar)):
            yield {KEY: key.encode("utf-8", "surrogateescape"), **files}


def grouped(
    tar: str, use: Callable[[tarfile.TarFile, tarfile.TarInfo], T], mode: Literal["r:", "r:*"] = "r:*"
) -> Iterator[tuple[str, dict[str, T]]]:
    """Yields the samples of a tar: the path up to the first dot, and the results of `use` for the files by extension.

    Args:
        use: Called for each file when the tar is read up to it.
        mode: "r:*" reads compressed tars as well.

    Raises:
        DataError: As `tar_samples`; the message of a broken tar has the byte, in the uncompressed tar.
    """
    sample: dict[str, T] = {}
    current, ended, archive = "", set[str](), None
    try:
        with opened(tar) as stream, tarfile.open(fileobj=stream, mode=mode) as archive:
            for member in archive:
                folder, slash, name = member.name.rpartition("/")
                stem, _, kind = name.partition(".")
                if not (stem and kind and (member.isfile() or member.islnk() or member.issym())):
                    continue
                file, key = use(archive, member), f"{folder}{slash}{stem}"
                if sample and current != key:
                    yield current, sample
                    ended.add(current)
                    sample = {}
                if key in ended:
                    raise DataError(
                        f"{tar}: the files of sample {key!r} are not next to each other; write the tar with its names "
                        "sorted (tar --sort=name)",
                        path=tar,
                        offset=member.offset,
                    )
                if kind in sample:
                    raise DataError(f"{tar} has {member.name} twice in one sample", tar, member.offset)
                current = key
                sample[kind] = file
            # A tar that was cut, or is broken, between two files is a whole one for tarfile.
            assert archive.fileobj is not None
            archive.fileobj.seek(archive.offset)
            if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise EOFError("it has no end mark, so it was cut there, or is broken")
            while archive.fileobj.read(tarfile.RECORDSIZE):  # the checksum of a compressed one stands at its end
                pass
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        offset = 0 if archive is None else archive.offset
        raise DataError(f"{tar} cannot be read to its end, from byte {offset} on: {error}", tar, offset) from None
    if sample:
        yield current, sample


def _content(tar: str, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    try:
        file = archive.extractfile(member)
    except KeyError:
        file = None
    if file is None:
        raise DataError(f"{tar}: {member.name} is a link to {member.linkname}, which is no file of the tar", path=tar)
    return file.read()
