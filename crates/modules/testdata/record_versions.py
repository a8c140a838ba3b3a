#!/usr/bin/env python3
"""Records how Salt orders versions of rpm, as rpm_versions.json.

Run with the Python of a Salt 3008.5 installation.
"""

import itertools
import json
import os

import salt.modules.rpm_lowpkg as lowpkg

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = [
    "1", "1.0", "01.0", "1.0.0", "1.1", "1.10", "1.9", "2", "1.0a", "1.0b", "a", "A", "1a1", "1.0~rc1", "1.0~rc1~git2", "1.0~", "1.0^",
    "1.0^git1", "1.0^git1~pre", "1.0.1^", "1.0-1", "1.0-2.el9", "1.0-2.el9_1", "1.0-10", "1:1.0-1", "2:0.1", "x:1.0", "0:1.0-1", "1_0", "1..0",
    "10xyz", "10.1xyz", "xyz.4", "8", "2.50", "fc4", "fc.4", "1.0-1~a", "1.0-1^a",
]


def main():
    lowpkg.HAS_RPM = False
    pairs = itertools.product(VERSIONS, VERSIONS)
    cases = [[a, b, ignore, lowpkg.version_cmp(a, b, ignore)] for a, b in pairs for ignore in (False, True) if not ignore or ":" in a + b]
    with open(f"{HERE}/rpm_versions.json", "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    print(len(cases))


if __name__ == "__main__":
    main()
