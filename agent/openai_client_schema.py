"""Tool calls for models that have none: before any text, a decision under a JSON schema."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trunkline.agent.messages import AssistantMessage, Message, Picture, ToolCall, ToolMessage, UserMessage
from trunkline.agent.model import JsonSchema, ModelRequest, ToolSpec
from trunkline.agent.openai_client_wire import new_call_id

ANSWER = "answer"
DECISION_TOKENS = 2048
_REF_DEPTH = 8
_QUOTED_ENTRY = re.compile(r"\([^()]*: ([^()]*)\)")
_WORD = re.compile(r"[\u3400-\u9fff]{2,}|[^\W\u3400-\u9fff]{4,}")
_NAMED = re.compile(r'\{\s*"tool"\s*:\s*"([^"]{1,64})"')

_INSTRUCTIONS = """
Before you answer you decide one thing: does the last message need one of the tools below, or none?
Reply with one JSON object and nothing else:
{{"tool": "answer"}} when no tool is needed: small talk, questions you can answer from what you know or from \
what was said above, or when the needed tool has already given its result.
{{"tool": NAME, "arguments": {{...}}}} when a tool is needed; fill every argument with real content.

Tools:
{tools}
"""

_NO_TOOL = (
    "How are you today?",
    "What is the capital of Norway?",
    "Do you remember the film with the sinking ship?",
    "Thanks, that was helpful!",
    "Only in this letter, be formal: thank the baker for the cake.",
    "今天天气真不错。",
    "Is seventeen a prime number?",
    "这回可以写长一点：讲讲月亮。",
)
"""Things people say that need no tool, mixed among the tools' own examples."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the model decided: a call, or with None an answer in plain text. `cut`: the call was cut off."""

    call: ToolCall | None
    cut: bool = False


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore")
    tool: str
    arguments: dict[str, Any] | None = None


class NotDecided(Exception):
    """The endpoint takes no schema, or its reply does not keep to it."""


def decision_format(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The `response_format` that leaves a model only the answer or one well-shaped call."""
    choices: list[JsonSchema] = [_choice({"tool": {"const": ANSWER}})]
    choices += [
        _choice({"tool": {"const": tool.name}, "arguments": lean(inlined(tool.parameters))}) for tool in tools
    ]
    schema = {"anyOf": choices}
    return {"type": "json_schema", "json_schema": {"name": "decision", "schema": schema}}


def decision_request(request: ModelRequest) -> ModelRequest:
    """The request that asks for the decision: tools and examples in words, results as text."""
    system = f"{request.system}\n{_INSTRUCTIONS.format(tools=_described(request.tools))}"
    messages = (*_examples(request.tools), *spoken(request.messages))
    return replace(request, system=system, messages=messages, tools=(), max_tokens=DECISION_TOKENS)


def answer_request(request: ModelRequest) -> ModelRequest:
    """The request for the text that follows a decision to answer."""
    return replace(request, messages=spoken(request.messages), tools=())


def read_decision(text: str, *, cut: bool) -> Decision:
    """Reads the reply; arguments stay JSON text, judged by the loop. Raises NotDecided.

    A call that was cut off or spoilt keeps its raw text as arguments, so that it comes back as an error.
    """
    text = text.strip()
    try:
        wire = _Wire.model_validate_json(text)
    except ValidationError:
        named = _NAMED.match(text)
        if named is None or named[1] == ANSWER:
            raise NotDecided from None
        return Decision(ToolCall(new_call_id(), named[1], text), cut)
    if wire.tool == ANSWER:
        return Decision(None)
    arguments = json.dumps(wire.arguments, ensure_ascii=False) if wire.arguments is not None else ""
    return Decision(ToolCall(new_call_id(), wire.tool, arguments), cut)


def repeats_an_example(call: ToolCall, request: ModelRequest) -> bool:
    """Whether a call says what was said in an example, and nobody in the conversation said.

    A small model does so where nothing is to be called: the bicycle of the example would be remembered as
    the person's.
    """
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return False
    texts = [_folded(text) for text in _strings_in(given)]
    heard = _words_of(" ".join(_said_in(message) for message in request.messages))
    for sentence in _example_sentences(request.tools):
        words = _words_of(sentence)
        is_said = len(words) < 2 or 2 * len(words & heard) >= len(words)
        if not is_said and any(_folded(sentence) in text for text in texts):
            return True
    return False


def spoken(messages: Sequence[Message]) -> tuple[Message, ...]:
    """History without tool messages: calls as the decisions they were, results as user text."""
    result: list[Message] = []
    for message in messages:
        match message:
            case AssistantMessage(tool_calls=calls) if calls:
                said = "\n".join([message.text, *(_decided(call.name, call.arguments) for call in calls)])
                result.append(AssistantMessage(said.strip(), interrupted=message.interrupted))
            case ToolMessage():
                note = f"[Result of the tool {message.name}, not written by the person]\n{message.content}"
                _append_user(result, note)
            case UserMessage():
                _append_user(result, message.sent, message.pictures)
            case AssistantMessage():
                result.append(message)
    return tuple(result)


def _append_user(messages: list[Message], text: str, pictures: tuple[Picture, ...] = ()) -> None:
    last = messages[-1] if messages else None
    if isinstance(last, UserMessage):
        text = f"{last.sent}\n\n{text}"
        messages[-1] = UserMessage(text, text, last.pictures + pictures)
    else:
        messages.append(UserMessage(text, text, pictures))


def _decided(name: str, arguments: str) -> str:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        given = arguments
    return json.dumps({"tool": name, "arguments": given}, ensure_ascii=False)


def _described(tools: Sequence[ToolSpec]) -> str:
    lines = []
    for tool in tools:
        schema = json.dumps(lean(inlined(tool.parameters)), ensure_ascii=False)
        lines.append(f"- {tool.name}: {tool.description}\n  arguments: {schema}")
    return "\n".join(lines)


def _examples(tools: Sequence[ToolSpec]) -> list[Message]:
    """Pairs of a remark and the right decision; those without a tool stand between those with one."""
    calls = [(said, _decided(tool.name, given)) for tool in tools for said, given in tool.examples]
    answers = [(said, json.dumps({"tool": ANSWER})) for said in _NO_TOOL]
    mixed: list[tuple[str, str]] = []
    for at in range(max(len(calls), len(answers))):
        mixed += calls[at : at + 1] + answers[at : at + 1]
    shots: list[Message] = []
    for said, decision in mixed:
        shots += [UserMessage(said, said), AssistantMessage(decision)]
    return shots


def _example_sentences(tools: Sequence[ToolSpec]) -> Iterator[str]:
    """What was said in the examples of the tools, what was known there, and what was made of both."""
    for tool in tools:
        for said, given in tool.examples:
            yield from _QUOTED_ENTRY.findall(said)
            yield _QUOTED_ENTRY.sub("", said)
            yield from _strings_in(json.loads(given))


def _strings_in(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _strings_in(child)


def _said_in(message: Message) -> str:
    match message:
        case UserMessage():
            return message.sent
        case AssistantMessage():
            return message.text
        case ToolMessage():
            return message.content


def _words_of(text: str) -> frozenset[str]:
    """Its words of four letters or more, and its pairs of Chinese characters."""
    found: set[str] = set()
    for word in _WORD.findall(_folded(text)):
        is_chinese = "\u3400" <= word[0] <= "\u9fff"
        found |= {word[at : at + 2] for at in range(len(word) - 1)} if is_chinese else {word}
    return frozenset(found)


def _folded(text: str) -> str:
    return text.casefold().strip().rstrip(".!?。！？")


def _choice(properties: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def inlined(schema: JsonSchema) -> JsonSchema:
    """The schema with its `$defs` put where they are referred to: it will stand inside another one."""
    definitions = schema.get("$defs", {})

    def walk(node: object, depth: int) -> Any:
        if isinstance(node, list):
            return [walk(item, depth) for item in node]
        if not isinstance(node, dict):
            return node
        ref = node.get("$ref")
        if isinstance(ref, str):
            target = definitions.get(ref.rpartition("/")[2], {})
            return walk(target, depth + 1) if depth < _REF_DEPTH else {}
        return {key: walk(value, depth) for key, value in node.items() if key != "$defs"}

    found: JsonSchema = walk(schema, 0)
    return found


def lean(schema: JsonSchema) -> JsonSchema:
    """An inlined schema without what a small model stumbles over: titles, defaults, and null where leaving
    the argument out says the same."""
    kept = {key: value for key, value in schema.items() if key not in ("title", "default")}
    properties = kept.get("properties")
    if isinstance(properties, dict):
        required = kept.get("required") or ()
        kept["properties"] = {
            name: lean(value if name in required else _without_null(value))
            if isinstance(value, dict)
            else value
            for name, value in properties.items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = lean(kept[key])
    return kept


def _without_null(schema: JsonSchema) -> JsonSchema:
    choices = [choice for choice in schema.get("anyOf") or () if choice != {"type": "null"}]
    if len(choices) != 1 or not isinstance(choices[0], dict):
        return schema
    return choices[0] | {key: value for key, value in schema.items() if key != "anyOf"}
