"""What holds for every test: property tests try the same examples each time where a run decides something."""

import os

from hypothesis import settings

settings.register_profile("decides", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("decides")
