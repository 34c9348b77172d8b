"""`python -m deepval.cli`: the command without its script."""

from deepval.cli import main

main()
