"""The advice on how to install an extra names the environment that the program runs in."""

import shlex
import sys

from trunkline.agent.extras import install_command


def test_the_command_installs_into_the_environment_of_this_program() -> None:
    words = shlex.split(install_command("mcp"))

    assert sys.executable in words
    assert "trunkline[mcp]" in words
    assert words[0] in ("uv", sys.executable)
