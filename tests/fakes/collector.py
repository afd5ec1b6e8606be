"""A collector of traces: takes OTLP over HTTP in a thread of its own, and keeps the spans."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What arrived.

    Attributes:
        endpoint: Where to send spans.
        spans: In the order of their arrival.
        services: Who sent them, by name.
        paths: Where they were sent to.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.paths: set[str] = set()

    def of(self, name: str, *, trace: str | None = None) -> list[Span]:
        """The spans of a name, of one trace (32 hexadecimal digits) or of all."""
        named = [span for span in self.spans if span.name == name]
        return [span for span in named if trace is None or span.trace_id.hex() == trace]

    def take(self, path: str, body: bytes) -> None:
        """Keep what one request brought."""
        self.paths.add(path)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(named["service.name"])
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)


@contextmanager
def running_collector() -> Iterator[Collector]:
    """Collect on a free port of 127.0.0.1."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    collector = Collector(f"http://127.0.0.1:{server.server_port}/v1/traces")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
