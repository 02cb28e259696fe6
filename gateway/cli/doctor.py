"""`trunkline doctor`: looks at everything that has to be right, and says what to do about what isn't."""

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.model_file import model_file_served
from trunkline.gateway.cli.output import console, loaded_config, print_json
from trunkline.gateway.config import Config
from trunkline.gateway.doctor import Finding, examine

app = typer.Typer(add_completion=False)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Check the settings, the tokens, the model and the web chat's port."""
    config = loaded_config()
    findings = asyncio.run(_examined(config, aloud=not as_json))
    if as_json:
        print_json(
            [{"subject": each.subject, "fine": each.fine, "sentence": each.sentence} for each in findings]
        )
    wrong = sum(not finding.fine for finding in findings)
    if wrong:
        raise Failure(f"{wrong} of {len(findings)} things need a hand.", ExitCode.FAILED)


async def _examined(config: Config, *, aloud: bool) -> list[Finding]:
    findings = []
    async with model_file_served(config) as ready:
        async for finding in examine(ready):
            findings.append(finding)
            if aloud:
                _print(finding)
    return findings


def _print(finding: Finding) -> None:
    mark = "[green]ok[/]  " if finding.fine else "[red]no[/]  "
    console.print(
        f"{mark}[bold]{finding.subject:9}[/]{escape(finding.sentence)}", highlight=False, soft_wrap=True
    )
