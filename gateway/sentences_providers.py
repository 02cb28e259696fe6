"""What is said of memory providers: where a forgotten fact is gone, where not yet, where it can't go."""

PROVIDER_SENTENCES: dict[str, tuple[str, str]] = {
    "provider_gone": ("Also gone at: {names}.", "这些地方也已删除：{names}。"),
    "provider_waits": (
        "{name} does not answer; it is erased there as soon as it does, and not used until then.",
        "{name} 没有响应；恢复后会立即在那里删除，在此之前不会再用到它。",
    ),
    "provider_left": ("{name} says: {left}", "{name} 说明：{left}"),
}
