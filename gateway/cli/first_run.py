"""Set-up before the first start: asks where somebody can answer, else takes defaults."""

import sys

from trunkline.gateway.cli.output import home_folder, loaded_config
from trunkline.gateway.config import Config
from trunkline.gateway.setup import Answers, set_up


def someone_answers() -> bool:
    """Whether a person is at both ends of this terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def config_after_set_up(*, with_model: bool = True) -> Config:
    """The settings; set-up runs first where nobody is the owner yet, `with_model` or without that step."""
    config = loaded_config()
    if config.owner is None:
        set_up(home_folder(), Answers(), may_ask=someone_answers(), with_model=with_model)
        config = loaded_config()
    return config
