"""Score predicted gains against measured ones: python bench/causes/score.py FOLDER...

Each FOLDER is one of record.sh, with NAME/turns.json and NAME/planted.sqlite (or .gz), or such a
NAME. Prints a table in Markdown; judge.py says which prediction is right. A second table has the
findings in NAME/fixed.sqlite: nobody planted a cause there. The measured step is the control of a
recording; `--no-control` scores the recordings alone.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.causes.judge import describe_fixed, list_folders, score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--no-control", action="store_false", dest="has_control")
    words = parser.parse_args()
    has_control = words.has_control
    scores = [score(each, has_control=has_control) for each in list_folders(words.folders)]
    print("| program | step | measured gain | predicted | findings | right |")
    print("|---|---|---|---|---|---|")
    print(*(each.to_row() for each in scores), sep="\n")
    for kind in ("host-bound", "other"):
        is_host_bound = kind == "host-bound"
        group = [each.is_right for each in scores if each.is_host_bound == is_host_bound]
        if group:
            print(f"\n{kind}: {sum(group)} of {len(group)} right")
    fixed = list_folders(words.folders, "fixed")
    rows = [describe_fixed(each, has_control=has_control) for each in fixed]
    if rows:
        print("\n| fixed program | step | findings |", "|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
