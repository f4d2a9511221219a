"""Files of clients as people write them: after an edit every byte outside of the entry is the same."""

import json
import sys
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import DovetailError
from dovetail.cli import config_files, jsonc
from dovetail.cli.config_files import ConfigFileError
from dovetail.cli.known_clients import CLIENTS

ENTRY: dict[str, Any] = {"command": "py", "args": ["a b", 'c"d', "é\\"], "env": {"UNITS": "m"}}
CURSOR, CODEX, GOOSE = CLIENTS["cursor"], CLIENTS["codex"], CLIENTS["goose"]


def json_entry(indent: str, unit: str) -> str:
    lines = json.dumps(ENTRY, indent=unit, ensure_ascii=False).split("\n")
    return ("\n" + indent).join(lines)


# What is there before, and after; NEW stands for the lines of the new entry.
JSON = {
    "a comment behind the last member stays there": (
        '{\n  "mcpServers": {\n    "a": {"command": "x"} // mine\n    // not yet: "b"\n  }\n}\n',
        '{\n  "mcpServers": {\n    "a": {"command": "x"}, // mine\n    "new": NEW\n    // not yet: "b"\n  }\n}\n',
        ("    ", "  "),
    ),
    "a trailing comma stays the style": (
        '{\n\t"mcpServers": {\n\t\t"a": {"command": "x"}, /* c */\n\t},\n}\n',
        '{\n\t"mcpServers": {\n\t\t"a": {"command": "x"}, /* c */\n\t\t"new": NEW,\n\t},\n}\n',
        ("\t\t", "\t"),
    ),
    "a comment before a comma": (
        '{\n  "mcpServers": {\n    "a": {} /* x */ , // y\n  }\n}\n',
        '{\n  "mcpServers": {\n    "a": {} /* x */ , // y\n    "new": NEW,\n  }\n}\n',
        ("    ", "  "),
    ),
    "a comment at the top does not set the indentation": (
        '/*\n * mine\n */\n{\n    "mcpServers": {}\n}',
        '/*\n * mine\n */\n{\n    "mcpServers": {\n        "new": NEW\n    }\n}',
        ("        ", "    "),
    ),
    "an object with nothing but a comment": (
        '{\n  "mcpServers": {\n    // none yet\n  }\n}\n',
        '{\n  "mcpServers": {\n    // none yet\n    "new": NEW\n  }\n}\n',
        ("    ", "  "),
    ),
    "the section is missing": (
        '{\n  "theme": "dark" // keep\n}\n',
        '{\n  "theme": "dark", // keep\n  "mcpServers": {\n    "new": NEW\n  }\n}\n',
        ("    ", "  "),
    ),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("case", JSON)
def test_json_keeps_everything_else(case: str, mark: str, newline: str) -> None:
    before, after, indentation = JSON[case]
    after = after.replace("NEW", json_entry(*indentation))
    before, after = (mark + text.replace("\n", newline) for text in (before, after))
    assert config_files.put(CURSOR, before, "new", ENTRY) == after
    assert config_files.put(CURSOR, after, "new", ENTRY) == after
    removed = config_files.take(CURSOR, after, "new")
    if case == "the section is missing":
        assert jsonc.read(removed.removeprefix(mark)) == {"theme": "dark", "mcpServers": {}}
    else:
        assert removed == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"mcpServers":{"a":{"command":"x"}}}', '{"mcpServers":{"a":{"command":"x"}, "new": NEW}}'),
        ('{"mcpServers": {"a": {},}}', '{"mcpServers": {"a": {}, "new": NEW,}}'),
    ],
)
def test_json_in_one_line_stays_in_one(before: str, after: str) -> None:
    after = after.replace("NEW", json.dumps(ENTRY, ensure_ascii=False))
    assert config_files.put(CURSOR, before, "new", ENTRY) == after
    assert config_files.take(CURSOR, after, "new") == before


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_json_member_goes_with_its_comment_and_nothing_else(name: str) -> None:
    lines = {
        "a": '    "a": {"x": 1}, // of a\n',
        "b": '    "b": {\n      // inside\n      "x": 2\n    }, /* of b */\n',
        "c": '    "c": {"x": 3} // of c\n',
    }
    head, foot = '// top\n{\n  "mcpServers": {\n    // above a\n', '    // below c\n  },\n  "z": 1, // z\n}\n'
    after = config_files.take(CURSOR, head + "".join(lines.values()) + foot, name)
    rest = "".join(line for key, line in lines.items() if key != name)
    if name == "c":
        rest = rest.replace("}, /* of b */", "} /* of b */")
    assert after == head + rest + foot


def test_a_json_entry_is_replaced_where_it_is() -> None:
    text = '{\n  "mcpServers": {\n    "new": {"command": "old"}, // mine\n    "z": {}\n  }\n}\n'
    assert config_files.put(CURSOR, text, "new", {"command": "y"}) == text.replace(
        '{"command": "old"}', '{\n      "command": "y"\n    }'
    )


@pytest.mark.parametrize("text", ["// mine", "/* mine */", "// mine\n", "\ufeff// mine", "// mine\r\n"])
def test_json_with_nothing_but_comments_gets_an_object_below_them(text: str) -> None:
    after = config_files.put(CURSOR, text, "new", ENTRY)
    assert after.startswith(text)
    assert config_files.listed(CURSOR, after) == {"new": ENTRY}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"mcpServers": {"new": {}, "new": {}}}', "occurs twice"),
        ('{"mcpServers": {}, "mcpServers": {}}', "occurs twice"),
        ("[]", "does not contain an object"),
        ('{"mcpServers": 3}', "not an object"),
        ('{"a": 1', "line 1 is not JSON"),
    ],
)
def test_json_that_cannot_be_edited_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        config_files.put(CURSOR, text, "new", ENTRY)


TOML = """\
# mine
model = "o"   # the model

  [mcp_servers.a] # the first
  command = 'x'
  args = [
    "[mcp_servers.new]", # not a table
  ]

[profiles."my one"]
model = '''
[mcp_servers.new]
'''

# about the interface
[tui]
a = 1
"""
TOML_NEW = """
[mcp_servers.new]
command = "py"
args = ["a b", "c\\"d", "é\\\\"]
env = {UNITS = "m"}
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_toml_keeps_everything_else(mark: str, newline: str) -> None:
    before, added = mark + TOML.replace("\n", newline), TOML_NEW.replace("\n", newline)
    after = config_files.put(CODEX, before, "new", ENTRY)
    assert after == before + added
    assert config_files.put(CODEX, after, "new", ENTRY) == after
    assert config_files.take(CODEX, after, "new") == before


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_toml_table_is_removed_with_its_subtables_and_comments_stay(newline: str) -> None:
    text = TOML.replace(
        "[tui]",
        '[mcp_servers.new]\ncommand = "old"\n\n[mcp_servers.new.env]\nA = "1"\n\n# about the terminal\n[tui]',
    ).replace("\n", newline)
    assert config_files.take(CODEX, text, "new") == TOML.replace(
        "[tui]", "# about the terminal\n[tui]"
    ).replace("\n", newline)
    replaced = config_files.put(CODEX, text, "new", ENTRY)
    wanted = TOML.replace("[tui]", f"{TOML_NEW.lstrip()}\n# about the terminal\n[tui]")
    assert replaced == wanted.replace("\n", newline)
    apart = TOML + '\n[mcp_servers.new]\ncommand = "x"\n\n[z]\n\n[mcp_servers.new.env]\nA = "1"\n'
    assert config_files.take(CODEX, apart, "new") == TOML + "\n[z]\n"
    first = '  [mcp_servers.a]\n  command = "x"\n\n  [mcp_servers.b]\n'
    assert config_files.take(CODEX, first, "a") == "  [mcp_servers.b]\n"


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers]\na = {command="x"}\nnew = {command="y"} # c\nb.command = "x"\n\n[z]\n',
        'mcp_servers.new.command = "x"\nmcp_servers.a.command="y"\n[tui]\na=1\n',
        "[mcp_servers]\n\n[mcp_servers.'new']\ncommand='x'",
    ],
)
def test_other_forms_of_toml_are_edited(text: str) -> None:
    before = tomllib.loads(text)
    after = config_files.put(CODEX, text, "new", ENTRY)
    assert tomllib.loads(after) == {**before, "mcp_servers": {**before["mcp_servers"], "new": ENTRY}}
    assert "new" not in config_files.listed(CODEX, config_files.take(CODEX, after, "new"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('mcp_servers = { a = {command="x"} }\n', "Dovetail cannot edit"),
        ("[[mcp_servers]]\na = 1\n", "not an object"),
        ("a = [" + "[" * 5000, "nests too deeply"),
        ("a = 1\na = 2\n", "line 2"),
    ],
)
def test_toml_that_cannot_be_edited_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        config_files.put(CODEX, text, "new", ENTRY)


def test_an_array_of_tables_in_several_places_stays_where_it_is() -> None:
    text = "[[hooks]]\nk = 1\n\n[mcp_servers.a]\ncommand = 'x'\n\n[[hooks]]\nk = 2\n"
    assert config_files.put(CODEX, text, "new", ENTRY) == text + TOML_NEW
    for edit in (
        lambda: config_files.take(CODEX, text, "a"),
        lambda: config_files.put(CODEX, text, "a", ENTRY),
    ):
        with pytest.raises(ValueError, match="array of tables"):
            edit()


def test_an_entry_of_an_inline_table_is_removed() -> None:
    text = 'mcp_servers = { a = {command="x"}, new = {command="y"} } # c\n[z]\nq=1\n'
    after = config_files.take(CODEX, text, "new")
    assert tomllib.loads(after) == {"mcp_servers": {"a": {"command": "x"}}, "z": {"q": 1}}
    assert after.endswith(" # c\n[z]\nq=1\n")


YAML = """\
# mine
GOOSE_MODE:   auto    # spaces stay
extensions:  # all of them
    other:
        type: stdio
        args:
        - a
        -   "b"
        long: this text is longer than eighty characters, which some writers would break into two lines of text

        # deeper: belongs to other
    # about the last one
    last: {type: builtin, name: 'last'}
# about the model
GOOSE_MODEL: |
    extensions:
      new: {}
"""
YAML_NEW = """\
    new:
        command: "py"
        args: ["a b", "c\\"d", "é\\\\"]
        env: {"UNITS": "m"}
        name: "new"
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_yaml_keeps_everything_else(mark: str, newline: str) -> None:
    head, foot = YAML.split("# about the model")
    wanted = f"{mark}{head}{YAML_NEW}# about the model{foot}".replace("\n", newline)
    before = mark + YAML.replace("\n", newline)
    after = config_files.put(GOOSE, before, "new", ENTRY)
    assert after == wanted
    assert config_files.put(GOOSE, after, "new", ENTRY) == after
    assert config_files.take(GOOSE, after, "new") == before
    changed = config_files.put(GOOSE, after, "new", {**ENTRY, "command": "other"})
    assert changed == after.replace('"py"', '"other"')


def test_a_yaml_entry_goes_with_the_comments_in_it() -> None:
    begin, end = YAML.index("    other:"), YAML.index("    # about the last")
    assert config_files.take(GOOSE, YAML, "other") == YAML[:begin] + YAML[end:]
    begin, end = YAML.index("    last:"), YAML.index("# about the model")
    assert config_files.take(GOOSE, YAML, "last") == YAML[:begin] + YAML[end:]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "extensions:\n  NEW"),
        ("a: 1", "a: 1\nextensions:\n  NEW"),
        ("a:\n    b: 1\n", "a:\n    b: 1\nextensions:\n    NEW"),
        ("extensions: {} # none\na: 1\n", "extensions: # none\n  NEWa: 1\n"),
        ("extensions:\na: 1\n", "extensions:\n  NEWa: 1\n"),
        ("extensions: # none\n\n# more\na: 1\n", "extensions: # none\n  NEW\n# more\na: 1\n"),
        ("extensions: ~", "extensions:\n  NEW"),
        (
            "extensions:\n  a: |-\n    x\n\n    y\n\nb: 1\n",
            "extensions:\n  a: |-\n    x\n\n    y\n  NEW\nb: 1\n",
        ),
        ("extensions:\n  a:\nb: 1\n", "extensions:\n  a:\n  NEWb: 1\n"),
        ("'extensions':\n  'a': {x:\n   1}\n", "'extensions':\n  'a': {x:\n   1}\n  NEW"),
    ],
)
def test_yaml_in_other_shapes(before: str, after: str) -> None:
    step = "    " if "    b: 1" in before else "  "
    lines = YAML_NEW.replace("        ", "\t").replace("    ", "").replace("\t", step * 2).removeprefix(step)
    after = after.replace("NEW", lines.replace("\n\t", "\n" + step * 2))
    assert config_files.put(GOOSE, before, "new", ENTRY) == after
    removed = config_files.take(GOOSE, after, "new")
    assert "new" not in config_files.listed(GOOSE, removed)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("extensions: {a: {type: x}}\n", "block style"),
        ("{extensions: {}}\n", "block style"),
        ("extensions: [a]\n", "not an object"),
        ("- a\n", "does not contain a mapping"),
        ("a: [\n", "line 2: "),
        ("a: 1\n---\nb: 1\n", "single document"),
        ("a: 1\na: 1\n", "found duplicate key"),
        ("a: 1\n...\n", "Dovetail cannot edit"),
        ("extensions:\n  ? new\n  : {}\n", "does not begin its line"),
        ("a: !mine 1\n", "could not determine a constructor"),
        ("\ta: 1\n", "line 1: "),
    ],
)
def test_yaml_that_cannot_be_edited_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        config_files.put(GOOSE, text, "new", ENTRY)


def test_an_alias_of_an_entry_is_not_left_alone() -> None:
    text = "extensions:\n  a: &x\n    type: stdio\n  b: *x\n"
    with pytest.raises(ConfigFileError, match="Dovetail cannot edit"):
        config_files.take(GOOSE, text, "a")
    assert config_files.take(GOOSE, text, "b") == "extensions:\n  a: &x\n    type: stdio\n"


spaces = st.sampled_from(["", " ", "\n", "\n  ", "\n\n\t", " // c\n", " /* c */ ", "\r\n"])
values = st.sampled_from(['{"command": "x"}', "{}", "1", '"a // b"', "[1, 2]", "null", '{ "a": {}, }'])


@given(data=st.data(), names=st.lists(st.sampled_from("abcd"), unique=True, max_size=4), comma=st.booleans())
def test_any_json_comes_out_with_one_change(data: st.DataObject, names: list[str], comma: bool) -> None:
    def space() -> str:
        return data.draw(spaces)

    members = [f'{space()}"{name}"{space()}:{space()}{data.draw(values)}{space()}' for name in names]
    inner = ",".join(members) + ("," + space() if comma and members else space())
    text = f'{space()}{{{space()}"mcpServers":{space()}{{{inner}}}{space()}}}{space()}'
    before = jsonc.read(text)["mcpServers"]
    after = config_files.put(CURSOR, text, "new", ENTRY)
    assert config_files.listed(CURSOR, after) == {**before, "new": ENTRY}
    assert after.count("// c") == text.count("// c")
    assert after.count("/* c */") == text.count("/* c */")
    for name in names:
        rest = {key: value for key, value in before.items() if key != name}
        assert config_files.listed(CURSOR, config_files.take(CURSOR, text, name)) == rest


@pytest.mark.parametrize(("client", "module"), [(CODEX, "tomlkit"), (GOOSE, "ruamel.yaml")])
def test_without_the_extra_the_error_is_the_install_command(
    client: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DovetailError, match=r"pip install 'dovetail-mcp\[cli\]'") as caught:
        config_files.put(client, "", "new", ENTRY)
    assert "\n" not in str(caught.value)
