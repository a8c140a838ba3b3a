#!/usr/bin/env python3
"""Adds the arguments of modules of the real Salt 3008.5 to argspec-3008.json.

Usage: PYTHON_OF_SALT argspec.py MODULE…
"""

import functools
import json
import os
import sys
import tempfile

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "argspec-3008.json")


def main():
    import salt.config
    import salt.loader

    with tempfile.TemporaryDirectory() as base:
        with open(base + "/minion", "w", encoding="utf-8") as file:
            file.write(f"root_dir: {base}\nid: recorder\nfile_client: local\nlog_level: quiet\n")
        opts = salt.config.minion_config(base + "/minion")
        opts["grains"] = salt.loader.grains(opts)
        functions = salt.loader.minion_mods(opts)
        with open(FILE, encoding="utf-8") as file:
            specs = json.load(file)
        for module in sys.argv[1:]:
            specs.update(functions["sys.argspec"](module + ".*"))
    dump = functools.partial(json.dumps, default=list)
    lines = ",\n".join(f"  {dump(name)}: {dump(specs[name])}" for name in sorted(specs))
    with open(FILE, "w", encoding="utf-8") as file:
        file.write("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
