"""A collector of OpenTelemetry: it takes OTLP over HTTP and remembers the spans and the names of metrics."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .waiting import HANG


class Collected(NamedTuple):
    """One span as it came."""

    name: str
    service: str
    kind: int
    trace: str
    id: str
    parent: str
    attributes: dict[str, str]
    pid: str


class Collector:
    """Listens on a free port of loopback for as long as it is entered."""

    def __init__(self) -> None:
        self.spans: list[Collected] = []
        self.metrics: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/v1/traces":
                    collector.take(ExportTraceServiceRequest.FromString(body))
                elif self.path == "/v1/metrics":
                    collector.take_metrics(ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, request: Any) -> None:
        for resource in request.resource_spans:
            about = {one.key: _text(one.value) for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Collected(
                            span.name,
                            about.get("service.name", ""),
                            span.kind,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            {one.key: _text(one.value) for one in span.attributes},
                            about.get("process.pid", ""),
                        )
                    )

    def take_metrics(self, request: Any) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                self.metrics |= {metric.name for metric in scope.metrics}

    def named(self, name: str) -> list[Collected]:
        return [span for span in self.spans if span.name == name]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(HANG)
        self._server.server_close()


def _text(value: Any) -> str:
    return str(getattr(value, value.WhichOneof("value") or "string_value"))
