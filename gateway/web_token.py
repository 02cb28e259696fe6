"""The token in the web chat's link: made once, so that a bookmarked browser stays signed in."""

import secrets

from sqlalchemy import Connection

from trunkline.gateway.state import kv

KEY = "web.token"


def ensure(connection: Connection) -> str:
    """The install's token, made when there is none."""
    token = kv.get_value(connection, KEY)
    if token is None:
        token = secrets.token_urlsafe(24)
        kv.put_value(connection, KEY, token)
    return token
