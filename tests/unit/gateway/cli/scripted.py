"""A server on a port of this machine that answers as a test says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Request(NamedTuple):
    """What came: method, path with query, the header with the key, and the body."""

    method: str
    path: str
    key: str | None
    body: bytes


@contextmanager
def serving(answer: Callable[[Request], tuple[int, bytes]]) -> Iterator[str]:
    """Serve for the duration of the block; yields the URL.

    Args:
        answer: Returns status and body for a request; called on several threads.
    """

    class Answering(BaseHTTPRequestHandler):
        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            key = self.headers.get("authorization")
            status, content = answer(Request(self.command, self.path, key, body))
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = serve  # http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
