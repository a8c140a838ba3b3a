#!/usr/bin/env python3
"""Records what Salt's own execution modules ask programs, and do with the answers.

Each file in program_cases/ describes machines: what programs answer, and which calls change something. The functions run
with these; commands, answers and results go to programs/<file>.json, which `src/recorded.rs` replays.

Run with the Python of a Salt 3008.5 installation (3007 for modules that 3008 no longer has): record_programs.py FILE…
"""

import copy
import importlib
import json
import os
import shlex
import shutil
import sys
import tempfile

import salt.exceptions
import salt.modules.pkg_resource
import salt.utils.args

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = "/@root@"


class Machine:
    """What programs answer. `changing` says which commands change something; each of them begins a new stage."""

    def answer(self, words, stage):
        raise NotImplementedError

    def changing(self, words):
        raise NotImplementedError


class Tape:
    def __init__(self, machine):
        self.machine, self.stage, self.answers, self.made = machine, 0, [], []

    def run_all(self, cmd, **kwargs):
        words = list(map(str, cmd)) if isinstance(cmd, (list, tuple)) else shlex.split(cmd)
        said = self.machine.answer(words, self.stage)
        stdout, stderr, retcode = (said, "", 0) if isinstance(said, str) else said
        entry = {"stage": self.stage, "words": words, "stdout": stdout, "stderr": stderr, "retcode": retcode}
        if self.machine.changing(words):
            entry["changes"] = True
            env = {key: value for key, value in (kwargs.get("env") or {}).items() if not key.startswith("LC_") and key != "LANGUAGE"}
            if env:
                entry["env"] = env
            self.stage += 1
            self.made.append(words)
        if entry not in self.answers:
            self.answers.append(entry)
        if kwargs.get("redirect_stderr"):
            stdout, stderr = stderr + stdout, ""
        return {"pid": 7, "retcode": retcode, "stdout": stdout.rstrip(), "stderr": stderr.rstrip()}

    def shell(self, cmd, **kwargs):
        """A line of commands that are run one after the other, as long as they succeed."""
        said = {}
        for part in cmd.split(" && ") if isinstance(cmd, str) else [cmd]:
            said = self.run_all(part, **kwargs)
            if said["retcode"]:
                break
        return said

    def functions(self):
        def merged(cmd, **kwargs):
            return self.run_all(cmd, **{**kwargs, "redirect_stderr": True})["stdout"]

        return {
            "cmd.run_all": self.run_all,
            "cmd.run": merged,
            "cmd.run_stdout": lambda cmd, **kwargs: self.run_all(cmd, **kwargs)["stdout"],
            "cmd.run_stderr": lambda cmd, **kwargs: self.run_all(cmd, **kwargs)["stderr"],
            "cmd.retcode": lambda cmd, **kwargs: self.shell(cmd, **kwargs)["retcode"],
        }


def bind(module, salt_dict, case):
    module.__salt__ = salt_dict
    module.__opts__ = case["opts"]
    module.__grains__ = case["grains"]
    module.__pillar__ = {}
    module.__context__ = {}
    module.__utils__ = {}


def helpers(salt_dict, case, spec):
    """The functions of other modules that a provider calls."""
    names = {"pkg_resource": salt.modules.pkg_resource}
    for name, file in spec.get("helpers", {}).items():
        names[name] = importlib.import_module("salt.modules." + file)
    for name, module in names.items():
        bind(module, salt_dict, case)
        for fun in dir(module):
            if not fun.startswith("_") and callable(getattr(module, fun)):
                salt_dict[f"{name}.{fun}"] = getattr(module, fun)
    salt_dict["config.get"] = lambda name, default=None, **kwargs: case["opts"].get(name, default)
    salt_dict["config.valid_fileproto"] = lambda path: "://" in str(path)
    salt_dict["file.file_exists"] = os.path.isfile
    salt_dict["event.fire_master"] = lambda data, tag: True
    salt_dict.update(spec.get("salt", {}))


def plain(value):
    """As JSON has it: sets become sorted lists."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(entry) for entry in value)
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


def files(root, names):
    found = {}
    for name in names:
        path = root + name
        found[name] = open(path, encoding="utf-8").read() if os.path.exists(path) else None
    return found


def written(root, tree):
    for name, text in tree.items():
        os.makedirs(os.path.dirname(root + name), exist_ok=True)
        with open(root + name, "w", encoding="utf-8") as out:
            out.write(text)
        if text.startswith("#!"):
            os.chmod(root + name, 0o755)


def record(spec):
    root = tempfile.mkdtemp()
    opts = {"systemd.scope": False, "cachedir": root, "test": False, **spec.get("opts", {})}
    case = {"provider": spec["provider"], "fun": spec["fun"], "args": spec.get("args", []), "kwargs": spec.get("kwargs", {}),
            "opts": spec.get("opts", {}), "grains": spec["grains"], "files": spec.get("files", {})}
    written(root, case["files"])
    tape = Tape(spec["machine"])
    salt_dict = tape.functions()
    world = {"opts": opts, "grains": case["grains"]}
    helpers(salt_dict, world, spec)
    module = importlib.import_module("salt.modules." + spec["provider"])
    bind(module, salt_dict, world)
    virtual, fun = case["fun"].split(".")
    for name in dir(module):
        if not name.startswith("_") and callable(getattr(module, name)):
            salt_dict[f"{virtual}.{name}"] = getattr(module, name)
    if "patch" in spec:
        spec["patch"](module, root)
    args = json.loads(json.dumps(case["args"]).replace(ROOT, root))
    kwargs = json.loads(json.dumps(case["kwargs"]).replace(ROOT, root))
    try:
        result = getattr(module, spec.get("python", fun))(*args, **kwargs)
        case["result"] = plain(result)
    except salt.exceptions.SaltException as error:
        case["raises"] = str(error)
    except Exception as error:  # pylint: disable=broad-except
        if not spec.get("crash"):
            print("case", case["fun"], case["args"], case["kwargs"], "crashed:", repr(error))
            raise
        shutil.rmtree(root)
        return None
    case["answers"], case["made"] = tape.answers, tape.made
    # Salt may have changed or removed files it was given, or made others.
    names = list(case["files"]) + spec.get("makes", [])
    case["after"] = files(root, names)
    shutil.rmtree(root)
    return json.loads(json.dumps(case, default=str).replace(root, ROOT))


def main():
    sys.modules["record_programs"] = sys.modules["__main__"]
    sys.path.insert(0, f"{HERE}/program_cases")
    for name in sys.argv[1:]:
        cases = importlib.import_module(name).CASES
        found = [record(copy.copy(spec)) for spec in cases]
        found = [case for case in found if case is not None]
        with open(f"{HERE}/programs/{name}.json", "w", encoding="utf-8") as out:
            out.write("[\n" + ",\n".join(json.dumps(case) for case in found) + "\n]\n")
        print(name.ljust(20), len(found), sum("raises" in case for case in found), "failures")


if __name__ == "__main__":
    main()
