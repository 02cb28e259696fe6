"""How this program was called, so that a command it advises can be copied into the same shell; and its words
to the operator there."""

import shutil
import sys
from pathlib import Path

NAME = "trunkline"


def program() -> str:
    """`trunkline` where the shell finds that, else the path that was used, relative where that is shorter."""
    called = Path(sys.argv[0])
    if called.name != NAME or shutil.which(NAME):
        return NAME
    called = called.absolute()
    here = Path.cwd()
    if here == Path(here.anchor) or not called.is_relative_to(here):
        return str(called)
    shown = str(called.relative_to(here))
    return shown if "/" in shown else f"./{shown}"


def tell(sentence: str) -> None:
    """A line for the operator, on standard output."""
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()
