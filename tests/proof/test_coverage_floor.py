"""The floor of coverage is held for every package, and none is forgotten."""

from pathlib import Path

from scripts.coverage_floor import FLOOR, INNER, PACKAGE, package_of, verdict


def test_a_package_below_its_floor_without_one_or_gone_is_named() -> None:
    assert verdict({"a": 90.0}, {"a": 90.0}) == []
    assert verdict({"a": 89.94, "b": 1.0}, {"a": 90.0, "c": 2.0}) == [
        "a: 89.9 % is below 90.0 %",
        "b has no floor yet: it has 1.0 %",
        "c has a floor and was not measured",
    ]


def test_every_package_has_a_floor() -> None:
    found = {package_of(path) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
    assert found == set(FLOOR)


def test_the_tests_of_inner_rooms_alone_reach_no_more_than_all_of_them() -> None:
    assert all(share <= FLOOR[name] for name, share in INNER.items())


def test_a_module_belongs_to_the_outermost_package() -> None:
    assert package_of(PACKAGE / "errors.py") == "dovetail"
    assert package_of(Path(PACKAGE / "transports" / "http" / "client" / "pool.py")) == "dovetail.transports"
