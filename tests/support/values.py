"""Model values for property tests, each valid in the revision it is made for.

Every function takes the revision's number, 1 (2024-11-05) to 5 (2026-07-28), and returns a strategy that uses
only members that revision knows. What a codec fills in (``resultType``, caching, the request metadata of
2026-07-28) is left absent.
"""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import UNSET, Raw

from dovetail import model as m

Strategy = SearchStrategy[Any]
Maker = Callable[[int], Strategy]

# --- plain data

words = st.text(max_size=12)
names = st.from_regex(r"[A-Za-z0-9_.-]{1,16}", fullmatch=True)
uris = names.map(lambda name: f"test://host/{name}")
integers = st.integers(-(2**53), 2**53)
numbers = integers | st.floats(allow_nan=False, allow_infinity=False)
fractions = st.floats(0, 1) | st.integers(0, 1)
milliseconds = st.integers(0, 2**31)
moments = st.datetimes().map(lambda moment: moment.replace(microsecond=0).isoformat() + "Z")
base64_texts = st.binary(max_size=12).map(lambda data: base64.b64encode(data).decode())
json_values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(words, json_values, max_size=3)
ids = integers | words
vendor_keys = names.map(lambda name: f"com.example/{name}")
metas = st.dictionaries(vendor_keys, json_values, max_size=2)


def raw(strategy: Strategy) -> Strategy:
    return strategy.map(lambda value: Raw(msgspec.json.encode(value)))


def maybe(strategy: Strategy, revision: int = 5, *, since: int = 1, until: int = 5) -> Strategy:
    """Absent, or a value if ``revision`` knows the member."""
    return st.just(UNSET) | strategy if since <= revision <= until else st.just(UNSET)


def lists(strategy: Strategy, most: int = 3) -> Strategy:
    return st.lists(strategy, max_size=most)


# --- shared pieces


def meta(r: int) -> Strategy:
    return maybe(metas)


def definition_meta(r: int) -> Strategy:
    return maybe(metas, r, since=3)


def annotations(r: int) -> Strategy:
    known: dict[str, Strategy] = {
        "audience": st.lists(st.sampled_from(["user", "assistant"]), unique=True),
        "priority": fractions,
        "com.example/unknown": json_values,
    }
    if r >= 3:
        known["lastModified"] = moments
    return maybe(st.fixed_dictionaries({}, optional=known))


def icons(r: int) -> Strategy:
    icon = st.builds(
        m.Icon,
        names.map(lambda name: f"https://example.com/{name}"),
        mime_type=maybe(st.just("image/png")),
        sizes=maybe(lists(st.sampled_from(["48x48", "any"]))),
        theme=maybe(st.sampled_from(["light", "dark"])),
    )
    return maybe(lists(icon, 2), r, since=4)


def implementation(r: int) -> Strategy:
    return st.builds(
        m.Implementation,
        words,
        words,
        title=maybe(words, r, since=3),
        description=maybe(words, r, since=4),
        icons=icons(r),
        website_url=maybe(st.just("https://example.com"), r, since=4),
    )


def metadata(r: int) -> dict[str, Strategy]:
    return {
        "title": maybe(words, r, since=3),
        "description": maybe(words),
        "icons": icons(r),
        "meta": definition_meta(r),
    }


# --- resources and content


def resource_contents(r: int) -> Strategy:
    common: dict[str, Strategy] = {"mime_type": maybe(st.just("text/plain")), "meta": definition_meta(r)}
    return st.builds(m.ResourceContents, uris, text=words, **common) | st.builds(
        m.ResourceContents, uris, blob=base64_texts, **common
    )


def _resource_members(r: int) -> dict[str, Strategy]:
    return {
        "mime_type": maybe(st.just("text/plain")),
        "annotations": annotations(r),
        "size": maybe(st.integers(0, 2**53)),
        **metadata(r),
    }


def resource(r: int) -> Strategy:
    return st.builds(m.Resource, uris, words, **_resource_members(r))


def resource_template(r: int) -> Strategy:
    members = _resource_members(r)
    del members["size"]
    return st.builds(m.ResourceTemplate, st.just("test://host/{name}"), words, **members)


def _block_members(r: int) -> dict[str, Strategy]:
    return {"annotations": annotations(r), "meta": definition_meta(r)}


def text_content(r: int) -> Strategy:
    return st.builds(m.TextContent, words, **_block_members(r))


def image_content(r: int) -> Strategy:
    return st.builds(m.ImageContent, base64_texts, st.just("image/png"), **_block_members(r))


def audio_content(r: int) -> Strategy:
    return st.builds(m.AudioContent, base64_texts, st.just("audio/wav"), **_block_members(r))


def content_block(r: int) -> Strategy:
    known = [
        text_content(r),
        image_content(r),
        st.builds(m.EmbeddedResource, resource_contents(r), **_block_members(r)),
    ]
    if r >= 2:
        known.append(audio_content(r))
    if r >= 3:
        known.append(st.builds(m.ResourceLink, uris, words, **_resource_members(r)))
    return st.one_of(known)


# --- tools


def _object_schema(r: int) -> Strategy:
    leaf = st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer"])}, optional={"description": words}
    )
    optional: dict[str, Strategy] = {
        "properties": st.dictionaries(names, leaf, max_size=3),
        "required": st.lists(names, unique=True, max_size=2),
        "additionalProperties": st.booleans(),
    }
    if r >= 4:
        optional["$schema"] = st.just("https://json-schema.org/draft/2020-12/schema")
    return st.fixed_dictionaries({"type": st.just("object")}, optional=optional)


def _output_schema(r: int) -> Strategy:
    if r < 5:
        return _object_schema(r)
    return _object_schema(r) | st.fixed_dictionaries({"type": st.sampled_from(["string", "array", "null"])})


def tool(r: int) -> Strategy:
    hints = st.fixed_dictionaries(
        {},
        optional={"title": words, "readOnlyHint": st.booleans(), "com.example/cost": json_values},
    )
    execution = st.builds(
        m.ToolExecution, task_support=maybe(st.sampled_from(["forbidden", "optional", "required"]))
    )
    return st.builds(
        m.Tool,
        names,
        _object_schema(r),
        output_schema=maybe(_output_schema(r), r, since=3),
        annotations=maybe(hints, r, since=2),
        execution=maybe(execution, r, since=4, until=4),
        **metadata(r),
    )


def _structured(r: int) -> Strategy:
    return maybe(json_values if r >= 5 else json_objects, r, since=3)


def call_tool_result(r: int) -> Strategy:
    return st.builds(
        m.CallToolResult,
        lists(content_block(r)),
        structured_content=_structured(r),
        is_error=maybe(st.booleans()),
        meta=meta(r),
    )


def _task_metadata(r: int) -> Strategy:
    return maybe(st.builds(m.TaskMetadata, ttl=maybe(milliseconds)), r, since=4, until=4)


def answers(r: int) -> dict[str, Strategy]:
    answer = raw(elicit_result(r) | list_roots_result(r) | create_message_result(r))
    return {
        "input_responses": maybe(st.dictionaries(names, answer, max_size=2), r, since=5),
        "request_state": maybe(words, r, since=5),
    }


def call_tool_params(r: int) -> Strategy:
    return st.builds(
        m.CallToolRequestParams,
        names,
        arguments=maybe(raw(json_objects)),
        task=_task_metadata(r),
        meta=meta(r),
        **answers(r),
    )


# --- prompts and completion


def prompt(r: int) -> Strategy:
    argument = st.builds(
        m.PromptArgument,
        names,
        title=maybe(words, r, since=3),
        description=maybe(words),
        required=maybe(st.booleans()),
    )
    return st.builds(m.Prompt, names, arguments=maybe(lists(argument)), **metadata(r))


def get_prompt_params(r: int) -> Strategy:
    values = maybe(st.dictionaries(words, words, max_size=3))
    return st.builds(m.GetPromptRequestParams, names, arguments=values, meta=meta(r), **answers(r))


def get_prompt_result(r: int) -> Strategy:
    message = st.builds(m.PromptMessage, st.sampled_from(["user", "assistant"]), content_block(r))
    return st.builds(m.GetPromptResult, lists(message), description=maybe(words), meta=meta(r))


def complete_params(r: int) -> Strategy:
    reference = st.builds(m.PromptReference, names, title=maybe(words, r, since=3)) | st.builds(
        m.ResourceTemplateReference, uris
    )
    context = st.builds(m.CompletionContext, arguments=maybe(st.dictionaries(words, words, max_size=2)))
    return st.builds(
        m.CompleteRequestParams,
        reference,
        st.builds(m.CompletionArgument, words, words),
        context=maybe(context, r, since=3),
        meta=meta(r),
    )


def complete_result(r: int) -> Strategy:
    completion = st.builds(
        m.Completion, lists(words), total=maybe(st.integers(0, 2**31)), has_more=maybe(st.booleans())
    )
    return st.builds(m.CompleteResult, completion, meta=meta(r))


# --- sampling, elicitation, roots


def sampling_content(r: int) -> Strategy:
    known = [text_content(r), image_content(r)]
    if r >= 2:
        known.append(audio_content(r))
    if r < 4:
        return st.one_of(known)
    known.append(st.builds(m.ToolUseContent, words, names, json_objects, meta=definition_meta(r)))
    known.append(
        st.builds(
            m.ToolResultContent,
            words,
            lists(content_block(r), 2),
            structured_content=_structured(r),
            is_error=maybe(st.booleans()),
            meta=definition_meta(r),
        )
    )
    return st.one_of(known) | lists(st.one_of(known), 2)


def sampling_message(r: int) -> Strategy:
    roles = st.sampled_from(["user", "assistant"])
    return st.builds(m.SamplingMessage, roles, sampling_content(r), meta=maybe(metas, r, since=4))


def create_message_params(r: int) -> Strategy:
    preferences = st.builds(
        m.ModelPreferences,
        hints=maybe(lists(st.builds(m.ModelHint, name=maybe(words)), 2)),
        cost_priority=maybe(fractions),
        speed_priority=maybe(fractions),
        intelligence_priority=maybe(fractions),
    )
    choice = st.builds(m.ToolChoice, mode=maybe(st.sampled_from(["auto", "required", "none"])))
    return st.builds(
        m.CreateMessageRequestParams,
        lists(sampling_message(r), 2),
        st.integers(1, 2**31),
        model_preferences=maybe(preferences),
        system_prompt=maybe(words),
        include_context=maybe(st.sampled_from(["none", "thisServer", "allServers"])),
        temperature=maybe(fractions),
        stop_sequences=maybe(lists(words)),
        metadata=maybe(json_objects),
        tools=maybe(lists(tool(r), 1), r, since=4),
        tool_choice=maybe(choice, r, since=4),
        task=_task_metadata(r),
        meta=maybe(metas, r, until=4),
    )


def create_message_result(r: int) -> Strategy:
    return st.builds(
        m.CreateMessageResult,
        st.just("assistant"),
        sampling_content(r),
        names,
        stop_reason=maybe(st.sampled_from(["endTurn", "maxTokens", "provider-own"])),
        meta=maybe(metas, r, until=4),
    )


def form_field(r: int) -> Strategy:
    """One field of a form, as the plain dict that travels."""
    told = {"title": words, "description": words}
    since_4 = {"default": words} if r >= 4 else {}
    choices = st.lists(names, min_size=1, max_size=3)
    fields = [
        st.fixed_dictionaries(
            {"type": st.just("string")}, optional={**told, "minLength": st.just(0), **since_4}
        ),
        st.fixed_dictionaries({"type": st.sampled_from(["number", "integer"])}, optional=told),
        st.fixed_dictionaries({"type": st.just("boolean")}, optional={**told, "default": st.booleans()}),
        st.fixed_dictionaries({"type": st.just("string"), "enum": choices}, optional={"enumNames": choices}),
    ]
    if r >= 4:
        options = st.lists(st.fixed_dictionaries({"const": names, "title": words}), min_size=1, max_size=3)
        items = st.fixed_dictionaries({"type": st.just("string"), "enum": choices}) | st.fixed_dictionaries(
            {"anyOf": options}
        )
        fields.append(st.fixed_dictionaries({"type": st.just("string"), "oneOf": options}, optional=told))
        fields.append(st.fixed_dictionaries({"type": st.just("array"), "items": items}, optional=told))
    return st.one_of(fields)


def elicit_params(r: int) -> Strategy:
    form = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(names, form_field(r), max_size=3)},
        optional={"required": st.lists(names, unique=True, max_size=2)},
    )
    common: dict[str, Strategy] = {"task": _task_metadata(r), "meta": maybe(metas, r, until=4)}
    asked = st.builds(
        m.ElicitRequestParams,
        words,
        requested_schema=form,
        mode=maybe(st.just("form"), r, since=4),
        **common,
    )
    if r < 4:
        return asked
    return asked | st.builds(
        m.ElicitRequestParams,
        words,
        mode=st.just("url"),
        url=st.just("https://example.com/consent"),
        elicitation_id=words if r == 4 else st.just(UNSET),
        **common,
    )


def elicit_result(r: int) -> Strategy:
    values = words | numbers | st.booleans()
    if r >= 4:
        values = values | lists(words)
    return st.builds(
        m.ElicitResult,
        st.sampled_from(["accept", "decline", "cancel"]),
        content=maybe(st.dictionaries(words, values, max_size=3)),
        meta=maybe(metas, r, until=4),
    )


def list_roots_result(r: int) -> Strategy:
    root = st.builds(
        m.Root,
        names.map(lambda name: f"file:///{name}"),
        name=maybe(words),
        meta=definition_meta(r),
    )
    return st.builds(m.ListRootsResult, lists(root), meta=maybe(metas, r, until=4))


def input_requests(r: int) -> Strategy:
    question = (
        st.builds(m.ElicitRequest, elicit_params(r))
        | st.builds(m.CreateMessageRequest, create_message_params(r))
        | st.builds(m.ListRootsRequest)
    )
    return st.dictionaries(names, question, max_size=2)


def input_required_result(r: int) -> Strategy:
    return st.builds(
        m.InputRequiredResult, input_requests=input_requests(r), request_state=maybe(words), meta=meta(r)
    ) | st.builds(m.InputRequiredResult, request_state=words, meta=meta(r))


# --- life cycle, events, tasks


def client_capabilities(r: int) -> Strategy:
    changing = st.fixed_dictionaries({}, optional={"listChanged": st.booleans()})
    declared: dict[str, Strategy] = {
        "experimental": st.dictionaries(names, json_objects, max_size=2),
        "roots": st.just({}) if r == 5 else changing,
        "sampling": st.just({}) if r < 4 else st.sampled_from([{}, {"tools": {}}, {"context": {}}]),
        "com.example.unknown": json_objects,
    }
    if r >= 3:
        declared["elicitation"] = st.just({}) if r < 4 else st.sampled_from([{}, {"form": {}, "url": {}}])
    if r == 5:
        declared["extensions"] = st.dictionaries(vendor_keys, json_objects, max_size=2)
    return st.fixed_dictionaries({}, optional=declared)


def server_capabilities(r: int) -> Strategy:
    changing = st.fixed_dictionaries({}, optional={"listChanged": st.booleans()})
    declared: dict[str, Strategy] = {
        "experimental": st.dictionaries(names, json_objects, max_size=2),
        "tools": changing,
        "prompts": changing,
        "resources": st.fixed_dictionaries(
            {}, optional={"listChanged": st.booleans(), "subscribe": st.booleans()}
        ),
        "logging": st.just({}),
        "com.example.unknown": json_objects,
    }
    if r >= 2:
        declared["completions"] = st.just({})
    if r == 5:
        declared["extensions"] = st.dictionaries(vendor_keys, json_objects, max_size=2)
    return st.fixed_dictionaries({}, optional=declared)


def initialize_params(r: int) -> Strategy:
    return st.builds(
        m.InitializeRequestParams, words, client_capabilities(r), implementation(r), meta=meta(r)
    )


def initialize_result(r: int) -> Strategy:
    return st.builds(
        m.InitializeResult,
        words,
        server_capabilities(r),
        implementation(r),
        instructions=maybe(words),
        meta=meta(r),
    )


def discover_result(r: int) -> Strategy:
    return st.builds(
        m.DiscoverResult, lists(words), server_capabilities(r), instructions=maybe(words), meta=meta(r)
    )


levels = st.sampled_from(["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"])


def progress_params(r: int) -> Strategy:
    return st.builds(
        m.ProgressNotificationParams,
        ids,
        numbers,
        total=maybe(numbers),
        message=maybe(words, r, since=2),
        meta=meta(r),
    )


def log_params(r: int) -> Strategy:
    return st.builds(
        m.LoggingMessageNotificationParams, levels, json_values, logger=maybe(words), meta=meta(r)
    )


def cancelled_params(r: int) -> Strategy:
    return st.builds(m.CancelledNotificationParams, ids, reason=maybe(words), meta=meta(r))


def subscription_filter(r: int) -> Strategy:
    return st.builds(
        m.SubscriptionFilter,
        tools_list_changed=maybe(st.booleans()),
        prompts_list_changed=maybe(st.booleans()),
        resources_list_changed=maybe(st.booleans()),
        resource_subscriptions=maybe(lists(uris)),
    )


statuses = st.sampled_from(["working", "input_required", "completed", "failed", "cancelled"])


def task(r: int, kind: type[m.Task] = m.Task, carrier: Strategy | None = None) -> Strategy:
    return st.builds(
        kind,
        words,
        statuses,
        moments,
        moments,
        st.none() | milliseconds,
        poll_interval=maybe(milliseconds),
        status_message=maybe(words),
        meta=st.just(UNSET) if carrier is None else carrier,
    )


def extension_create_task_result(r: int) -> Strategy:
    return st.builds(
        m.ExtensionCreateTaskResult, words, statuses, moments, moments, st.none() | milliseconds, meta=meta(r)
    )


def detailed_task(r: int) -> Strategy:
    common = (words, moments, moments, st.none() | milliseconds)

    def of(status: str, **members: Strategy) -> Strategy:
        built = st.tuples(*common, st.fixed_dictionaries(members))
        return built.map(lambda row: m.DetailedTask(row[0], status, *row[1:4], **row[4]))

    return st.one_of(
        of("working"),
        of("cancelled"),
        of("input_required", input_requests=input_requests(r)),
        of("completed", result=raw(call_tool_result(r))),
        of("failed", error=st.builds(m.Error, integers, words, data=maybe(json_values))),
    )
