"""The arguments that the scripts share which compare dtc with a peer."""

import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def comparison(description, rounds):
    """A parser of the shared arguments; a script adds its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser
