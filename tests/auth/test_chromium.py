"""A real browser walks login and consent once: Chromium without a window, moved by Playwright."""

import asyncio
import shutil
from typing import Any

import pytest

from dovetail import Client
from dovetail.auth import MemoryTokens, OAuth

from .oidc import Oidc
from .proxied import Proxied, proxied
from .test_oidc_provider import run

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.browser, pytest.mark.peer]


def test_a_user_logs_in_and_consents_in_chromium() -> None:
    from playwright.async_api import async_playwright

    async def test(provider: Oidc) -> None:
        addresses: list[str] = []

        async def walk(url: str) -> None:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                page: Any = await browser.new_page()
                await page.goto(url, wait_until="domcontentloaded")
                await page.wait_for_selector('h1:text("Sign-in")')
                await page.fill('input[name="login"]', "somebody")
                await page.fill('input[name="password"]', "anything")
                await page.click('button[type="submit"]')
                await page.wait_for_selector('h1:text("Authorize")')
                await page.click('button[type="submit"]')
                await page.wait_for_selector('h1:text("Logged in")')
                addresses.append(page.url)
                await browser.close()

        auth = OAuth(store=MemoryTokens(), open_browser=walk)
        async with Client(provider.url, revision="modern", auth=auth) as client:
            await client.list_tools()
        assert addresses[0].startswith("http://127.0.0.1:")
        assert "/callback?" in addresses[0]
        assert provider.seen[-1]["sub"] == "somebody"

    run(test)


def test_a_user_approves_on_the_consent_page_in_chromium() -> None:
    """The whole way of a proxy: our page, the provider's two, and back; the cookie of the login is gone in the end."""
    from playwright.async_api import async_playwright

    async def test(site: Proxied) -> None:
        shown: list[str] = []

        async def walk(url: str) -> None:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                page: Any = await browser.new_page()
                await page.goto(url, wait_until="domcontentloaded")
                await page.wait_for_selector('h1:text("Allow access?")')
                shown.append(await page.inner_text("body"))
                [cookie] = [
                    one for one in await page.context.cookies() if one["name"].startswith("__Host-dovetail-")
                ]
                assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Lax")
                await page.click('button[value="allow"]')
                await page.fill('input[name="login"]', "somebody")
                await page.fill('input[name="password"]', "anything")
                await page.click('button[type="submit"]')
                await page.wait_for_selector('h1:text("Authorize")')
                await page.click('button[type="submit"]')
                await page.wait_for_selector('h1:text("Logged in")')
                left = [
                    one["name"] for one in await page.context.cookies() if one["name"].startswith("__Host-")
                ]
                assert left == []
                await browser.close()

        auth = OAuth(store=MemoryTokens(), open_browser=walk)
        async with Client(site.url, auth=auth) as client:
            assert (await client.call_tool("who")).text == "somebody"
        assert "Dovetail" in shown[0]
        assert "http://127.0.0.1:" in shown[0]
        assert "tools" in shown[0]

    async def inside() -> None:
        async with asyncio.timeout(60), proxied() as site:
            await test(site)

    asyncio.run(inside())
