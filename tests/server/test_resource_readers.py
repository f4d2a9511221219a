"""Texts, files, folders and URLs as resources; a folder never shows what is not in it."""

import contextlib
import http.server
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from dovetail import (
    Client,
    FileResource,
    FolderResource,
    ProtocolError,
    RegistrationError,
    Server,
    TextResource,
    TransportError,
    UrlResource,
)
from tests.support.aio import run
from tests.support.waiting import HANG


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "docs"
    (root / "deep").mkdir(parents=True)
    (root / "a.md").write_text("# Hello")
    (root / "deep" / "b.json").write_text("{}")
    (root / "c.bin").write_bytes(b"\0\1")
    (root / ".hidden").write_text("hidden")
    (root / "out").symlink_to(tmp_path)
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    (root / "within.md").symlink_to(root / "a.md")
    os.mkfifo(root / "pipe")
    return root


def test_a_system_without_the_flags_of_posix_reads_files_and_refuses_folders(folder: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from dovetail import RegistrationError
del os.O_CLOEXEC, os.O_NONBLOCK, os.O_DIRECTORY, os.O_NOFOLLOW
os.supports_dir_fd.clear()
from dovetail import FileResource, FolderResource
folder = Path(sys.argv[1])
print(FileResource(folder / "a.md")().data)
try:
    FolderResource(folder)
except RegistrationError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True, timeout=HANG
    )
    assert done.stdout.splitlines() == [
        "b'# Hello'",
        "FolderResource needs Linux or macOS: register each file with FileResource instead",
    ]


@run
async def test_a_text_and_a_file_are_read(folder: Path) -> None:
    server = Server("docs")
    server.add_resource("docs://text", TextResource("hello"))
    server.add_resource("docs://file", FileResource(folder / "a.md"), mime_type="text/markdown")
    server.add_resource("docs://bin", FileResource(folder / "c.bin"))
    async with Client(server) as client:
        assert {one.name for one in await client.list_resources()} == {"text", "a.md", "c.bin"}
        assert (await client.read_resource("docs://text")).contents[0].text == "hello"
        found = (await client.read_resource("docs://file")).contents[0]
        assert (found.text, found.mime_type) == ("# Hello", "text/markdown")
        (folder / "a.md").write_text("# Changed")
        assert (await client.read_resource("docs://file")).contents[0].text == "# Changed"
        assert (await client.read_resource("docs://bin")).contents[0].blob == "AAE="


@run
async def test_a_folder_shows_its_files_and_the_names_in_it(folder: Path) -> None:
    server = Server("docs")
    server.add_resource("docs://{+path}", FolderResource(folder))
    async with Client(server) as client:
        found = (await client.read_resource("docs://deep/b.json")).contents[0]
        assert (found.text, found.mime_type) == ("{}", "application/json")
        listed = (await client.read_resource("docs://deep")).contents[0].text
        assert isinstance(listed, str)
        assert '"b.json"' in listed


@pytest.mark.parametrize(
    "uri",
    [
        "docs://../secret.txt", "docs://deep/../../secret.txt", "docs://%2e%2e/secret.txt", "docs://..%2fsecret.txt",
        "docs://deep/%2e%2e%2f%2e%2e%2fsecret.txt", "docs://out/secret.txt", "docs://out.txt", "docs://out",
        "docs://within.md", "docs://.hidden", "docs:///etc/passwd", "docs://%2fetc%2fpasswd", "docs://a.md%00.txt",
        "docs://..%5csecret.txt", "docs://pipe", "docs://nothing", "docs://a.md/x",
    ],
)  # fmt: skip
@run
async def test_nothing_but_the_folder_is_ever_read(folder: Path, uri: str) -> None:
    server = Server("docs")
    server.add_resource("docs://{+path}", FolderResource(folder))
    async with Client(server) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.read_resource(uri)
    assert "secret" not in str(caught.value.data or "").replace(uri, "")
    assert caught.value.kind != "internal_error"


def test_the_reader_itself_refuses_what_a_template_would_not_pass(folder: Path) -> None:
    reader = FolderResource(folder)
    for path in ("../secret.txt", "deep/../../secret.txt", "..\\secret.txt", "a.md\0", "out/secret.txt"):
        with pytest.raises(ProtocolError):
            reader(path)
    assert FolderResource(folder, hidden=True)(".hidden").data == b"hidden"


def test_what_is_too_large_is_not_read(folder: Path) -> None:
    with pytest.raises(ValueError, match="more than 3 bytes"):
        FileResource(folder / "a.md", limit=3)()


def test_what_is_not_there_is_said_when_it_is_made(folder: Path) -> None:
    for make in (FileResource, FolderResource):
        with pytest.raises(RegistrationError, match="there is no"):
            make(folder / "nothing")
    with pytest.raises(RegistrationError, match="http or https"):
        UrlResource("file:///etc/passwd")


@pytest.fixture
def site() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/away":
                self.send_response(302)
                self.send_header("Location", "file:///etc/passwd")
                self.end_headers()
                return
            if self.path in ("/moved", "/elsewhere"):
                host = "127.0.0.1" if self.path == "/moved" else "localhost"
                port = self.server.server_address[1]
                self.send_response(302)
                self.send_header("Location", f"http://{host}:{port}/page")
                self.end_headers()
                return
            if self.path.startswith("/inside"):
                port = self.server.server_address[1]
                self.send_response(302)
                self.send_header("Location", f"http://{unquote(self.path[8:]) or f'127.0.0.1:{port}'}/page")
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(b"x" * (64 << 20))  # not to be read
                return
            if self.path.startswith("http://"):  # as a proxy is asked
                self.send_response(302)
                self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/page")
                self.end_headers()
                return
            if self.path == "/slow":
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):
                    while not select.select([self.connection], [], [], 0.02)[0]:  # until the client hangs up
                        self.wfile.write(b".")
                        self.wfile.flush()
                return
            self.send_response(200 if self.path == "/page" else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f"<p>{self.headers.get('X-Key')}".encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@run
async def test_a_url_is_fetched_and_nothing_but_http(site: str) -> None:
    server = Server("web")
    server.add_resource("web://page", UrlResource(f"{site}/page", headers={"X-Key": "k"}))
    server.add_resource("web://gone", UrlResource(f"{site}/gone"))
    server.add_resource("web://away", UrlResource(f"{site}/away"))
    async with Client(server) as client:
        found = (await client.read_resource("web://page")).contents[0]
        assert (found.text, found.mime_type) == ("<p>k", "text/html")
        with pytest.raises(ProtocolError) as caught:
            await client.read_resource("web://gone")
        assert caught.value.kind == "resource_not_found"
        with pytest.raises(ProtocolError):
            await client.read_resource("web://away")


@run
async def test_headers_of_a_url_stay_with_its_origin(site: str) -> None:
    server = Server("web")
    for name in ("moved", "elsewhere"):
        server.add_resource(f"web://{name}", UrlResource(f"{site}/{name}", headers={"X-Key": "k"}))
    async with Client(server) as client:
        assert (await client.read_resource("web://moved")).contents[0].text == "<p>k"
        assert (await client.read_resource("web://elsewhere")).contents[0].text == "<p>None"


def test_a_redirect_leads_no_further_inside_than_the_url_itself(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert UrlResource(f"{site}/inside")().data == b"<p>None"
    for inside in ("169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0", "[fe80::1]"):
        with pytest.raises(TransportError, match="private network"):
            UrlResource(f"{site}/inside/{inside}")()
    monkeypatch.setenv("http_proxy", site)  # a server of the internet, and its answer
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(TransportError, match="private network"):
        UrlResource("http://status.invalid/page")()


@run
async def test_a_server_that_drips_is_not_waited_for(site: str) -> None:
    server = Server("web")
    server.add_resource("web://slow", UrlResource(f"{site}/slow", timeout=0.3))
    async with Client(server) as client:
        with pytest.raises(ProtocolError):
            await client.read_resource("web://slow", timeout=HANG)
