"""`python -m deepval`: the command without its script."""

from deepval.cli import main

if __name__ == "__main__":
    main()
