"""`python -m trunkline.gateway` is the command `trunkline`."""

from trunkline.gateway.cli import main

main()
