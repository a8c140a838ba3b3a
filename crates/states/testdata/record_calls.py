#!/usr/bin/env python3
"""Records what Salt's own state functions call and return.

Each file in cases/ describes a machine by the answers of execution functions. The state function runs with these; the
calls it makes, in their order, and its result go to calls/<file>.json, which the tests of this crate replay.

Run with the Python of a Salt 3008.5 installation: record_calls.py [case file names without .py]
"""

import copy
import importlib
import json
import os
import re
import sys
import types

import salt.config
import salt.exceptions
import salt.modules.pkg_resource
import salt.utils.args
import salt.utils.systemd

HERE = os.path.dirname(os.path.abspath(__file__))
# Answers that depend on the arguments alone: they may be asked in any order.
PURE = {"pkg.normalize_name", "pkg.version_cmp", "pkg.parse_arch", "pkg.version_clean", "group.info", "file.group_to_gid",
        "file.gid_to_group", "pip.normalize"}
__context__ = {}

GRAINS = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "osarch": "amd64", "osmajorrelease": 12,
          "init": "systemd", "cpuarch": "x86_64", "osfinger": "Debian-12", "oscodename": "bookworm"}


class Raise:
    """An answer that is a failure."""

    def __init__(self, text, info=None, kind="execution"):
        self.text, self.info, self.kind = text, info, kind

    def throw(self):
        if self.kind == "invocation":
            raise salt.exceptions.SaltInvocationError(self.text)
        if self.kind == "notfound":
            raise salt.exceptions.CommandNotFoundError(self.text)
        raise salt.exceptions.CommandExecutionError(self.text, info=self.info)


class Each(list):
    """Answers one after the other; the last one goes on."""


class Recorder(dict):
    def __init__(self, answers, real, ordered=False):
        self.calls, self.pure = [], []
        self.any_order = set() if ordered else PURE
        for name, answer in answers.items():
            self[name] = self.fake(name, answer)
        for name, function in real.items():
            self.setdefault(name, function)

    def fake(self, name, answer):
        count = [0]

        def called(*args, **kwargs):
            kwargs = salt.utils.args.clean_kwargs(**kwargs)
            given = answer
            if isinstance(given, Each):
                given = given[min(count[0], len(given) - 1)]
                count[0] += 1
            if callable(given):
                given = given(*args, **kwargs)
            entry = {"fun": name, "args": copy.deepcopy(list(args)), "kwargs": copy.deepcopy(kwargs)}
            if isinstance(given, Raise):
                entry["raise"] = {"text": given.text, "info": given.info, "kind": given.kind}
            else:
                entry["ret"] = copy.deepcopy(given)
            pure = name in self.any_order
            known = self.pure if pure else self.calls
            if not pure or entry not in known:
                known.append(entry)
            if isinstance(given, Raise):
                given.throw()
            return copy.deepcopy(given)

        called.__name__ = name.split(".")[1]
        if name.startswith("service."):
            # Which arguments systemd's functions take is asked for by their signature.
            SIGNATURES = {
                "service.status": "name, sig=None",
                "service.stop": "name, no_block=False",
                "service.start": "name, no_block=False, unmask=False, unmask_runtime=False",
                "service.restart": "name, no_block=False, unmask=False, unmask_runtime=False",
                "service.reload": "name, no_block=False, unmask=False, unmask_runtime=False",
                "service.force_reload": "name, no_block=True, unmask=False, unmask_runtime=False",
            }
            if name in SIGNATURES:
                scope = {"called": called}
                names = SIGNATURES[name]
                exec(f"def wrapped({names}, *args, **kwargs): pass", scope)
                called.__wrapped__ = scope["wrapped"]
        return called


def bind(module, salt_dict, case):
    module.__salt__ = salt_dict
    module.__opts__ = {"cachedir": "/nonexistent", **case["opts"]}
    module.__grains__ = {**GRAINS, **case.get("grains", {})}
    module.__pillar__ = {}
    module.__env__ = case["env"]
    module.__context__ = {}
    module.__low__ = {}
    module.__instance_id__ = "1"
    module.__lowstate__ = []
    module.__utils__ = {}
    module.__states__ = {"beacon.present": lambda **kwargs: beacon_present(salt_dict, case, kwargs)}


def beacon_present(salt_dict, case, kwargs):
    """The state with which `mod_beacon` of others makes beacons."""
    module = importlib.import_module("salt.states.beacon")
    module.__salt__, module.__opts__ = salt_dict, case["opts"]
    return module.present(**kwargs)


def resource(case):
    module = salt.modules.pkg_resource
    names = ["version_clean", "check_extra_requirements", "pack_sources", "parse_targets", "stringify"]
    return {f"pkg_resource.{name}": getattr(module, name) for name in names}, module


def record(spec, number):
    case = {
        "state": spec["state"], "args": spec.get("args", []),
        "kwargs": spec.get("kwargs", {}),
        "opts": {"test": spec.get("test", False), **spec.get("opts", {})},
        "grains": spec.get("grains", {}), "env": spec.get("env", "base"),
        "booted": spec.get("booted", True),
    }
    if not case["grains"]:
        del case["grains"]
    case = copy.deepcopy(case)
    case["available"] = sorted(spec["answers"])
    name, fun = spec["state"].split(".")
    module = importlib.import_module("salt.states." + spec.get("module", name))
    real, helper = resource(case)
    salt_dict = Recorder(spec["answers"], real, spec.get("ordered", False))
    bind(module, salt_dict, case)
    bind(helper, salt_dict, case)
    salt.utils.systemd.booted = lambda context=None: case["booted"]
    if hasattr(module, "booted"):
        module.booted = salt.utils.systemd.booted
        if hasattr(module, "_get_systemd_only") and hasattr(module._get_systemd_only, "HAS_SYSTEMD"):
            del module._get_systemd_only.HAS_SYSTEMD
    if hasattr(module, "__init__") and spec.get("init"):
        module.__init__(case["opts"])
    if "patch" in spec:
        spec["patch"](module)
    try:
        result = getattr(module, spec.get("called", fun))(*copy.deepcopy(case["args"]), **copy.deepcopy(case["kwargs"]))
        # Salt shows the hash here; ours does not.
        if "could not be changed" in str(result["comment"]):
            result["comment"] = re.sub(r"'passwd': '[^']*'", "'passwd': 'XXX-REDACTED-XXX'", result["comment"])
        case["result"] = result
    except salt.exceptions.SaltException as error:
        case["raises"] = str(error)
    except Exception as error:  # pylint: disable=broad-except
        if not spec.get("crash"):
            print("case", spec["state"], case["args"], case["kwargs"], "crashed:", repr(error))
            raise
        return None
    case["calls"], case["pure"] = salt_dict.calls, salt_dict.pure
    return case


def write_fakes():
    """Writes the list of functions that have fakes in the tests."""
    names = set()
    for name in os.listdir(f"{HERE}/calls"):
        with open(f"{HERE}/calls/{name}", encoding="utf-8") as text:
            for case in json.load(text):
                names.update(case["available"])
    lines = "\n".join(f'    "{name}"' for name in sorted(names))
    with open(f"{HERE}/../src/replay_fakes.rs", "w", encoding="utf-8") as out:
        out.write("fakes! {\n" + lines + "\n}\n")


def main():
    names = sys.argv[1:] or sorted(f[:-3] for f in os.listdir(f"{HERE}/cases") if f.endswith(".py"))
    sys.modules["record_calls"] = sys.modules["__main__"]
    sys.path.insert(0, f"{HERE}/cases")
    total = 0
    for name in names:
        cases = importlib.import_module(name).CASES
        found = [record(spec, number) for number, spec in enumerate(cases)]
        found = [case for case in found if case is not None]
        with open(f"{HERE}/calls/{name}.json", "w", encoding="utf-8") as out:
            lines = ",\n".join(json.dumps(case, sort_keys=False, default=list) for case in found)
            out.write("[\n" + lines + "\n]\n")
        print(name.ljust(20), len(found))
        total += len(found)
    write_fakes()
    print("cases:", total)


if __name__ == "__main__":
    main()
