"""Limits of the OAuth proxy: no client can fill its store or block other clients."""

import asyncio
from typing import Any

import pytest

from dovetail.auth.proxy import issued_tokens, proxy_login, user_logins
from dovetail.auth.proxy.issued_tokens import LOGINS_KEPT
from dovetail.auth.proxy.proxy_login import CONSENT_SECONDS, LOGINS_WAITING
from dovetail.stores import MemoryStore
from dovetail.stores.memory_store import MEMORY_STORE_ENTRIES
from tests.support.aio import run

from .proxied import query_of
from .stores import FullStore, SlowStore
from .visitor import BACK, Visitor, visitor


async def logged_in(one: Visitor) -> tuple[str, dict[str, Any]]:
    """A new client and its tokens."""
    id = await one.register()
    status, given = await one.redeem(id, await one.code(id))
    assert status == 200, given
    return id, given


async def kept(store: MemoryStore) -> int:
    """How many entries of the proxy there are."""
    return sum([len(await store.scan(f"oauth/{folder}")) for folder in ("away", "login", "user")])


@run
async def test_a_flood_of_registrations_denials_and_renewals_fills_no_store() -> None:
    store = MemoryStore()
    async with visitor(store=store) as one:
        id, given = await logged_in(one)
        before = await kept(store)
        for _ in range(20):
            status, given = await one.renew(id, given["refresh_token"])
            assert status == 200
            fields = await one.consent_fields(await one.register())
            assert (await one.answer({**fields, "decision": "deny"}))[0] == 303
        assert await kept(store) == before


@run
async def test_beyond_the_limit_of_pending_consents_the_oldest_starts_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_login, "LOGINS_WAITING", 3)
    store = MemoryStore()
    async with visitor(store=store) as one:
        id = await one.register()
        states = [await one.agree(id) for _ in range(8)]
        assert await kept(store) == 3
        assert [(await one.come_back(state))[0] for state in states] == [403] * 5 + [303] * 3


@run
async def test_a_user_with_many_consents_does_not_evict_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_login, "LOGINS_WAITING", 6)
    store = MemoryStore()
    async with visitor(store=store) as one:
        id = await one.register()
        honest = one.elsewhere("127.0.0.9")
        state = await honest.agree(id)
        attackers = [one.elsewhere(f"127.0.0.{number}") for number in (2, 3)]
        theirs = [[await each.agree(id) for _ in range(8)] for each in attackers]
        assert await kept(store) == 6
        status, headers, _ = await honest.come_back(state)
        assert status == 303
        assert (await one.redeem(id, query_of(headers["location"])["code"]))[0] == 200
        # Callers that fill the tables keep only the newest of their entries.
        for each, states in zip(attackers, theirs, strict=True):
            assert (await each.come_back(states[-1]))[0] == 303
            assert (await each.come_back(states[0]))[0] == 403


@run
async def test_without_a_store_many_logins_evict_only_the_users_own_logins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(issued_tokens, "LOGINS_KEPT", 4)
    for options in ({}, {"userinfo": None}):  # whether or not the provider says who it is
        async with visitor(**options) as one:
            honest = (await logged_in(one))[1]["access_token"]
            one.provider.places["/me"] = {"sub": "mallory"}
            mallory = one.elsewhere("127.0.0.2")
            given = [(await logged_in(mallory))[1]["access_token"] for _ in range(6)]
            assert await one.accepted(honest)
            assert [await one.accepted(each) for each in given] == [False] * 3 + [True] * 3


@run
async def test_a_user_who_logs_in_and_out_all_day_leaves_nothing() -> None:
    now = [1_000_000.0]
    store = MemoryStore(clock=lambda: now[0])
    async with visitor(store=store, clock=lambda: now[0]) as one:
        for _ in range(12):
            id, given = await logged_in(one)
            assert await one.post("revoke", {"token": given["access_token"], "client_id": id}) == (200, {})
        now[0] += CONSENT_SECONDS + 1
        assert await kept(store) == 0


@run
async def test_an_unredeemed_code_leaves_no_state() -> None:
    now = [1_000_000.0]
    store = MemoryStore(clock=lambda: now[0])
    async with visitor(store=store, clock=lambda: now[0]) as one:
        id = await one.register()
        code = await one.code(id)
        now[0] += CONSENT_SECONDS + 1
        assert await kept(store) == 0
        assert (await one.redeem(id, code))[1]["error"] == "invalid_grant"


@run
async def test_a_code_that_comes_again_after_days_ends_its_login() -> None:
    now = [1_000_000.0]
    async with visitor(clock=lambda: now[0]) as one:
        id = await one.register()
        code = await one.code(id)
        _, given = await one.redeem(id, code)
        now[0] += 10 * 86_400
        status, given = await one.renew(id, given["refresh_token"])
        assert status == 200
        assert (await one.redeem(id, code))[1]["error"] == "invalid_grant"
        assert not await one.accepted(given["access_token"])


@run
async def test_one_user_has_few_logins_and_the_one_used_longest_ago_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_logins, "LOGINS_OF_USER", 3)
    async with visitor(store=MemoryStore()) as one:
        first, kept = await logged_in(one)
        second = (await logged_in(one))[1]
        third = (await logged_in(one))[1]
        status, kept = await one.renew(first, kept["refresh_token"])  # now the second was used longest ago
        assert status == 200
        fourth = (await logged_in(one))[1]
        good = [await one.accepted(each["access_token"]) for each in (kept, second, third, fourth)]
        assert good == [True, False, True, True]


@run
async def test_without_a_store_the_memory_for_logins_is_bounded_and_no_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(issued_tokens, "LOGINS_KEPT", 3)
    async with visitor(userinfo=None) as one:  # each login is another user
        given = [(await logged_in(one))[1]["access_token"] for _ in range(5)]
        assert [await one.accepted(each) for each in given] == [False] * 2 + [True] * 3
        assert isinstance(one.server.lifecycle.state_store, MemoryStore)
        assert len(one.server.lifecycle.state_store) == 0


def test_what_may_be_kept_fits_a_store_in_memory() -> None:
    # One entry of each who is at the provider, one of each code, and two of a login: itself, and its user.
    whole = 2 * LOGINS_WAITING + 2 * LOGINS_KEPT
    assert whole <= MEMORY_STORE_ENTRIES


@run
async def test_a_full_store_is_reported_to_the_user_and_to_the_client() -> None:
    store = FullStore()
    async with visitor(store=store) as one:
        id = await one.register()
        state = await one.agree(id)
        status, headers, _ = await one.come_back(state)
        assert "code" in query_of(headers["location"])
        state, store.full = await one.agree(id), True
        status, headers, body = await one.answer(await one.consent_fields(id))
        assert (status, "location" in headers) == (503, False)
        assert b"Try again" in body
        status, headers, _ = await one.come_back(state)
        assert headers["location"].startswith(BACK)
        assert query_of(headers["location"])["error"] == "temporarily_unavailable"


@run
async def test_a_token_that_is_revoked_while_it_is_looked_up_is_not_remembered_as_good() -> None:
    store = SlowStore()
    async with visitor(store=store) as one:
        id, given = await logged_in(one)
        store.slow = True
        asking = asyncio.ensure_future(one.accepted(given["access_token"]))
        await store.asked.wait()
        assert await one.post("revoke", {"token": given["refresh_token"], "client_id": id}) == (200, {})
        store.go_on.set()
        await asking
        assert not await one.accepted(given["access_token"])
