"""Who may see the page: the holder of the link, through this machine's own names, from this page only."""

import hashlib
import hmac

from starlette.requests import Request

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_COOKIE_AGE_S = 180 * 24 * 3600


class Guard:
    """Checks of a request. The cookie holds a digest, so the link itself can't be read out of a browser."""

    def __init__(self, token: str, hosts: frozenset[str], port: int) -> None:
        self.cookie = f"trunkline_{port}"
        self.cookie_age_s = _COOKIE_AGE_S
        self._token = token
        self._hosts = hosts
        self.cookie_value = hashlib.sha256(b"web cookie:" + token.encode()).hexdigest()

    def knows_host(self, request: Request) -> bool:
        """False for a foreign name that was made to lead here (DNS rebinding)."""
        return request.headers.get("host", "").lower() in self._hosts

    def is_own_origin(self, request: Request) -> bool:
        origin = request.headers.get("origin", "").lower()
        return origin in {f"{scheme}://{host}" for scheme in ("http", "https") for host in self._hosts}

    def is_token(self, value: str) -> bool:
        return hmac.compare_digest(value.encode(), self._token.encode())

    def has_cookie(self, request: Request) -> bool:
        return hmac.compare_digest(request.cookies.get(self.cookie, "").encode(), self.cookie_value.encode())
