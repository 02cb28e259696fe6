"""Every number we publish, one command each: `python -m bench.NAME`, with `--json` one object of numbers."""
