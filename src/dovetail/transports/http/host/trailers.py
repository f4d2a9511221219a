"""uvicorn's fast parser without trailers, which it adds to the headers: there they would name the caller."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class WithoutTrailers(HttpToolsProtocol):
    """It, with headers that are those of the head."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.headers = self.headers.copy()  # what comes behind the head is added there, and read by nobody
