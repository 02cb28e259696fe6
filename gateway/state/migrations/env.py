"""What Alembic runs for every command. The connection comes from `upgrade`; there is no alembic.ini."""

from alembic import context

from trunkline.gateway.state.migrations.upgrade import is_ours
from trunkline.gateway.state.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    include_object=is_ours,
    compare_type=True,
    compare_server_default=False,
)
with context.begin_transaction():
    context.run_migrations()
