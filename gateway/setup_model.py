"""Set-up's step about the model: finds local servers, offers presets, tests an endpoint before saving it."""

import asyncio
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from trunkline.agent.model import FailureKind, ModelFailure
from trunkline.agent.openai_client import ToolMode
from trunkline.agent.openai_client_sdk import OPENAI_URL, Endpoint
from trunkline.agent.openai_client_setup import EndpointFailed, check_endpoint, list_models
from trunkline.gateway.config import read_secret
from trunkline.gateway.local_model import PRESETS, LocalServer, Preset, probe_local_servers
from trunkline.gateway.program import program
from trunkline.gateway.setup_interview import Interview

SHOWN_MODELS = 8
TRY_SMALL = "try"
OTHER = "other"
LATER = "later"
DEFAULT_KEY = "OPENAI_API_KEY"

_PRESET_URLS = {preset.base_url for preset in PRESETS.values()}
_FAILURES = {
    FailureKind.NOT_CONFIGURED: "There is no model API at {url}. Does it need /v1 at the end?",
    FailureKind.BAD_KEY: "{url} refuses the API key. Copy it again from the provider's page.",
    FailureKind.NO_CREDIT: "The account at {url} has no credit left. Top it up, then try again.",
    FailureKind.RATE_LIMITED: "{url} is getting too many requests. Try again in a minute.",
    FailureKind.UNKNOWN_MODEL: "{url} doesn't have this model. `{program} model list` shows those it has.",
    FailureKind.CONTEXT_TOO_LONG: "The model's context at {url} is too small even for one sentence.",
    FailureKind.REFUSED: "The model at {url} declines to answer anything. Choose another model.",
    FailureKind.DOWN: "Nothing answers at {url}. Is the server running, and is the address right?",
    FailureKind.TIMED_OUT: "{url} takes too long to answer. Try again, or choose a smaller model.",
    FailureKind.BROKEN_STREAM: "{url} breaks off in the middle of an answer. Look at the server's log.",
    FailureKind.BAD_REQUEST: "{url} doesn't take our requests. Is it OpenAI-compatible, with /v1 at the end?",
    FailureKind.EMPTY: "The model at {url} gives empty answers. Choose another model.",
}


@dataclass(frozen=True, slots=True)
class ModelAnswers:
    """What flags say about the model; empty where nothing was said."""

    preset: str = ""
    base_url: str = ""
    name: str = ""
    api_key: str = field(default="", repr=False)

    @property
    def given(self) -> bool:
        return bool(self.preset or self.base_url or self.name or self.api_key)


@dataclass(frozen=True, slots=True)
class _Place:
    """An endpoint that was chosen. `key_variable` names its secret and is empty where none is needed."""

    title: str
    base_url: str
    key_variable: str = DEFAULT_KEY
    models: tuple[str, ...] = ()

    @classmethod
    def of_preset(cls, preset: Preset) -> "_Place":
        return cls(preset.title, preset.base_url, preset.key_variable)


def set_up_model(interview: Interview, answers: ModelAnswers) -> bool:
    """Leaves a model that is set as it is unless another is asked for.

    True when the small local model was chosen, which has yet to be fetched.
    """
    config = interview.config
    current = config.model.name or (config.model.file.stem if config.model.file else "")
    if current and not answers.given:
        interview.say(f"The model is {current}.")
        if not interview.confirm("Choose another model?", default=False):
            return False
    place = _place_of(interview, answers)
    if place is None and answers.preset:
        return False
    while place is None or not _settle(interview, place, answers):
        answers = ModelAnswers()
        chosen = _looked_for(interview)
        if not isinstance(chosen, _Place):
            return chosen == TRY_SMALL
        place = chosen
    return False


def _looked_for(interview: Interview) -> "_Place | str":
    """What the person chooses among the servers that run here and the presets."""
    servers = asyncio.run(probe_local_servers())
    for server in servers:
        interview.say(f"{server.title} is running here with {_listed(server.models)}.")
    if interview.may_ask:
        return _choose(interview, servers)
    _say_how(interview, servers)
    return LATER


def _place_of(interview: Interview, answers: ModelAnswers) -> _Place | None:
    """The endpoint that flags, the file or the environment name; None when none does."""
    config = interview.config
    current = config.model.name or config.model.file
    if answers.preset:
        preset = PRESETS.get(answers.preset.lower())
        if preset is None:
            interview.refuse(f"There is no preset {answers.preset}; there are {', '.join(PRESETS)}.")
            return None
        return _Place.of_preset(preset)
    if answers.base_url:
        return _Place("The endpoint", answers.base_url.rstrip("/"))
    set_already = config.model.base_url or config.secrets.openai_base_url
    if set_already and (answers.given or not current):
        return _Place("The endpoint", set_already)
    if answers.given or (config.secrets.openai_api_key and not current):
        return _Place("OpenAI", OPENAI_URL)
    return None


def _choose(interview: Interview, servers: tuple[LocalServer, ...]) -> _Place | str:
    running = {f"{server.title} (running here)": server for server in servers}
    places: list[tuple[str, _Place | str]] = [
        (title, _Place(server.title, server.base_url, "", server.models)) for title, server in running.items()
    ]
    found = {server.base_url for server in servers}
    places += [
        (preset.title, _Place.of_preset(preset))
        for preset in PRESETS.values()
        if preset.base_url not in found
    ]
    places += [
        ("Another OpenAI-compatible address", OTHER),
        ("A small local model: good for trying the plumbing, not clever", TRY_SMALL),
        ("Later", LATER),
    ]
    titles = [title for title, _ in places]
    answer = interview.choose("Which model shall it use?", titles, 1 if servers else len(places))
    chosen = places[answer - 1][1]
    if chosen == OTHER:
        return _asked_address(interview)
    if chosen == LATER:
        interview.say(f"Set a model any time with `{program()} setup`.")
    return chosen


def _asked_address(interview: Interview) -> _Place | str:
    while address := interview.ask("Address, such as https://example.org/v1").rstrip("/"):
        if urlsplit(address).scheme in ("http", "https") and urlsplit(address).hostname:
            return _Place("The endpoint", address)
        interview.say("Give the whole address, beginning with http:// or https://; empty goes on without.")
    return LATER


def _settle(interview: Interview, place: _Place, answers: ModelAnswers) -> bool:
    """Saves key and model once the endpoint has answered. False when another place should be chosen."""
    held = read_secret(interview.folder, place.key_variable) if place.key_variable else ""
    key = answers.api_key or held
    if interview.may_ask and place.key_variable and not answers.api_key:
        optional = place.base_url not in _PRESET_URLS
        without = "keeps the one that is set" if held else "if it needs none" if optional else ""
        question = f"API key (empty {without})" if without else "API key"
        key = interview.ask(question, secret=True) or held
    while True:
        try:
            place = asyncio.run(_found(place, key, named=bool(answers.name)))
            name = asyncio.run(_tested(interview, place, key, answers.name))
            break
        except EndpointFailed as failed:
            interview.refuse(describe_failure(failed.failure, place.base_url))
            if not interview.may_ask:
                return True
            if failed.failure.kind is FailureKind.BAD_KEY:
                key = interview.ask("API key (empty chooses another model)", secret=True)
                if key:
                    continue
                return False
            return not interview.confirm("Choose again?", default=True)
    if name is None:
        return True
    variable = place.key_variable or DEFAULT_KEY
    if key and key != held:
        interview.save_secrets({variable: key})
    interview.save(
        {
            "model.name": name,
            "model.base_url": place.base_url,
            "model.api_key_env": None if variable == DEFAULT_KEY else variable,
            "model.file": None,
        }
    )
    interview.say(f"The model is {name}; it answered.")
    return True


async def _found(place: _Place, key: str, *, named: bool) -> _Place:
    """The place with its models, and with /v1 at its address where only that has a list.

    A model that is `named` can be asked where no list may be read. Raises EndpointFailed.
    """
    if place.models:
        return place
    failed = None
    try:
        models = await list_models(place.base_url, key)
    except EndpointFailed as error:
        if error.failure.kind is not FailureKind.NOT_CONFIGURED:
            if named:
                return place
            raise
        models, failed = (), error
    if not models and not place.base_url.endswith("/v1"):
        longer = f"{place.base_url}/v1"
        try:
            models = await list_models(longer, key)
        except EndpointFailed as error:
            if error.failure.kind is FailureKind.BAD_KEY:
                raise
        if models:
            return replace(place, base_url=longer, models=models)
    if failed is not None:
        raise failed
    return replace(place, models=models)


async def _tested(interview: Interview, place: _Place, key: str, name: str) -> str | None:
    """The model's name once it has answered; None when there is none to take. Raises EndpointFailed."""
    models = place.models
    if not name and len(models) == 1:
        name = models[0]
    if not name and not models:
        await _refuse_empty_address(place, key)
    if not name:
        name = _asked_model(interview, place)
    if not name:
        interview.say(f"No model is set: name one with `{program()} setup --model NAME`.")
        return None
    interview.say(f"Asking {name} for a word.")
    check = await check_endpoint(name, place.base_url, key)
    if not check.answers:
        raise EndpointFailed(check.failure or ModelFailure(FailureKind.EMPTY))
    if check.tools is ToolMode.NONE:
        interview.say(
            f"{name} answers but can't call tools, so it will remember and look up nothing by itself."
        )
    return name


async def _refuse_empty_address(place: _Place, key: str) -> None:
    """Raises EndpointFailed where there is neither a list nor anything that would answer."""
    check = await check_endpoint("any", place.base_url, key)
    failed = check.failure
    if failed is None:
        return
    # A server of files answers 405 or 501 to a POST, whatever the path.
    takes_no_posts = failed.detail.startswith(("HTTP 405", "HTTP 501"))
    if failed.kind is FailureKind.NOT_CONFIGURED or takes_no_posts:
        raise EndpointFailed(ModelFailure(FailureKind.NOT_CONFIGURED, failed.detail))


def _asked_model(interview: Interview, place: _Place) -> str:
    """A model of the list by its number or name, the first by default; any name where there is no list."""
    if not (interview.may_ask and place.models):
        interview.say(f"{place.title} has {_listed(place.models)}.")
        return interview.ask("Model")
    for number, model in enumerate(place.models[:SHOWN_MODELS], 1):
        interview.say(f"  {number}. {model}")
    if (more := len(place.models) - SHOWN_MODELS) > 0:
        interview.say(f"  and {more} more")
    answer = interview.ask("Model, by number or name", "1")
    if answer.isdecimal() and 1 <= int(answer) <= len(place.models):
        return place.models[int(answer) - 1]
    return answer


def describe_failure(failure: ModelFailure, base_url: str) -> str:
    """What went wrong at that address and what the operator can do, with the endpoint's own words."""
    sentence = _FAILURES[failure.kind].format(url=base_url, program=program())
    if failure.kind is FailureKind.DOWN and not Endpoint(base_url).is_loopback:
        sentence = f"Nothing answers at {base_url}. Check the address and this machine's internet connection."
    # Which class of the network's failed says nothing to a person.
    tells = failure.detail and not failure.detail.startswith("connection:")
    return f"{sentence} ({failure.detail})" if tells else sentence


def _say_how(interview: Interview, servers: tuple[LocalServer, ...]) -> None:
    if servers and servers[0].models:
        server = servers[0]
        command = f"{program()} setup --base-url {server.base_url} --model {server.models[0]}"
    else:
        command = f"{program()} setup --preset openai --model NAME --api-key KEY"
    interview.say(
        f"No model is set, so messages are kept and answered with how to set one: `{command}`."
        f" `{program()} model try` fetches a small one."
    )


def _listed(models: tuple[str, ...]) -> str:
    if not models:
        return "no models"
    more = len(models) - SHOWN_MODELS
    return ", ".join(models[:SHOWN_MODELS]) + (f" and {more} more" if more > 0 else "")
