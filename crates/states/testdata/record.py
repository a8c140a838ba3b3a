#!/usr/bin/env python3
"""Records what the states and functions of the real Salt 3008.5 return.

Usage: PYTHON_OF_SALT record.py NAME…    reads NAME.yaml beside this file and writes NAME.json.

A file is a list of cases. Each gets an empty directory, written `{dir}` in arguments and results:

    - case: what is shown
      setup: shell commands, run in the directory
      opts: options in addition
      pillar: the pillar
      fakes: functions and their answers (or `raises`: a text); what they were asked is recorded
      fresh: load grains and modules anew for each step
      steps:
        - call: state.function          or  exec: module.function
          args: {…}                     and for functions: pos: […]
          runs: trrt                    test mode (t) or for real (r), one step for each; default r
          do: shell commands, run before
          show: shell commands whose output is part of the result
          low, running: the low chunk and the results so far
          mask: regular expressions whose matches become …
          ours: what Saltern does instead on purpose (`result`, or `exception` and `text`), see COMPATIBILITY.md

Exceptions are recorded by the name of their type and their text.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ASKED = []
NUMBERS = {"pid", "inode", "atime", "mtime", "ctime"}


GIT = {
    "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org", "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org", "GIT_AUTHOR_DATE": "2024-05-01T10:00:00Z",
    "GIT_COMMITTER_DATE": "2024-05-01T10:00:00Z", "GIT_CONFIG_NOSYSTEM": "1",
}


def environment(directory):
    return dict(os.environ, **GIT, dir=directory)


def shell(commands, directory):
    done = subprocess.run(
        ["/bin/sh", "-ec", commands], cwd=directory, env=environment(directory), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )
    return done.stdout


def fill(data, directory):
    if isinstance(data, str):
        return data.replace("{dir}", directory)
    if isinstance(data, dict):
        return {fill(key, directory): fill(value, directory) for key, value in data.items()}
    if isinstance(data, list):
        return [fill(value, directory) for value in data]
    return data


def neutral(data, directory, masks):
    if isinstance(data, bytes):
        data = data.decode("utf-8", "replace")
    if isinstance(data, str):
        data = data.replace(directory, "{dir}")
        for mask in masks:
            data = re.sub(mask, "…", data)
        return data
    if isinstance(data, dict):
        out = {}
        for key, value in data.items():
            name = neutral(key, directory, masks) if isinstance(key, str) else str(key)
            out[name] = 0 if key in NUMBERS and isinstance(value, (int, float)) else neutral(value, directory, masks)
        return out
    if isinstance(data, (list, tuple)):
        return [neutral(value, directory, masks) for value in data]
    if isinstance(data, set):
        return sorted(neutral(value, directory, masks) for value in data)
    return data


def fake(fun, answer):
    """A function that notes what it is asked and answers the same, or fails with the text of `raises`."""
    import copy

    from salt.exceptions import CommandExecutionError

    def answering(*args, **kwargs):
        kwargs = {key: value for key, value in kwargs.items() if not key.startswith("__")}
        ASKED.append({"fun": fun, "args": list(args), "kwargs": copy.deepcopy(kwargs)})
        if isinstance(answer, dict) and "raises" in answer:
            raise CommandExecutionError(answer["raises"])
        return copy.deepcopy(answer)

    return answering


class Salt:
    def __init__(self, base):
        import salt.config
        import salt.loader

        os.makedirs(base + "/etc", exist_ok=True)
        with open(base + "/etc/minion", "w", encoding="utf-8") as file:
            file.write(f"root_dir: {base}/root\nid: recorder\nfile_client: local\nlog_level: quiet\n")
            file.write(f"conf_file: {base}/etc/minion\nenable_fqdns_grains: false\nenable_gpu_grains: false\n")
            file.write("master_type: disable\n")
        opts = salt.config.minion_config(base + "/etc/minion")
        opts["grains"] = salt.loader.grains(opts)
        opts["pillar"] = {}
        opts["test"] = False
        self.opts = opts

    def loaders(self, case, directory, test, context):
        import copy

        import salt.loader

        opts = copy.deepcopy(self.opts)
        opts["cachedir"] = directory + ".cache"
        opts["root_dir"] = directory
        opts["conf_file"] = directory + "/minion"
        opts["file_roots"] = {"base": [directory + "/roots"]}
        opts.update(fill(case.get("opts", {}), directory))
        opts["grains"].update(case.get("grains", {}))
        if os.path.isfile(directory + "/grains"):
            with open(directory + "/grains", encoding="utf-8") as file:
                opts["grains"].update(yaml.safe_load(file) or {})
        opts["pillar"] = fill(case.get("pillar", {}), directory)
        opts["test"] = test
        utils = salt.loader.utils(opts)
        functions = salt.loader.minion_mods(opts, utils=utils, context=context)
        for fun, answer in fill(case.get("fakes", {}), directory).items():
            functions[fun]  # pylint: disable=pointless-statement
            functions._dict[fun] = fake(fun, answer)  # pylint: disable=protected-access
        serializers = salt.loader.serializers(opts)
        states = salt.loader.states(opts, functions, utils, serializers, context=context)
        return functions, states


def call(functions, states, step, directory):
    if step.get("do"):
        shell(step["do"], directory)
    args = fill(step.get("args", {}), directory)
    pos = fill(step.get("pos", []), directory)
    low = fill(step.get("low", {}), directory)
    states.inject_globals = {
        "__low__": low, "__running__": fill(step.get("running", {}), directory), "__lowstate__": [low],
        "__instance_id__": "0", "__env__": "base", "__orchestration_jid__": "1", "__user__": "root",
    }
    try:
        if "exec" in step:
            result = functions[step["exec"]](*pos, **args)
        else:
            result = states[step["call"]](*pos, **args)
        return {"result": result}
    except Exception as error:  # pylint: disable=broad-except
        return {"exception": type(error).__name__, "text": str(error)}


def record(salt, case):
    base = tempfile.mkdtemp(prefix="saltern-case-")
    directory = base + "/d"
    os.makedirs(directory)
    os.environ["HOME"] = base + "/home"
    os.makedirs(base + "/home")
    os.chdir(directory)
    if case.get("setup"):
        text = shell(case["setup"], directory)
        case["printed"] = neutral(text, directory, [])
    context = {}
    loaders = {test: salt.loaders(case, directory, test, context) for test in (True, False)}
    steps = []
    for step in case["steps"]:
        for mode in step.get("runs", "r"):
            one = {key: value for key, value in step.items() if key != "runs"}
            one["test"] = mode == "t"
            if case.get("fresh"):
                loaders = {test: salt.loaders(case, directory, test, context) for test in (True, False)}
            ASKED.clear()
            answer = call(*loaders[mode == "t"], step, directory)
            one.update(neutral(answer, directory, step.get("mask", [])))
            if case.get("fakes"):
                one["asked"] = neutral(ASKED, directory, step.get("mask", []))
            if step.get("show"):
                one["shown"] = neutral(shell(step["show"], directory), directory, step.get("mask", []))
            steps.append(one)
    os.chdir("/")
    shutil.rmtree(base, ignore_errors=True)
    case = {key: value for key, value in case.items() if key != "printed"}
    case["steps"] = steps
    return case


def one_line_each(cases):
    dump = functools.partial(json.dumps, ensure_ascii=False)
    texts = []
    for case in cases:
        head = ["".join((dump(key), ": ", dump(value))) for key, value in case.items() if key != "steps"]
        steps = ",\n  ".join(dump(step) for step in case["steps"])
        texts.append("{" + ", ".join(head) + ', "steps": [\n  ' + steps + "\n]}")
    return "[\n" + ",\n".join(texts) + "\n]\n"


def main():
    os.environ.update(GIT)
    base = tempfile.mkdtemp(prefix="saltern-record-")
    salt = Salt(base)
    total = 0
    for name in sys.argv[1:]:
        with open(f"{HERE}/{name}.yaml", encoding="utf-8") as file:
            cases = yaml.safe_load(file)
        recorded = [record(salt, case) for case in cases]
        total = sum(len(case["steps"]) for case in recorded)
        with open(f"{HERE}/{name}.json", "w", encoding="utf-8") as file:
            file.write(one_line_each(recorded))
        print(f"{name}: {len(recorded)} cases, {total} steps")
    shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
