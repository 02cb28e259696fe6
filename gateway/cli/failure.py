"""How a command ends when it can't do what it was asked: one sentence on stderr and an exit code."""

from enum import IntEnum


class ExitCode(IntEnum):
    """FAILED: it was tried and did not work. CONFIG: only a person can mend the settings first."""

    FAILED = 1
    CONFIG = 2
    NOT_FOUND = 3


class Failure(Exception):
    """Its text is the sentence to show."""

    def __init__(self, sentence: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
