"""`trunkline model try`: gets the small model and its server, and makes it the model for now."""

import asyncio
import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys

from rich.progress import Progress

from trunkline.gateway.local_model import SMOLLM2, LocalFault, LocalModelFailed, fetch
from trunkline.gateway.setup_interview import Interview

INSTALL_TIMEOUT_S = 900.0
HONEST = "It is good for trying the plumbing, and not clever: it remembers badly and repeats itself."


def try_small_model(interview: Interview, *, agreed: bool) -> bool:
    """Installs, fetches and sets the small model after a yes; false when there was none or it failed."""
    interview.say(f"This gets a model server (34 MB) and a very small model (93 MB). {HONEST}")
    if not (agreed or interview.confirm("Get them?", default=True)):
        return False
    try:
        install_server()
        with Progress(console=interview.console, transient=True) as bar:
            task = bar.add_task("Fetching the model", total=None)
            file = asyncio.run(
                fetch(
                    SMOLLM2,
                    interview.folder / "models",
                    progress=lambda done, total: bar.update(task, completed=done, total=total),
                )
            )
    except LocalModelFailed as failed:
        interview.refuse(str(failed))
        return False
    interview.save({"model.file": str(file), "model.name": None, "model.base_url": None})
    interview.say(f"The model is {file.stem}. It starts and ends with the program.")
    return True


def install_server() -> None:
    """Puts what the extra `local` names into the running environment. Raises LocalModelFailed."""
    if importlib.util.find_spec("xllamacpp") is not None:
        return
    requirements = [
        requirement.partition(";")[0].strip()
        for requirement in importlib.metadata.requires("trunkline") or ()
        if 'extra == "local"' in requirement
    ]
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable, *requirements]
    else:
        command = [sys.executable, "-m", "pip", "install", "--quiet", *requirements]
    if not os.access(sys.prefix, os.W_OK):
        raise LocalModelFailed(
            LocalFault.EXTRA_MISSING,
            f"The model server can't be installed: {sys.prefix} can't be written to. "
            "A Docker image gets it when it is built with EXTRAS=local.",
        )
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise LocalModelFailed(
            LocalFault.NOT_FETCHED,
            f"The model server can't be installed; try it yourself: {' '.join(command)}",
        ) from error
    importlib.invalidate_caches()
