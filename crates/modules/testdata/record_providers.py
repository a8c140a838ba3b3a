#!/usr/bin/env python3
"""Adds the arguments of modules that share a name with others (`yumpkg` of `pkg`) to argspec-providers.json.

Run with the Python of a Salt 3008.5 installation (3007 for modules that 3008 no longer has): record_providers.py MODULE…
"""

import functools
import importlib
import json
import os
import sys

import salt.utils.args

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "argspec-providers.json")


def main():
    specs = {}
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as file:
            specs = json.load(file)
    for name in sys.argv[1:]:
        module = importlib.import_module("salt.modules." + name)
        alias = getattr(module, "__func_alias__", {})
        functions = {}
        for fun, value in vars(module).items():
            if not fun.startswith("_") and callable(value) and getattr(value, "__module__", "") == module.__name__ and not isinstance(value, type):
                functions[f"{name}.{alias.get(fun, fun)}"] = value
        specs.update(salt.utils.args.argspec_report(functions, name + ".*"))
    dump = functools.partial(json.dumps, default=list)
    with open(FILE, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f"  {dump(name)}: {dump(specs[name])}" for name in sorted(specs)) + "\n}\n")
    print(len(specs))


if __name__ == "__main__":
    main()
