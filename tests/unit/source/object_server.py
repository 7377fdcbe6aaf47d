"""A server of files over HTTP with ranges and ETags, with faults.

It has the parts of the protocols of S3, Google Cloud Storage and Azure Blob Storage that tfhet needs.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from tfhet.source import object_store

BUCKET, ACCOUNT = "bucket", "account"


def environment(url: str) -> dict[str, str]:
    """Returns the variables by which the client uses the server at a URL for `s3://`, `gs://` and `az://`."""
    return {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": url,
        "GOOGLE_BASE_URL": url,
        "GOOGLE_BEARER_TOKEN": "token",
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": "a2V5",
        "AZURE_STORAGE_ENDPOINT": f"{url}/{ACCOUNT}",
    }


class ObjectServer(ThreadingHTTPServer):
    """Serves the files of a folder, also as `s3://bucket/`, `gs://bucket/` and `az://bucket/`."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, folder: Path, latency_s: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.latency_s = folder, latency_s
        self.requests: list[tuple[str, str]] = []
        """Path and range of each GET of an object."""
        self.faults: dict[str, str] = {}
        """Fault by the end of a path: "slow" (it never answers), "short" (it ends in the middle), "busy" (status 503),
        "busy once", "forbidden" (403), "whole" (it ignores the range), "any version" (it ignores If-Match)."""
        self.stop = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
    server: ObjectServer

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        if {"list-type", "comp"} & parse_qs(urlsplit(self.path).query).keys():
            self._list()
        else:
            self._answer(has_body=True)

    def do_PUT(self) -> None:
        name, content = self._name(), self.rfile.read(int(self.headers["Content-Length"]))
        if "forbidden" in [fault for end, fault in self.server.faults.items() if name.endswith(end)]:
            self._send(403, b"<Error><Code>AccessDenied</Code></Error>", True)
            return
        (self.server.folder / name).write_bytes(content)
        self._send(201 if self._is_azure() else 200, b"", True, {"ETag": f'"{hashlib.md5(content).hexdigest()}"'})

    def _is_azure(self) -> bool:
        return self.path.startswith(f"/{ACCOUNT}/")

    def _name(self) -> str:
        path = unquote(urlsplit(self.path).path)
        return path.removeprefix(f"/{ACCOUNT}").removeprefix(f"/{BUCKET}").lstrip("/")

    def _answer(self, has_body: bool) -> None:
        server, name = self.server, self._name()
        wanted = self.headers.get("Range", "")
        if has_body:
            server.requests.append((name, wanted))
        time.sleep(server.latency_s)
        fault = next((fault for end, fault in server.faults.items() if name.endswith(end)), "") if has_body else ""
        if fault == "slow":
            server.stop.wait(60)
            self.close_connection = True
            return
        if fault == "busy once":
            server.faults = {end: other for end, other in server.faults.items() if not name.endswith(end)}
        if fault in ("busy", "busy once", "forbidden"):
            self._send({"forbidden": 403}.get(fault, 503), b"<Error><Code>Fault</Code></Error>", has_body)
            return
        try:
            content = (server.folder / name).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", has_body)
            return
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        if self.headers.get("If-Match", tag) != tag and fault != "any version":
            self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>", has_body)
            return
        headers, status, size = {"ETag": tag, "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}, 200, len(content)
        if wanted and fault != "whole":
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            content, status = content[int(first) : int(last) + 1], 206
            headers["Content-Range"] = f"bytes {first}-{int(first) + len(content) - 1}/{size}"
            if not content:
                status = 416
        self._send(status, content, has_body, headers, is_short=fault == "short")

    def _send(
        self, status: int, content: bytes, has_body: bool, headers: dict[str, str] | None = None, is_short: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write((content[: len(content) // 2] if is_short else content) if has_body else b"")
        self.close_connection = is_short

    def _list(self) -> None:
        bucket = urlsplit(self.path).path.strip("/").removeprefix(f"{ACCOUNT}/")
        if bucket != BUCKET or "forbidden list" in self.server.faults.values():
            missing = "ContainerNotFound" if self._is_azure() else "NoSuchBucket"
            status, code = (404, missing) if bucket != BUCKET else (403, "AccessDenied")
            self._send(status, f"<Error><Code>{code}</Code></Error>".encode(), True)
            return
        prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
        folder = self.server.folder
        below = folder / prefix.rpartition("/")[0]
        names = sorted(path.relative_to(folder).as_posix() for path in below.rglob("*") if path.is_file())
        found = [(escape(name), (folder / name).stat().st_size) for name in names if name.startswith(prefix)]
        if self._is_azure():
            entries = "".join(
                f"<Blob><Name>{name}</Name><Properties><Last-Modified>Wed, 21 Oct 2015 07:28:00 GMT</Last-Modified>"
                f"<Content-Length>{size}</Content-Length><Content-Type>x</Content-Type><Etag>x</Etag></Properties></Blob>"
                for name, size in found
            )
            answer = f"<EnumerationResults><Blobs>{entries}</Blobs><NextMarker/></EnumerationResults>"
        else:
            entries = "".join(
                f"<Contents><Key>{name}</Key><Size>{size}</Size><ETag>x</ETag>"
                "<LastModified>2015-10-21T07:28:00.000Z</LastModified></Contents>"
                for name, size in found
            )
            answer = f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        self._send(200, answer.encode(), True)


@contextlib.contextmanager
def serving(folder: Path, latency_s: float = 0.0) -> Iterator[ObjectServer]:
    """Serves a folder within a block."""
    server = ObjectServer(folder, latency_s)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        server.shutdown()
        thread.join(10)
        server.server_close()


@contextlib.contextmanager
def connected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """Serves a folder within a block, in which the client of this process uses the server."""
    object_store._store.cache_clear()
    with serving(folder) as made:
        for name, value in environment(made.url).items():
            monkeypatch.setenv(name, value)
        yield made
    object_store._store.cache_clear()
