#!/usr/bin/env python3
"""Records what Salt's own execution functions run, and what they make of the output.

Each file in cases/ describes calls: the function, its arguments, what programs print (`says`: a pattern of the command
and a `Said`; commands that fit `judged` are judged by their return code), what other execution functions answer
(`answers`) and files that are there (`files`; their directory is `{dir}` in arguments). Calls of other functions, the
result and the files that changed go to calls/<file>.json, which the tests of this crate replay. Where ours calls something
else on purpose, `rewrite` makes that of the calls.

Run with the Python of a Salt 3008.5 installation: record_calls.py [case file names without .py]
"""

import copy
import importlib
import json
import os
import re
import sys
import tempfile

import salt.exceptions
import salt.modules.file
import salt.utils.args
import salt.utils.path

HERE = os.path.dirname(os.path.abspath(__file__))
GRAINS = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "osarch": "amd64", "osmajorrelease": 12,
          "init": "systemd", "cpuarch": "x86_64", "osfinger": "Debian-12", "oscodename": "bookworm",
          "osrelease": "12", "virtual": "physical"}
CMD = ["run", "run_all", "run_stdout", "run_stderr", "retcode", "shell"]


class Said:
    """What a program printed."""

    def __init__(self, stdout="", code=0, stderr=""):
        self.stdout, self.code, self.stderr = stdout, code, stderr

    def answer(self, fun):
        both = "\n".join(text for text in (self.stdout, self.stderr) if text)
        return {"run": both, "shell": both, "run_stdout": self.stdout, "run_stderr": self.stderr, "retcode": self.code,
                "run_all": {"pid": 1, "retcode": self.code, "stdout": self.stdout, "stderr": self.stderr}}[fun]


class Raise:
    """An answer that is a failure."""

    def __init__(self, text, kind="execution"):
        self.text, self.kind = text, kind

    def throw(self):
        kinds = {"execution": salt.exceptions.CommandExecutionError, "invocation": salt.exceptions.SaltInvocationError}
        raise kinds[self.kind](self.text)


class Each(list):
    """Answers one after the other; the last one goes on."""


def replaced(value, old, new):
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, (list, tuple, set)):
        return [replaced(item, old, new) for item in value]
    if isinstance(value, dict):
        return {replaced(key, old, new): replaced(item, old, new) for key, item in value.items()}
    return value


class Recorder(dict):
    def __init__(self, spec, module, root):
        self.calls, self.module, self.root, self.seen = [], module, root, {}
        answers = dict(spec.get("answers", {}))
        for fun in CMD:
            answers.setdefault("cmd." + fun, None)
        self.says, self.judged = spec.get("says", []), spec.get("judged")
        own = spec["fun"].split(".")[0]
        for name in dir(module):
            function = getattr(module, name)
            if callable(function) and not name.startswith("_"):
                self[own + "." + name] = function
        self["file.write"] = salt.modules.file.write
        self["config.option"] = self["config.get"] = lambda name, default="", **_: spec.get("opts", {}).get(name, default)
        for name, answer in answers.items():
            self[name] = self.fake(name, answer)
        if hasattr(module, "__func_alias__"):
            for plain, alias in module.__func_alias__.items():
                self.setdefault(own + "." + alias, getattr(module, plain))

    def next(self, key, given):
        if isinstance(given, Each):
            place = self.seen[key] = self.seen.get(key, -1) + 1
            given = given[min(place, len(given) - 1)]
        return given

    def program(self, command):
        line = " ".join(map(str, command)) if isinstance(command, (list, tuple)) else command
        for number, (pattern, said) in enumerate(self.says):
            if re.search(pattern, line):
                said = self.next(("says", number), said)
                return said if isinstance(said, (Said, Raise)) else Said(said)
        return Said()

    def fake(self, name, answer):
        def called(*args, **kwargs):
            kwargs = salt.utils.args.clean_kwargs(**kwargs)
            entry = {"fun": name, "args": copy.deepcopy(list(args)), "kwargs": copy.deepcopy(kwargs)}
            if answer is None:
                given = self.program(args[0])
                if isinstance(given, Said):
                    code = given.code
                    self.module.__context__["retcode"] = entry["retcode"] = code
                    given = given.answer(name.split(".")[1])
            else:
                given = self.next(name, answer)
                given = given(*args, **kwargs) if callable(given) else given
            if isinstance(given, Raise):
                entry["raise"] = {"text": given.text, "kind": given.kind}
            else:
                entry["ret"] = copy.deepcopy(given)
            if answer is None and self.judged and re.search(self.judged, str(args[0])):
                # Salt looks at the return code of the job, or at nothing; ours asks for it.
                entry.update(fun="cmd.retcode", ret=entry["retcode"])
            self.calls.append(entry)
            if isinstance(given, Raise):
                given.throw()
            return copy.deepcopy(given)

        return called


def plant(root, files):
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)


def harvest(root):
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as text:
                found[os.path.relpath(path, root)] = text.read()
    return found


def outcome(function, case):
    try:
        return {"result": function(*case["args"], **case["kwargs"])}
    except salt.exceptions.CommandNotFoundError as error:
        return {"raises": {"kind": "notfound", "text": str(error)}}
    except salt.exceptions.CommandExecutionError as error:
        return {"raises": {"kind": "execution", "text": str(error)}}
    except salt.exceptions.SaltInvocationError as error:
        return {"raises": {"kind": "invocation", "text": str(error)}}
    except Exception as error:  # pylint: disable=broad-except
        return {"raises": {"kind": "exception", "text": repr(error)}}


def bind(module, functions, case):
    module.__salt__ = functions
    module.__opts__ = {"test": False, **case["opts"]}
    module.__grains__ = {**GRAINS, **case["grains"]}
    module.__pillar__ = {}
    module.__context__ = {}
    module.__utils__ = {}


def record(spec):
    with tempfile.TemporaryDirectory() as root:
        root = os.path.realpath(root)
        case = {"fun": spec["fun"], "args": spec.get("args", []), "kwargs": spec.get("kwargs", {}),
                "opts": spec.get("opts", {}), "grains": spec.get("grains", {}), "missing": spec.get("missing", []),
                "files": spec.get("files", {})}
        real = replaced(copy.deepcopy(case), "{dir}", root)
        name, fun = spec["fun"].split(".")
        module = importlib.import_module("salt.modules." + spec.get("module", name))
        plant(root, case["files"])
        filled = {**spec, "says": [(pattern, said) for pattern, said in spec.get("says", [])]}
        recorder = Recorder(filled, module, root)
        bind(module, recorder, real)
        bind(salt.modules.file, recorder, real)
        salt.utils.path.which = lambda name: None if name in case["missing"] else "/usr/sbin/" + name
        if "patch" in spec:
            spec["patch"](module, root)
        fun = {alias: plain for plain, alias in getattr(module, "__func_alias__", {}).items()}.get(fun, fun)
        case.update(outcome(getattr(module, fun), real))
        case["calls"] = spec["rewrite"](recorder.calls) if "rewrite" in spec else recorder.calls
        after = harvest(root)
        case["after"] = {name: after.get(name) for name in sorted({*after, *case["files"]})
                         if after.get(name) != case["files"].get(name)}
        case = replaced(case, root, "{dir}")
        return {key: value for key, value in case.items() if value != {} and value != [] or key in ("result", "calls")}


def write_fakes():
    """Writes the list of functions that have fakes in the tests."""
    names = {"cmd." + fun for fun in CMD}
    for name in os.listdir(f"{HERE}/calls"):
        with open(f"{HERE}/calls/{name}", encoding="utf-8") as text:
            names.update(call["fun"] for case in json.load(text) for call in case["calls"])
    lines = "\n".join(f'    "{name}"' for name in sorted(names))
    with open(f"{HERE}/../src/replay_fakes.rs", "w", encoding="utf-8") as out:
        out.write("fakes! {\n" + lines + "\n}\n")


def main():
    names = sys.argv[1:] or sorted(f[:-3] for f in os.listdir(f"{HERE}/cases") if f.endswith(".py"))
    sys.modules["record_calls"] = sys.modules["__main__"]
    sys.path.insert(0, f"{HERE}/cases")
    sys.dont_write_bytecode = True
    for name in names:
        found = [record(spec) for spec in importlib.import_module(name).CASES]
        raised = {case["raises"]["text"] for case in found if case.get("raises", {}).get("kind") == "exception"}
        with open(f"{HERE}/calls/{name}.json", "w", encoding="utf-8") as out:
            lines = ",\n".join(json.dumps(case, default=list) for case in found)
            out.write("[\n" + lines + "\n]\n")
        print(name.ljust(20), len(found), "exceptions:", len(raised), *sorted(raised)[:12])
    write_fakes()


if __name__ == "__main__":
    main()
