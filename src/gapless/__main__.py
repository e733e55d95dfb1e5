"""``python -m gapless``."""

from gapless.cli import run

if __name__ == "__main__":
    run()
