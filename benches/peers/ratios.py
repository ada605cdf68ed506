"""Prints what the benchmarks wrote (--json) as the ratio table of the README: forebay to each other contender, by the
medians of their rounds."""

import json
import sys
from pathlib import Path


def lines(path):
    text = Path(path).read_text() if Path(path).exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def cases():
    """(place and case, {contender: median rate})."""
    found = {}
    for line in lines(sys.argv[1]):
        found.setdefault((line["place"], line["case"]), {})[line["who"]] = line["rate"]["median"]
    for line in lines(sys.argv[2]):
        found.setdefault((line["place"], line["case"]), {})[line["loader"]] = line["gigabytes_per_second"]["median"]
    return found


def main():
    print("| place, case | forebay | to |")
    print("|---|---|---|")
    for (place, case), rates in cases().items():
        ours = {who: rate for who, rate in rates.items() if who.startswith("forebay")}
        others = {who: rate for who, rate in rates.items() if who not in ours}
        for who, rate in ours.items():
            ratios = ", ".join(f"{other} {rate / theirs:.2f}" for other, theirs in others.items())
            print(f"| {place}, {case} | {who} | {ratios or 'nobody else was here'} |")


if __name__ == "__main__":
    main()
