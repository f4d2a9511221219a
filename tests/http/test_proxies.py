"""Which proxy leads to a server: rules, and nothing else."""

from __future__ import annotations

import pytest

from dovetail.errors import TransportError
from dovetail.transports.http.client.proxies import check_proxy, proxy_for
from dovetail.transports.http.client.url_parts import address_of

PROXY = "http://proxy.example:3128"


def found(url: str, **environment: str) -> str | None:
    """The port of the proxy to ``url``, which says which variable was taken."""
    proxy = proxy_for(address_of(url).origin, True, environment)
    return None if proxy is None else f"{proxy.origin[1]}:{proxy.origin[2]}"


@pytest.mark.parametrize(
    ("environment", "http", "https"),
    [
        ({}, None, None),
        ({"HTTP_PROXY": "http://p:1"}, "p:1", None),
        ({"http_proxy": "http://p:1"}, "p:1", None),
        ({"HTTPS_PROXY": "http://p:2"}, None, "p:2"),
        ({"https_proxy": "https://p"}, None, "p:443"),
        ({"ALL_PROXY": "http://p:3"}, "p:3", "p:3"),
        ({"all_proxy": "p:3"}, "p:3", "p:3"),
        ({"ALL_PROXY": "http://p:3", "HTTPS_PROXY": "http://p:2"}, "p:3", "p:2"),
        ({"http_proxy": "http://small:1", "HTTP_PROXY": "http://capital:1"}, "small:1", None),
        ({"http_proxy": "", "HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://p:3"}, None, "p:3"),
        ({"HTTP_PROXY": " p:1 "}, "p:1", None),
    ],
)
def test_the_variables_of_the_environment(
    environment: dict[str, str], http: str | None, https: str | None
) -> None:
    assert found("http://server.example/", **environment) == http
    assert found("https://server.example/", **environment) == https


def test_cgi_variables_that_a_client_can_set_are_ignored() -> None:
    cgi = {"REQUEST_METHOD": "GET", "HTTP_PROXY": "http://evil:1"}
    assert found("http://server.example/", **cgi) is None
    assert found("http://server.example/", **cgi, http_proxy="http://p:1") == "p:1"
    assert found("https://server.example/", **cgi, HTTPS_PROXY="http://p:2") == "p:2"


@pytest.mark.parametrize(
    ("rules", "direct", "proxied"),
    [
        ("*", ["http://a.example/", "http://10.0.0.1/"], []),
        ("example", ["http://example/", "http://a.example/"], ["http://myexample/", "http://example.org/"]),
        (".b.example", ["http://b.example/", "http://a.b.example/"], ["http://c.example/", "http://ab.example/"]),
        ("*.b.example", ["http://a.b.example/"], ["http://xb.example/"]),
        ("A.Example", ["http://a.example/", "http://x.A.EXAMPLE./"], []),
        ("a.example:8080", ["http://a.example:8080/"], ["http://a.example/", "http://a.example:80/"]),
        ("a.example:443", ["https://a.example/"], ["http://a.example/"]),
        ("bücher.example", ["http://bücher.example/", "http://xn--bcher-kva.example/"], ["http://x.example/"]),
        ("10.0.0.1", ["http://10.0.0.1/"], ["http://10.0.0.10/", "http://110.0.0.1/"]),
        ("10.0.0.1:81", ["http://10.0.0.1:81/"], ["http://10.0.0.1/"]),
        ("10.0.0.0/8", ["http://10.200.0.1/"], ["http://11.0.0.1/", "http://10.example/"]),
        ("10.1.2.3/8", ["http://10.200.0.1/"], ["http://11.0.0.1/"]),
        ("2001:db8::/32", ["http://[2001:db8::1]/"], ["http://[2001:db9::1]/", "http://10.0.0.1/"]),
        ("2001:db8::1", ["http://[2001:db8:0::1]/"], ["http://[2001:db8::2]/"]),
        ("[2001:db8::1]:81", ["http://[2001:db8::1]:81/"], ["http://[2001:db8::1]/"]),
        ("10.0.0.0/8", ["http://[::ffff:10.0.0.1]/"], []),
        ("1", [], ["http://10.0.0.1/"]),
        ("a.example, b.example c.example,,", ["http://b.example/", "http://c.example/"], ["http://d.example/"]),
        (". .. : [ ] []: 1/2/3 \udcff ü.\udcff", [], ["http://a.example/", "http://10.0.0.1/"]),
        ("", [], ["http://a.example/"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_what_is_reached_directly(variable: str, rules: str, direct: list[str], proxied: list[str]) -> None:
    environment = {"ALL_PROXY": PROXY, variable: rules}
    assert [url for url in direct if found(url, **environment)] == []
    assert [url for url in proxied if not found(url, **environment)] == []


@pytest.mark.parametrize(
    "host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_this_machine_is_never_reached_through_a_proxy_of_the_environment(host: str) -> None:
    assert found(f"http://{host}:8000/mcp", HTTP_PROXY=PROXY) is None
    assert found(f"https://{host}:8000/mcp", HTTPS_PROXY=PROXY, NO_PROXY="") is None


def test_a_name_that_looks_like_this_machine_is_another() -> None:
    assert found("http://127.0.0.1.evil.example/", HTTP_PROXY=PROXY) == "proxy.example:3128"
    assert found("http://localhost.evil.example/", HTTP_PROXY=PROXY) == "proxy.example:3128"


def test_a_proxy_of_the_application_is_for_everything_and_false_is_for_none() -> None:
    here = address_of("http://127.0.0.1:8000/").origin
    environment = {"HTTP_PROXY": "http://other:1", "NO_PROXY": "*"}
    chosen = proxy_for(here, "https://user:secret@p:99", environment)
    assert chosen is not None
    assert (chosen.origin, chosen.name) == ((True, "p", 99), "the proxy https://p:99")
    assert chosen.authorization == "Basic dXNlcjpzZWNyZXQ="
    there = address_of("http://server.example/").origin
    assert proxy_for(there, False, environment) is None


@pytest.mark.parametrize(
    "url", ["socks5://user:secret@p:1080", "socks5h://user:secret@p:1080", "socks4://p:1080"]
)
def test_socks_is_refused_with_a_clear_message_where_it_would_be_used(url: str) -> None:
    with pytest.raises(
        TransportError, match=r"ALL_PROXY names a SOCKS proxy \(socks\w+://p:1080\)"
    ) as caught:
        found("http://server.example/", ALL_PROXY=url)
    assert caught.value.cause == "proxy"
    assert "secret" not in caught.value.message
    assert found("http://server.example/", ALL_PROXY=url, HTTP_PROXY=PROXY) == "proxy.example:3128"
    assert found("http://localhost/", ALL_PROXY=url) is None
    assert found("http://server.example/", ALL_PROXY=url, NO_PROXY="example") is None
    with pytest.raises(ValueError, match="proxy names a SOCKS proxy"):
        check_proxy(url)


@pytest.mark.parametrize(
    "url", ["ftp://user:secret@p:1", "http://", "http://user:sec/ret@p", "http://[::1", "x y", "p:99999"]
)
def test_what_is_no_proxy_is_named_by_its_variable_and_not_quoted(url: str) -> None:
    with pytest.raises(TransportError, match="HTTPS_PROXY is not a valid http or https proxy URL") as caught:
        found("https://server.example/", HTTPS_PROXY=url)
    assert "sec" not in caught.value.message
    with pytest.raises(ValueError, match="proxy is not a valid http or https proxy URL"):
        check_proxy(url)


def test_good_settings_pass() -> None:
    for setting in (True, False, "p:3128", "https://p"):
        check_proxy(setting)
