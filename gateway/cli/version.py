"""`trunkline version`."""

import platform
from importlib.metadata import version

import typer

app = typer.Typer(add_completion=False)


@app.command()
def show() -> None:
    """Show the version."""
    typer.echo(f"trunkline {version('trunkline')} (Python {platform.python_version()})")
