"""The operator's own texts for the system prompt, SOUL.md and AGENTS.md, as they are in the home folder."""

import logging
from collections.abc import Mapping

from trunkline.gateway.config import Config

log = logging.getLogger(__name__)

INSTRUCTION_FILES = ("SOUL.md", "AGENTS.md")
INSTRUCTION_CHARS = 20_000


def read_instructions(config: Config) -> Mapping[str, str]:
    """The operator's own texts for the system prompt; what can't be read is left out and logged."""
    texts = {}
    for name in INSTRUCTION_FILES:
        path = config.home / name
        try:
            texts[name] = path.read_text(encoding="utf-8")[:INSTRUCTION_CHARS]
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            log.warning("%s left out: %s", name, type(error).__name__)
    return texts
