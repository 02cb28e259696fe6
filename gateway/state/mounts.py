"""Tells whether a path lies on a network mount, where SQLite's write-ahead log is not safe. Linux only."""

import os
from pathlib import Path

MOUNT_TABLE = Path("/proc/self/mountinfo")

# Several machines may write to these at once, and shared memory of a file needs one kernel.
NETWORK_KINDS = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "drvfs",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "virtiofs",
    }
)


def network_kind(path: Path, table: Path = MOUNT_TABLE) -> str | None:
    """The kind of network mount that a path lies on; None on a local disk or without a mount table."""
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    resolved = Path(os.path.realpath(path))
    best, kind = -1, ""
    for line in lines:
        place, _, rest = line.partition(" - ")
        fields = place.split()
        if len(fields) < 5 or not rest:
            continue
        point = Path(fields[4].replace("\\040", " "))
        if resolved.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), rest.split()[0]
    return kind if kind in NETWORK_KINDS else None
