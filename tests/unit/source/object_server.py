"""A server of files over HTTP with ranges and ETags, and the part of S3's protocol that reading needs, with faults."""

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

BUCKET = "bucket"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1"}


class ObjectServer(ThreadingHTTPServer):
    """Serves the files of a folder, also as `s3://bucket/`."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, folder: Path, latency_s: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.latency_s = folder, latency_s
        self.requests: list[tuple[str, str]] = []
        """Path and range of each GET of an object."""
        self.faults: dict[str, str] = {}
        """Fault by the end of a path: "slow" (it never answers), "short" (it ends in the middle), "busy" (status 503),
        "busy once", "forbidden" (403), "whole" (it ignores the range)."""
        self.stop = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectServer

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        if "list-type" in urlsplit(self.path).query:
            self._list()
        else:
            self._answer(has_body=True)

    def _answer(self, has_body: bool) -> None:
        server, name = self.server, unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")
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
        if self.headers.get("If-Match", tag) != tag:
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
        prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
        folder = self.server.folder
        below = folder / prefix.rpartition("/")[0]
        names = sorted(path.relative_to(folder).as_posix() for path in below.rglob("*") if path.is_file())
        entries = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{(folder / name).stat().st_size}</Size><ETag>x</ETag>"
            "<LastModified>2015-10-21T07:28:00.000Z</LastModified></Contents>"
            for name in names
            if name.startswith(prefix)
        )
        self._send(
            200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode(), True
        )


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
