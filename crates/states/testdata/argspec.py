#!/usr/bin/env python3
"""Records the arguments of all state functions of the real Salt 3008.5.

Usage: PYTHON_OF_SALT argspec.py    writes argspec-3008.json beside this file.
"""

import functools
import json
import os
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    import salt.config
    import salt.loader

    with tempfile.TemporaryDirectory() as base:
        with open(base + "/minion", "w", encoding="utf-8") as file:
            file.write(f"root_dir: {base}\nid: recorder\nfile_client: local\nlog_level: quiet\n")
        opts = salt.config.minion_config(base + "/minion")
        opts["grains"] = salt.loader.grains(opts)
        functions = salt.loader.minion_mods(opts)
        specs = functions["sys.state_argspec"]("*")
    dump = functools.partial(json.dumps, default=list)
    lines = ",\n".join(f"{dump(name)}: {dump(specs[name])}" for name in sorted(specs))
    with open(HERE + "/argspec-3008.json", "w", encoding="utf-8") as file:
        file.write("{\n" + lines + "\n}\n")
    print(len(specs), "functions")


if __name__ == "__main__":
    main()
