#!/usr/bin/env python3
"""Adds the arguments of modules of the real Salt 3008.5 to argspec-3008-machine.json, also of those whose programs this
machine lacks: the modules are imported, not loaded.

Usage: PYTHON_OF_SALT argspec_machine.py NAME[=FILE]…    such as debconf=debconfmod
"""

import importlib
import json
import os
import sys

import salt.utils.args

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "argspec-3008-machine.json")


def specifications(name, file):
    module = importlib.import_module("salt.modules." + file)
    alias = getattr(module, "__func_alias__", {})
    for plain, function in vars(module).items():
        if plain.startswith("_") or getattr(function, "__module__", "") != module.__name__ or isinstance(function, type):
            continue
        spec = salt.utils.args.get_function_argspec(function)
        yield f"{name}.{alias.get(plain, plain)}", {
            "args": spec.args or None, "defaults": list(spec.defaults) if spec.defaults else None,
            "kwargs": True if spec.keywords else None, "varargs": True if spec.varargs else None}


def main():
    with open(FILE, encoding="utf-8") as file:
        specs = json.load(file)
    for wanted in sys.argv[1:]:
        name, _, file = wanted.partition("=")
        specs.update(specifications(name, file or name))
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump(specs, file, indent=0, sort_keys=True, default=list)
        file.write("\n")
    print(len(specs), "functions")


if __name__ == "__main__":
    main()
