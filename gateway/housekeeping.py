"""The chores of the running house that nothing waits for: each looks now and then until it is cancelled."""

import asyncio

from trunkline.gateway import backups, file_sweep, overhearing, presence, private_mode, retention
from trunkline.gateway.config import Config
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.state.database import Database


async def keep_house(config: Config, database: Database, files: FileStore, delivery: Delivery) -> None:
    """Old backups, unused files, old words of rooms, private conversations, what is over; who is present."""
    async with asyncio.TaskGroup() as group:
        group.create_task(backups.watch(config.home), name="backups")
        group.create_task(presence.watch(database, delivery.adapter), name="presence")
        group.create_task(file_sweep.watch(database, files), name="files")
        group.create_task(overhearing.watch(database), name="overhearing")
        group.create_task(private_mode.watch(database, delivery.kick), name="private")
        group.create_task(retention.watch(database, config.sessions.keep_days), name="retention")
