"""How set-up talks with the person: asks where somebody is there, else takes defaults, and saves answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.prompt import Confirm, Prompt

from trunkline.gateway.config import Config, load_config, write_config, write_secrets


@dataclass(slots=True)
class Interview:
    """One run of set-up. `problems` are answers that were refused and not saved."""

    folder: Path
    console: Console
    may_ask: bool
    problems: list[str] = field(default_factory=list)

    @property
    def config(self) -> Config:
        return load_config(self.folder)

    def say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def refuse(self, sentence: str) -> None:
        """Says why an answer isn't taken; with nobody to answer again it counts as a problem."""
        self.say(sentence)
        if not self.may_ask:
            self.problems.append(sentence)

    def ask(self, question: str, default: str = "", *, secret: bool = False) -> str:
        """The answer without spaces around it; `default` when it is empty or nobody can be asked."""
        if not self.may_ask:
            return default
        shown = default or None
        answer = Prompt.ask(question, console=self.console, password=secret, default=shown)
        return (answer or "").strip()

    def confirm(self, question: str, *, default: bool) -> bool:
        return Confirm.ask(question, console=self.console, default=default) if self.may_ask else default

    def choose(self, question: str, titles: Sequence[str], default: int = 1) -> int:
        """Shows the titles and returns one's place, from 1: asked for by its number or how it begins."""
        for number, title in enumerate(titles, 1):
            self.say(f"  {number}. {title}")
        while True:
            answer = self.ask(question, str(default))
            if answer.isdecimal() and 1 <= int(answer) <= len(titles):
                return int(answer)
            begun = [n for n, title in enumerate(titles, 1) if title.lower().startswith(answer.lower())]
            if len(begun) == 1:
                return begun[0]
            self.say(f"Give a number from 1 to {len(titles)}, or how one begins.")

    def save(self, changes: Mapping[str, object]) -> None:
        """Sets dotted paths in config.yaml."""
        write_config(self.folder, changes)

    def save_secrets(self, secrets: Mapping[str, str]) -> None:
        write_secrets(self.folder, secrets)
