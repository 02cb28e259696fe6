"""Whose files a command writes: root in a home folder of somebody else's works as that user."""

import os
import sys
from pathlib import Path

from trunkline.gateway.cli.failure import ExitCode, Failure


def act_as_owner(folder: Path) -> None:
    """Gives up root's rights for those of a home folder's owner, so that nothing in it becomes root's.

    A memory that root has written is one that the service can't read. Raises Failure where that user can't
    read the program, or root may not become them.
    """
    if os.geteuid() != 0 or not folder.is_dir() or folder.stat().st_uid == 0:
        return
    owner = folder.stat()
    try:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.seteuid(owner.st_uid)
        readable = all(os.access(path, os.R_OK, effective_ids=True) for path in (__file__, os.__file__))
        os.seteuid(0)
        if readable:
            os.setuid(owner.st_uid)
            return
        why = f"user {owner.st_uid} can't read the program in {sys.prefix}"
    except PermissionError:
        why = f"root can't become user {owner.st_uid} here"
    raise Failure(
        f"{folder} belongs to user {owner.st_uid}, whose files root must not write, and {why}. "
        "Run this command as that user.",
        ExitCode.CONFIG,
    )
