"""What verified tokens cost: the same server with `JwtVerifier` and without, side by side, at 64 connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import msgspec
from joserfc import jwt
from joserfc.jwk import ECKey

from ..peers import DOVETAIL, LEGACY, MODERN
from ..processes import Child
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..sockets import SocketDriver
from ..workloads import ECHO

ISSUER, AUDIENCE = "https://id.example", "https://bench.example/mcp"
MORE_ROUNDS = 2
"""A share of four fifths is a small difference."""


def measure(figures: Figures, options: Options) -> None:
    say("auth: verified calls beside open ones")
    key = ECKey.generate_key("P-256", {"kid": "bench"})
    claims = {
        "iss": ISSUER,
        "sub": "bench",
        "aud": AUDIENCE,
        "exp": int(time.time()) + 3600,
        "scope": "tools",
    }
    token = jwt.encode({"alg": "ES256", "kid": "bench"}, claims, key)
    verified = {"BENCH_KEYS": msgspec.json.encode({"keys": [key.as_dict(private=False)]}).decode()}
    with ExitStack() as stack:
        cases: dict[tuple[str, str], Callable[[], Sample]] = {}
        for era in (MODERN, LEGACY):
            for workload, environment in (("echo, open", {}), ("echo, verified", verified)):
                child = stack.enter_context(Child(DOVETAIL, "http", **environment))
                driver = SocketDriver(child, era)
                if environment:
                    driver.more = [b"Authorization: Bearer " + token.encode()]
                driver.open()
                driver.sequential(ECHO, 0.3, most=200)
                cases[era, workload] = lambda driver=driver: driver.throughput(
                    ECHO, 64, options.throughput, least=64
                )
        found = interleave(cases, options.rounds + MORE_ROUNDS, figures.skipped)
    for (era, workload), samples in found.items():
        what = {"peer": DOVETAIL.name, "workload": workload, "transport": "http", "era": era}
        figures.add(figure(samples, measure="rate_64", unit="calls/s", **what))
        cpu = [Sample(one.extra["cpu_us"], one.calls, one.seconds) for one in samples]
        figures.add(figure(cpu, measure="cpu", unit="µs of CPU per call", **what))
