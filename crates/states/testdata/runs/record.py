"""Record what the real Salt says when it applies the trees of trees.yaml.

    python record.py > runs.json

Run with the Python of a Salt 3008.5 environment. What depends on time and place is taken out.
"""

import contextlib
import json
import os
import re
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
TIMES = ("start_time", "duration", "pid")


def tidy(value, root):
    if isinstance(value, dict):
        return {str(tidy(key, root)): tidy(item, root) for key, item in value.items() if key not in TIMES}
    if isinstance(value, (list, tuple)):
        return [tidy(item, root) for item in value]
    if isinstance(value, str):
        value = value.replace(root, "@DIR@")
        return re.sub(r"(An exception occurred in this state: ).*", r"\1…", value, flags=re.S)
    return value


def run(one, salt_config, salt_loader):
    with tempfile.TemporaryDirectory() as root:
        files = one.get("files") or {"t.sls": one.get("sls", "")}
        for path, text in files.items():
            full = os.path.join(root, "srv", path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write("#!yaml\n" + text.replace("@DIR@", root))
        os.makedirs(root + "/pillar")
        with open(root + "/minion", "w", encoding="utf-8") as file:
            json.dump({"root_dir": root, "id": "m1", "file_client": "local", "file_roots": {"base": [root + "/srv"]},
                       "pillar_roots": {"base": [root + "/pillar"]}, "log_level": "quiet"}, file)
        opts = salt_config.minion_config(root + "/minion")
        opts["grains"] = {"id": "m1", "os": "Debian", "os_family": "Debian", "kernel": "Linux", "shell": "/bin/sh", **one.get("grains", {})}
        opts["__cli"], opts["local"] = "salt-call", True
        context = {}
        functions = salt_loader.minion_mods(opts, utils=salt_loader.utils(opts, context=context), context=context)
        fun, args, kwargs = one.get("fun", "state.sls"), one.get("args", []), one.get("kwargs", {})
        if fun == "state.sls" and not args:
            args = ["t"]
        try:
            with contextlib.redirect_stdout(sys.stderr):
                answer = {"return": tidy(functions[fun](*args, **kwargs), root)}
        except Exception as exc:
            answer = {"raised": tidy(f"{type(exc).__name__}: {exc}", root)}
        answer["retcode"] = context.get("retcode", 0)
        return answer


def main():
    import salt.config
    import salt.loader

    with open(HERE + "/trees.yaml", encoding="utf-8") as file:
        trees = yaml.safe_load(file)
    lines = []
    for one in trees:
        lines.append(json.dumps({**one, "answer": run(one, salt.config, salt.loader)}))
        print(one["name"], file=sys.stderr)
    print("[\n" + ",\n".join(lines) + "\n]")


main()
