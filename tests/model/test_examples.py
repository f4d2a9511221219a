"""Every official example of 2026-07-28 decodes with our type of its name and comes back as it was.

The repository keeps the shapes of the examples (``scripts/schemas.py``); where the official ones are found next to
it, they are read word by word as well.
"""

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw, Struct
from scripts.schemas import EXAMPLES, KEPT, official

from dovetail import model
from tests.support.schemas import validate_definition

SHAPES: dict[str, Any] = json.loads((KEPT / EXAMPLES).read_bytes())
FILES = {
    f"{path.parent.name}/{path.stem}": path
    for path in (official().parent / "examples/2026-07-28").glob("*/*.json")
}

# Definitions whose params or answer have another name than theirs.
PARAMS: dict[str, type[Struct]] = {
    "DiscoverRequest": model.RequestParams,
    "ListToolsRequest": model.PaginatedRequestParams,
    "ListPromptsRequest": model.PaginatedRequestParams,
    "ListResourcesRequest": model.PaginatedRequestParams,
    "ListResourceTemplatesRequest": model.PaginatedRequestParams,
    "ToolListChangedNotification": model.NotificationParams,
    "PromptListChangedNotification": model.NotificationParams,
    "ResourceListChangedNotification": model.NotificationParams,
}


# Official examples that their own definition forbids: this one says nothing of caching, which is required.
INVALID = ("ReadResourceResultResponse/read-resource-result-response",)


class Frame(Struct, omit_defaults=True):
    jsonrpc: str | msgspec.UnsetType = UNSET
    id: int | str | msgspec.UnsetType = UNSET
    method: str | msgspec.UnsetType = UNSET
    params: Raw | msgspec.UnsetType = UNSET
    result: Raw | msgspec.UnsetType = UNSET
    error: Raw | msgspec.UnsetType = UNSET


def again(data: bytes | Raw, kind: Any) -> Raw:
    return Raw(msgspec.json.encode(msgspec.json.decode(data, type=kind)))


def result_type(name: str, data: Raw) -> type[Struct]:
    if msgspec.json.decode(data, type=model.Result).result_type == "input_required":
        return model.InputRequiredResult
    return getattr(model, name.removesuffix("Response"))


def frame_again(name: str, data: bytes) -> bytes:
    frame = msgspec.json.decode(data, type=Frame)
    if frame.params is not UNSET:
        frame.params = again(frame.params, PARAMS.get(name) or getattr(model, name + "Params"))
    if frame.result is not UNSET:
        frame.result = again(frame.result, result_type(name, frame.result))
    if frame.error is not UNSET:
        frame.error = again(frame.error, model.Error)
    return msgspec.json.encode(frame)


def document_again(name: str, data: bytes) -> bytes:
    members = json.loads(data)
    if "jsonrpc" in members:
        return frame_again(name, data)
    if name == "ListRootsRequest" and "id" in members:
        # The example has the id of older revisions, where this was a separate request; on 2026-07-28 it has none.
        del members["id"]
        assert json.loads(bytes(again(data, model.ListRootsRequest))) == members
        return frame_again(name, data)
    if name.endswith("Error"):
        return bytes(again(data, model.Error))
    if name.endswith("Schema"):  # a field of a form, which travels as it is
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {"field": members}}}
        params = msgspec.convert(form, model.ElicitRequestParams)
        return msgspec.json.encode(params.requested_schema["properties"]["field"])  # type: ignore[index]
    kind = getattr(model, name)
    if isinstance(kind, type) and issubclass(kind, dict):
        return msgspec.json.encode(kind(json.loads(data)))
    return bytes(again(data, kind))


def comes_back(name: str, document: Any) -> bool:
    return json.loads(document_again(name.split("/")[0], json.dumps(document).encode())) == document


@pytest.mark.parametrize("name", SHAPES)
def test_an_example_comes_back_as_it_was(name: str) -> None:
    assert comes_back(name, SHAPES[name])


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in INVALID])
def test_an_example_is_what_its_definition_says(name: str) -> None:
    validate_definition(SHAPES[name], "2026-07-28", name.split("/")[0])


@pytest.mark.skipif(not FILES, reason=f"the official examples are not beside {official()}")
def test_an_official_example_round_trips_unchanged() -> None:
    documents = {name: json.loads(path.read_bytes()) for name, path in FILES.items()}
    assert [name for name, document in documents.items() if not comes_back(name, document)] == []


def test_all_129_examples_are_here() -> None:
    assert len(SHAPES) == 129
