"""The second schema: what media, busy chats, skills, reminders and providers need beyond the first.

Frozen once released: later changes are later versions.
"""

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    return
