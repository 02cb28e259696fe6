"""How many tokens fit into each model's context: what the settings say, its server, or else a safe guess."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from trunkline.agent.openai_client_window import limit_in

UNKNOWN_TOKENS = 32_000
"""Of a model whose server doesn't say: hosted models have at least this much."""
ASK_AGAIN_S = 600.0


class Windows:
    """The contexts of models by name. `set_tokens` is what the settings say; `ask` asks a model's server."""

    def __init__(self, set_tokens: Mapping[str, int], ask: Callable[[str], Awaitable[int | None]]) -> None:
        self._set = dict(set_tokens)
        self._ask = ask
        self._said: dict[str, int] = {}
        self._asked_s: dict[str, float] = {}

    def known(self, model: str) -> int | None:
        """What fits, as far as it can be told without asking anybody."""
        asked = UNKNOWN_TOKENS if model in self._asked_s else None
        return self._set.get(model) or self._said.get(model) or asked

    async def of(self, model: str) -> int:
        """What fits; asks the server at most once in ASK_AGAIN_S seconds, and only where nothing is set."""
        if model in self._set:
            return self._set[model]
        now_s = asyncio.get_running_loop().time()
        if now_s - self._asked_s.get(model, -ASK_AGAIN_S) >= ASK_AGAIN_S:
            self._asked_s[model] = now_s
            said = await self._ask(model)
            if said is not None:
                self._said[model] = said
        return self._said.get(model, UNKNOWN_TOKENS)

    def learn(self, model: str, refusal: str) -> None:
        """Takes the limit that an endpoint names in a refusal, for as long as the program runs."""
        limit = limit_in(refusal)
        if limit is not None:
            self._said[model] = limit
            if model in self._set:
                self._set[model] = min(limit, self._set[model])
