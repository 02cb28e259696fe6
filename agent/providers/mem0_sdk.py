"""Loads Mem0's SDK without what it does unasked: telemetry, a folder in the home, errors in the log."""

import logging
import os
from pathlib import Path


def prepare_sdk(folder: Path) -> None:
    """To be called before the SDK's first import, which reads these. `folder` is for its own settings."""
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ.setdefault("MEM0_DIR", str(folder))
    logging.getLogger("mem0").setLevel(logging.CRITICAL)  # it logs each error that it raises, too
