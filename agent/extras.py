"""How one of the package's extras is added to the environment that this program runs in."""

import shlex
import shutil
import sys
from importlib.util import find_spec


def install_command(extra: str) -> str:
    """What to type into a shell; another environment's pip would install for another Python."""
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None and shutil.which("uv"):
        return f"uv pip install 'trunkline[{extra}]' --python {python}"
    return f"{python} -m pip install 'trunkline[{extra}]'"
