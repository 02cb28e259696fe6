"""One model client for several, each of which may answer for the one before; and one for when none is set."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from trunkline.agent.model import (
    FailureKind,
    ModelClient,
    ModelDone,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    TextDelta,
)

PASSED_ON = frozenset(
    {
        FailureKind.BAD_KEY,
        FailureKind.NO_CREDIT,
        FailureKind.RATE_LIMITED,
        FailureKind.UNKNOWN_MODEL,
        FailureKind.DOWN,
        FailureKind.TIMED_OUT,
    }
)
"""Failures that another model may not have. What the request itself causes, it would cause again."""


class NoModel:
    """Stands in while no model is set: every call says so."""

    name = ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ModelFailure(FailureKind.NOT_CONFIGURED)


class FallbackModel:
    """Tries models in order until one answers. Once text was shown, there is no other try."""

    def __init__(self, models: Sequence[ModelClient]) -> None:
        self._models = tuple(models)

    @property
    def name(self) -> str:
        return self._models[0].name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        for place, model in enumerate(self._models):
            is_last = place == len(self._models) - 1
            passed_on = False
            showed_text = False
            async with aclosing(model.stream(request)) as events:
                async for event in events:
                    showed_text = showed_text or isinstance(event, TextDelta)
                    if (
                        isinstance(event, ModelFailure)
                        and event.kind in PASSED_ON
                        and not (is_last or showed_text)
                    ):
                        passed_on = True
                        break
                    if isinstance(event, ModelDone) and place > 0:
                        yield replace(event, model=model.name)
                    else:
                        yield event
            if not passed_on:
                return
