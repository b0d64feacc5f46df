"""`python -m fallline` is the `fallline` command."""

from fallline.cli import main

if __name__ == "__main__":
    main()
