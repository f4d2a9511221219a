"""Build the documentation site: collect its pages, convert them to HTML with zensical, and follow every link.

usage: site.py [--publish FOLDER]

Writes results/site/html. Fails on a warning of zensical, a broken link, or a page that loads something from another
host. The guides are those of docs/; the reference is made of the docstrings. Each page is also there as Markdown, and
`llms.txt` lists them.

`--publish` copies the site to FOLDER, which has one folder for each version: `versions.json` lists them for the
version menu, and `index.html` redirects to the newest one.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "results" / "site"
PICTURES = ROOT / "docs" / "pictures"
"""Pictures of the inspector: smaller copies of what `tests/inspector` writes to results/inspector."""
PAGES = SITE / "pages"
HTML = SITE / "html"
ABOUT = ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")
MODULES = (
    "dovetail",
    "dovetail.auth",
    "dovetail.compat",
    "dovetail.extensions",
    "dovetail.gateway",
    "dovetail.middleware",
    "dovetail.openapi",
    "dovetail.settings",
    "dovetail.stores",
    "dovetail.sync",
    "dovetail.testing",
)
"""The public modules, which the reference covers."""
QUESTIONS = ("Elicit", "ElicitUrl", "Roots", "Sample")
MEDIA = ("Audio", "File", "Image")
INTERNAL = frozenset(
    {f"{kind}.{name}" for kind in QUESTIONS for name in ("read", "request", "rewritten")}
    | {f"{kind}.{name}" for kind in MEDIA for name in ("encoded", "content", "contents")}
    | {"Client.forward", "Client.keep_unknown", "check_choice", "check_kinds"}
)
"""Names for other parts of Dovetail, which the reference leaves out."""
PICTURE = re.compile(r"<!-- picture (\w+): ([^>]*) -->")
"""A place for a picture, and what is to be seen in it."""
SECTION = re.compile(r"^(Args|Raises|Returns|Yields):$")


# --- laying out --------------------------------------------------------------------------------------------------


def lay_out() -> None:
    """Collect the pages of docs/, the repository's own pages and the reference in one folder."""
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for name in ABOUT:
        shutil.copy(ROOT / name, PAGES / name)
    for name in ("inspector.md", "quickstart.md"):
        add_pictures(PAGES / name)
    for page in PAGES.rglob("*.md"):
        page.write_text(within_the_site(page.read_text()))
    (PAGES / "design" / "index.md").write_text(contents_of_design())
    reference = PAGES / "reference"
    reference.mkdir()
    for name in MODULES:
        (reference / f"{name}.md").write_text(module_page(name))
    (reference / "index.md").write_text(contents_of_reference())


def add_pictures(page: Path) -> None:
    """Put each picture where the page speaks of it, if it is in docs/pictures."""

    def shown(found: re.Match[str]) -> str:
        name, words = found.groups()
        taken = (PICTURES / f"{name}.png").is_file()
        return f"![{words}](pictures/{name}.png)" if taken else ""

    page.write_text(PICTURE.sub(shown, page.read_text()))


def within_the_site(text: str) -> str:
    """Links to files outside of docs/ become links to copies next to the pages."""
    for name in ABOUT:
        text = text.replace(f"](../{name}", f"]({name}")
    return text


def title_of(page: Path) -> str:
    return page.read_text().partition("\n")[0].removeprefix("# ")


def contents_of_design() -> str:
    pages = sorted((PAGES / "design").glob("*.md"))
    lines = [f"- [{title_of(page)}]({page.name})" for page in pages if page.name != "index.md"]
    return "# Design\n\nHow it is built, and why so.\n\n" + "\n".join(lines) + "\n"


def contents_of_reference() -> str:
    lines = ["# Reference", "", "Every public name, made from the docstrings.", ""]
    for name in MODULES:
        module = importlib.import_module(name)
        links = ", ".join(f"[`{one}`]({name}.md#{anchor(one)})" for one in public(module))
        lines += [f"## [`{name}`]({name}.md)", "", links, ""]
    return "\n".join(lines)


# --- the reference -----------------------------------------------------------------------------------------------


def public(module: Any) -> list[str]:
    named = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", "").startswith(f"{module.__name__}")
        and not isinstance(value, types.ModuleType | typing.TypeVar | typing.ParamSpec)
    ]
    return sorted(name for name in named if not name.startswith("_") and name not in INTERNAL)


def anchor(name: str) -> str:
    return name.lower()


def module_page(name: str) -> str:
    module = importlib.import_module(name)
    lines = [f"# {name}", "", *described(module.__doc__ or "")]
    for one in public(module):
        lines += entry(one, getattr(module, one), f"{name}.{one}")
    return "\n".join(lines) + "\n"


def entry(name: str, value: Any, whole: str) -> Iterator[str]:
    yield from ("", f"## {name} {{#{anchor(name)}}}", "")
    if inspect.isclass(value):
        yield from signature(whole, value)
        yield from described(own_doc(value))
        yield from option_table(name, value)
        for attribute, member in members(value):
            yield from ("", f"### {name}.{attribute} {{#{anchor(name)}.{anchor(attribute)}}}", "")
            if not isinstance(member, property):
                member = (
                    [member, *typing.get_overloads(member)] if inspect.isfunction(member) else [member]
                )[-1]
                yield from signature(attribute, member)
            yield from described(inspect.getdoc(getattr(value, attribute)) or "")
            if not isinstance(member, property):
                yield from option_table(attribute, member)
    elif callable(value):
        yield from signature(whole, value)
        yield from described(inspect.getdoc(value) or "")
        yield from option_table(name, value)
    else:
        yield f"`{value!r}`"


def own_doc(kind: type) -> str:
    """Return the docstring of a class, unless it is a generated one of a dataclass or Struct."""
    text = kind.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{kind.__name__}(") else inspect.cleandoc(text)


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The documented members of a class, without those of a base class that has its own entry."""
    elsewhere = {
        name for base in kind.__mro__[1:] if base.__qualname__ in described_classes() for name in vars(base)
    }
    for name, member in sorted(inspect.getmembers(kind)):
        mine = getattr(member, "__module__", None) or getattr(getattr(member, "fget", None), "__module__", "")
        if name.startswith("_") or not (mine or "").startswith("dovetail"):
            continue
        inherited = name in elsewhere and name not in vars(kind)
        documented = callable(member) or isinstance(member, property)
        if (
            not inherited
            and documented
            and inspect.getdoc(member)
            and f"{kind.__name__}.{name}" not in INTERNAL
        ):
            yield name, member


@functools.cache
def described_classes() -> frozenset[str]:
    return frozenset(name for module in MODULES for name in public(importlib.import_module(module)))


def option_table(name: str, value: Callable[..., Any]) -> Iterator[str]:
    """The options of a class, or of a method that takes them as ``**options``, as a table."""
    known = option_kinds()
    if inspect.isclass(value):
        kind = known.get(f"{name}Options") or known.get(name)
    else:
        unpacked = re.search(r"Unpack\[(?:\w+\.)*(\w+)\]", str(inspect.signature(value)))
        kind = known.get(unpacked[1]) if unpacked else None
    if kind is not None:
        from configuration import options_of, table

        yield from ("", *table(options_of(kind)), "")


@functools.cache
def option_kinds() -> dict[str, type[Any]]:
    """The classes of the configuration reference, by name."""
    from configuration import sections

    return {kind.__name__: kind for _, kinds in sections() for kind in kinds}


def signature(name: str, value: Callable[..., Any]) -> Iterator[str]:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return
    shown = list(laid([one for one in found.parameters.values() if one.name != "self"]))
    nothing = inspect.isclass(value) or found.return_annotation is found.empty
    back = "" if nothing else f" -> {text_of(found.return_annotation)}"
    name = f"async {name}" if inspect.iscoroutinefunction(value) else name
    whole = f"{name}({', '.join(shown)}){back}"
    if len(whole) > 100:
        whole = f"{name}(\n{''.join(f'    {one},{chr(10)}' for one in shown)}){back}"
    yield from ("```py", whole, "```", "")


def laid(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Each parameter as it is written in code, with the star before those that have to be named."""
    starred = False
    for one in parameters:
        starred = starred or one.kind is one.VAR_POSITIONAL
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        typed = "" if one.annotation is one.empty else f": {text_of(one.annotation)}"
        equals = " = " if typed else "="
        yield f"{stars}{one.name}{typed}" + (
            "" if one.default is one.empty else equals + default_of(one.default)
        )


def default_of(value: Any) -> str:
    """A default as it is written in code; a long one is an ellipsis."""
    if isinstance(value, Mapping):
        value = dict(value)
    text = getattr(value, "__qualname__", repr(value))
    return "…" if text.startswith("<") or len(text) > 60 else text


def text_of(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:typing|collections\.abc|dovetail(?:\.\w+)+)\.(?=\w)", "", text)


def described(doc: str) -> Iterator[str]:
    """A docstring as Markdown: the sections of arguments and errors become lists."""
    listing = code = False
    for line in doc.splitlines():
        if code or line.startswith("```"):
            code = code != line.startswith("```")
            yield line
        elif SECTION.match(line):
            listing = True
            yield from ("", f"**{line[:-1]}**", "")
        elif listing and re.match(r"    \S", line):
            name, colon, rest = line.strip().partition(": ")
            yield f"- `{name}`: {rest}" if colon and " " not in name else f"- {line.strip()}"
        elif listing and line.startswith("     "):
            yield f"  {line.strip()}"
        else:
            listing = listing and not line.strip()
            yield line.replace("``", "`")


# --- following links ---------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif "src" in found:
            self.loads.append(found["src"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(found.get("href", ""))


def faults() -> Iterator[str]:
    pages = {path: Page(path.read_text()) for path in HTML.rglob("*.html")}
    for path, page in pages.items():
        where = path.relative_to(HTML).as_posix()
        for load in page.loads:
            if urlsplit(load).netloc:
                yield f"{where} loads {load}"
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            root = HTML if parts.path.startswith("/") else path.parent
            target = (root / unquote(parts.path).lstrip("/")).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{where} links to {link}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{where} links to {link}, which has no such place"


# --- Markdown for models, and versions ---------------------------------------------------------------------------


def add_markdown() -> None:
    """Copy each page to the site as Markdown, and list the pages in `llms.txt`."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    for page in PAGES.rglob("*.md"):
        shutil.copy(page, HTML / page.relative_to(PAGES))
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    (HTML / "llms.txt").write_text("\n".join([*lines, *listed(project["nav"])]) + "\n")


def listed(entries: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of `llms.txt`: a list item for each page, a heading for each section of the navigation."""
    pages = {name: target for entry in entries for name, target in entry.items() if isinstance(target, str)}
    yield ""
    yield from (f"- [{name}]({target})" for name, target in pages.items())
    for entry in entries:
        for name, target in entry.items():
            if not isinstance(target, str):
                yield from ("", f"## {name}", *listed(target))


def publish(folder: Path, version: str) -> None:
    """Add the built site to a folder of versions; a site of the same version is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    target, index = folder / version, folder / "versions.json"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(HTML, target)
    known = json.loads(index.read_text()) if index.exists() else []
    names = [version, *(one["version"] for one in known if one["version"] != version)]
    entries = [{"version": name, "title": name, "aliases": ["latest"] * (name == version)} for name in names]
    index.write_text(json.dumps(entries, indent=2) + "\n")
    (folder / "index.html").write_text(
        f'<!doctype html><title>Dovetail</title><meta http-equiv="refresh" content="0; url={version}/index.html">\n'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument(
        "--publish", type=Path, metavar="FOLDER", help="a folder with one site for each version"
    )
    options = parser.parse_args()
    lay_out()
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run(
        [str(zensical), "build", "--strict", "--clean", "-f", str(ROOT / "zensical.toml")],
        cwd=ROOT,
        check=False,
    )
    if built.returncode:
        return built.returncode
    add_markdown()
    wrong = sorted(set(faults()))
    print(*wrong, sep="\n")
    count = sum(1 for _ in HTML.rglob("*.html"))
    print(f"{count} pages in {HTML.relative_to(ROOT)}, {len(wrong)} links or loads that are wrong")
    if wrong:
        return 1
    if options.publish is not None:
        publish(options.publish, importlib.import_module("dovetail.version").__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
