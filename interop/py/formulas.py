"""Compares what the real Salt and ours make of state trees: for each SLS file the low data, or the errors.

usage: formulas.py --real PYTHON --ours PROGRAM --work DIR [--jobs N] [--system NAME]… FOLDER [TREE…]
       formulas.py --real … --ours … --work … --states salt --pillar pillar FOLDER [TREE…]
       formulas.py --real … --ours … --work … --config FILE… FOLDER TREE

FOLDER holds checked-out trees, one folder each: formulas with their `pillar.example`, or whole trees whose states and
pillar lie in the folders that --states and --pillar name. A FILE of --config is a JSON object of minion options that a
tree expects (id, roots, nodegroups, grains); TREE in its texts stands for the tree's folder. Then the whole highstate is
asked for, too (`state.show_lowstate`). PYTHON is an interpreter that has Salt, PROGRAM is `saltern`.
Nothing is applied: `state.show_low_sls` is asked for each SLS file, on each of the systems below, without a pillar, with
the example's and, with --test-pillars, with each of `test/salt/pillar`. What the real Salt answers is kept in DIR and asked
once. Ends with 1 if anything differs.
"""

import argparse
import concurrent.futures
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()

COMMON_GRAINS = {
    "kernel": "Linux",
    "cpuarch": "x86_64",
    "init": "systemd",
    "systemd": {"version": "252", "features": "+PAM +AUDIT +SELINUX"},
    "virtual": "kvm",
    "virtual_subtype": "",
    "manufacturer": "QEMU",
    "fqdn": "host.example.org",
    "host": "host",
    "localhost": "host",
    "nodename": "host",
    "domain": "example.org",
    "ipv4": ["127.0.0.1", "192.0.2.10"],
    "ipv6": ["::1", "2001:db8::10"],
    "fqdn_ip4": ["192.0.2.10"],
    "fqdn_ip6": ["2001:db8::10"],
    "ip4_interfaces": {"lo": ["127.0.0.1"], "eth0": ["192.0.2.10"]},
    "ip6_interfaces": {"lo": ["::1"], "eth0": ["2001:db8::10"]},
    "ip_interfaces": {"lo": ["127.0.0.1", "::1"], "eth0": ["192.0.2.10", "2001:db8::10"]},
    "hwaddr_interfaces": {"lo": "00:00:00:00:00:00", "eth0": "52:54:00:12:34:56"},
    "mem_total": 3915,
    "num_cpus": 2,
    "locale_info": {"defaultlanguage": "en_US", "defaultencoding": "UTF-8", "detectedencoding": "utf-8"},
    "selinux": {"enabled": False, "enforced": "Disabled"},
    "roles": [],
    "saltversion": "3008.5",
    "saltversioninfo": [3008, 5],
    "saltpath": "/usr/lib/python3/dist-packages/salt",
    "pythonversion": [3, 11, 2, "final", 0],
    "pythonpath": [],
    "pythonexecutable": "/usr/bin/python3",
}

SYSTEMS = {
    "debian": {
        "os": "Debian",
        "os_family": "Debian",
        "osarch": "amd64",
        "oscodename": "bookworm",
        "osfinger": "Debian-12",
        "osfullname": "Debian GNU/Linux",
        "osmajorrelease": 12,
        "osrelease": "12",
        "osrelease_info": [12],
        "kernelrelease": "6.1.0-18-amd64",
        "lsb_distrib_id": "Debian",
        "lsb_distrib_codename": "bookworm",
        "lsb_distrib_release": "12",
    },
    "rocky": {
        "os": "Rocky",
        "os_family": "RedHat",
        "osarch": "x86_64",
        "oscodename": "Blue Onyx",
        "osfinger": "Rocky Linux-9",
        "osfullname": "Rocky Linux",
        "osmajorrelease": 9,
        "osrelease": "9.3",
        "osrelease_info": [9, 3],
        "kernelrelease": "5.14.0-362.8.1.el9_3.x86_64",
        "lsb_distrib_id": "Rocky Linux",
        "lsb_distrib_codename": "Blue Onyx",
        "lsb_distrib_release": "9.3",
    },
    "suse": {
        "os": "SUSE",
        "os_family": "Suse",
        "osarch": "x86_64",
        "oscodename": "openSUSE Leap 15.5",
        "osfinger": "Leap-15",
        "osfullname": "Leap",
        "osmajorrelease": 15,
        "osrelease": "15.5",
        "osrelease_info": [15, 5],
        "kernelrelease": "5.14.21-150500.53-default",
        "lsb_distrib_id": "SUSE",
        "lsb_distrib_codename": "openSUSE Leap 15.5",
        "lsb_distrib_release": "15.5",
    },
}

# Folders of a tree that hold no states.
NO_STATES = {"bin", "dev", "docs", "pillar", "test", "tests"}


def sls_names(root):
    """The SLS files below a folder, by the names they are asked by."""
    names = []
    for path in sorted(root.rglob("*.sls")):
        parts = path.relative_to(root).with_suffix("").parts
        outside = parts[0] in NO_STATES or parts[0].startswith(("_", "."))
        if outside or any("." in part for part in parts) or parts == ("top",):
            continue
        if parts[-1] == "init":
            parts = parts[:-1]
        names.append(".".join(parts))
    return [name for name in names if name]


def pillars(options, tree):
    """The pillars a tree is tried with: their names, each with its file or folder."""
    found = {"plain": None}
    if options.config:
        return {file.stem: file for file in options.config}
    if options.pillar:
        found["pillar"] = tree / options.pillar
    elif (tree / "pillar.example").exists():
        found["pillar"] = tree / "pillar.example"
    if options.test_pillars:
        tests = sorted((tree / "test/salt/pillar").glob("*.sls"))
        found |= {f"test-{file.stem}": file for file in tests if file.stem != "top" and file.is_file()}
    return found


class Case:
    """A tree on a system, with or without a pillar."""

    def __init__(self, options, tree, system, variant, pillar):
        self.options, self.tree, self.system, self.pillar = options, tree, system, pillar
        self.name = f"{tree.name} {system} {variant}"
        self.folder = options.work / tree.name / f"{system}-{variant}"
        self.states = tree / options.states if options.states else tree
        self.laid_over = {}
        if options.config:
            self.laid_over = json.loads(pillar.read_text().replace("TREE", str(tree)))
            self.pillar, self.states = None, self.laid_over.get("file_roots", {}).get("base", [self.states])
            names = [name for folder in self.states for name in sls_names(Path(folder))]
            self.names = [PILLAR, HIGHSTATE, *dict.fromkeys(names)]
            return
        self.names = sls_names(self.states)
        self.names = [PILLAR, *self.names] if pillar else self.names

    def prepare(self):
        pillar = self.folder / "pillar"
        pillar.mkdir(parents=True, exist_ok=True)
        if self.pillar and self.pillar.is_dir():
            pillar = self.pillar
        elif self.pillar:
            (pillar / "top.sls").write_text("base:\n  '*':\n    - example\n")
            (pillar / "example.sls").write_bytes(self.pillar.read_bytes())
        for side in ("real", "ours"):
            root = self.folder / side
            root.mkdir(exist_ok=True)
            config = {
                "root_dir": str(root),
                "id": "host.example.org",
                "file_client": "local",
                "file_roots": {"base": [str(self.states)]},
                "pillar_roots": {"base": [str(pillar)]},
                "enable_fqdns_grains": False,
                "enable_gpu_grains": False,
                "log_level": "quiet",
                "log_level_logfile": "quiet",
                **self.laid_over,
            }
            config["grains"] = {**COMMON_GRAINS, **SYSTEMS[self.system], **self.laid_over.get("grains", {})}
            (root / "minion").write_text(json.dumps(config))

    def real(self):
        kept = self.folder / "real.json"
        if not kept.exists():
            command = [self.options.real, HERE, "--answer", self.folder / "real/minion", *self.names]
            answers, seconds = timed(command, self.options.limit)
            if answers.returncode:
                sys.exit(f"{self.name}: the real Salt failed:\n{answers.stderr}")
            kept.write_text(json.dumps({"answers": json.loads(answers.stdout), "seconds": seconds}))
        kept = json.loads(kept.read_text(), object_pairs_hook=Pairs)
        return kept["answers"], kept["seconds"]

    def ours(self):
        answers, seconds = {}, 0
        root = self.folder / "ours"
        for name in self.names:
            function = ASKED.get(name) or ["state.show_low_sls", name]
            command = [self.options.ours, "salt-call", "--local", "--out=json", "-c", root, *function]
            output, used = timed(command, self.options.limit)
            seconds += used
            try:
                answers[name] = json.loads(output.stdout, object_pairs_hook=Pairs)["local"]
            except ValueError:
                words = output.stderr.strip()
                answers[name] = words.removeprefix(f"Error running '{function[0]}': ") or f"exit code {output.returncode}"
        (self.folder / "ours.json").write_text(json.dumps(answers))
        return answers, seconds


PILLAR, HIGHSTATE = "(pillar)", "(highstate)"
ASKED = {PILLAR: ["pillar.items", "unmask=True"], HIGHSTATE: ["state.show_lowstate"]}


class Pairs(dict):
    """A JSON object."""


def timed(command, limit):
    """Runs a program; its output, and the seconds of CPU it used."""
    with open(os.devnull) as nothing, scratch() as out, scratch() as errors:
        process = subprocess.Popen([str(word) for word in command], stdin=nothing, stdout=out, stderr=errors)
        end = time.monotonic() + limit
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                process.kill()
                end += limit
            time.sleep(0.005)
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, errors):
            file.seek(0)
        output = subprocess.CompletedProcess(command, process.returncode, out.read(), errors.read())
    return output, usage.ru_utime + usage.ru_stime


def scratch():
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def answer(config, names):
    """What the real Salt says, all in one process."""
    import logging

    import salt.client
    import salt.config
    import salt.utils.json

    logging.disable(logging.CRITICAL)
    remember_work()
    answers = {}
    with contextlib.redirect_stdout(io.StringIO()):
        opts = salt.config.minion_config(config)
        opts["config_dir"] = os.path.dirname(config)  # as salt-call has it
        caller = salt.client.Caller(mopts=opts)
        for name in names:
            try:
                if name == PILLAR:
                    answers[name] = caller.cmd("pillar.items", unmask=True)
                elif name == HIGHSTATE:
                    answers[name] = caller.cmd("state.show_lowstate")
                else:
                    answers[name] = caller.cmd("state.show_low_sls", name)
            except BaseException as error:  # whatever ends salt-call ends only this answer
                answers[name] = str(error)
    salt.utils.json.dump(answers, sys.stdout, default=repr)


def remember_work():
    """Lets the real Salt compile each template once, and load its modules and the pillar once.

    The pillar is packed and unpacked, as on its way from a master: in `salt-call --local` it has ordered dictionaries,
    which print in another order than all others.
    """
    import jinja2
    import salt.payload
    import salt.state

    compile_template, compiled = jinja2.Environment.compile, {}
    new_high_state, high_state, packed = salt.state.HighState, [], []

    def compiled_once(environment, source, name=None, filename=None, *others, **more):
        key = (type(environment), environment.trim_blocks, environment.lstrip_blocks, source, name, filename)
        if others or more or not isinstance(source, str):
            return compile_template(environment, source, name, filename, *others, **more)
        if key not in compiled:
            compiled[key] = compile_template(environment, source, name, filename)
        return compiled[key]

    class HighState(new_high_state):
        def __new__(cls, *_, **__):
            # Templates may have changed the pillar; then all is made anew.
            if high_state and salt.payload.dumps(dict(high_state[0].state.functions.pack["__pillar__"])) != packed[0]:
                high_state.clear()
            return high_state[0] if high_state else super().__new__(cls)

        def __init__(self, *arguments, **named):
            if not high_state:
                super().__init__(*arguments, **named)
                high_state.append(self)
            self.iorder, self.building_highstate = 10000, salt.state.HashableOrderedDict()
            self.state.dependency_dag = salt.state.DependencyGraph()
            self.state._processed_sls_files = set()
            for key in [key for key in self.state.state_con if key != "fileclient"]:
                del self.state.state_con[key]

        def __exit__(self, *_):
            """Stays open for the next file."""

    def as_from_a_master(state):
        packed[:] = [salt.payload.dumps(gather_pillar(state))]
        return salt.payload.loads(packed[0])

    gather_pillar, salt.state.State._gather_pillar = salt.state.State._gather_pillar, as_from_a_master
    jinja2.Environment.compile = compiled_once
    salt.state.HighState = HighState


# What 3008.5 calls dictionaries in sentences about missing keys.
DICTIONARY = re.compile(r"'(collections\.OrderedDict|salt\.utils\.optsdict\.\w+) object'")
TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\):.*?(?=; line |\n---|\Z)", re.DOTALL)


def plain(value, root):
    """Leaves out where the files lie, and where in its own source the real Salt failed."""
    if isinstance(value, dict):
        return {plain(key, root): plain(item, root) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, root) for item in value]
    if isinstance(value, str):
        return DICTIONARY.sub("'dict object'", TRACEBACK.sub("", value.replace(root, "ROOT")))
    return value


def difference(real, ours, path=""):
    """The first place where two values differ, as a sentence, or None."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in real:
            if key not in ours:
                return f"{path}.{key}: missing, Salt has {short(real[key])}"
            found = difference(real[key], ours[key], f"{path}.{key}")
            if found:
                return found
        more = [key for key in ours if key not in real]
        if more:
            return f"{path}.{more[0]}: only ours has {short(ours[more[0]])}"
        if list(real) != list(ours):
            return f"{path}: order of keys {short(list(real))}, ours {short(list(ours))}"
        return None
    if isinstance(real, list) and isinstance(ours, list):
        for index, (one, other) in enumerate(zip(real, ours)):
            found = difference(one, other, f"{path}[{index}]")
            if found:
                return found
        if len(real) != len(ours):
            more = (real if len(real) > len(ours) else ours)[min(len(real), len(ours))]
            return f"{path}: {len(real)} items, ours {len(ours)}: {short(more)}"
        return None
    if type(real) is not type(ours) or real != ours:
        return f"{path}:\n        Salt {short(real)}\n        ours {short(ours)}"
    return None


def short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 600 else text[:400] + " … " + text[-200:]


def compare(case):
    case.prepare()
    real, real_seconds = case.real()
    ours, our_seconds = case.ours()
    found = []
    for name in case.names:
        text = difference(plain(real[name], str(case.folder / "real")), plain(ours[name], str(case.folder / "ours")))
        if text:
            found.append(f"{case.name} {name}: {text}")
    return case, found, real_seconds, our_seconds, sum(refused(real[name]) for name in case.names)


def refused(answer):
    """Whether an answer tells of errors."""
    return isinstance(answer, str) or (isinstance(answer, list) and any(isinstance(item, str) for item in answer))


def main():
    if sys.argv[1:2] == ["--answer"]:
        return answer(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--real", required=True, help="an interpreter that has Salt")
    parser.add_argument("--ours", required=True, help="the program saltern")
    parser.add_argument("--work", type=Path, required=True, help="where answers are kept")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1200, help="seconds a program may take")
    parser.add_argument("--system", action="append", choices=list(SYSTEMS))
    parser.add_argument("--test-pillars", action="store_true", help="try test/salt/pillar/*.sls too")
    parser.add_argument("--states", help="the folder of each tree that holds its states")
    parser.add_argument("--pillar", help="the folder of each tree that is its pillar")
    parser.add_argument("--config", type=Path, action="append", default=[], help="options of the minion, as JSON")
    parser.add_argument("folder", type=Path)
    parser.add_argument("trees", nargs="*")
    options = parser.parse_args()
    options.work, options.folder = options.work.resolve(), options.folder.resolve()
    names = options.trees or sorted(path.name for path in options.folder.iterdir() if path.is_dir())
    cases = []
    for name in names:
        tree = options.folder / name
        for system in options.system or SYSTEMS:
            cases += [Case(options, tree, system, *variant) for variant in pillars(options, tree).items()]
    table, all_found, total = {}, [], [0.0, 0.0]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, found, real_seconds, our_seconds, errors in pool.map(compare, cases):
            row = table.setdefault(case.tree.name, [0, 0, 0])
            row[0] += len(case.names)
            row[1] += len(found)
            row[2] += errors
            total[0] += real_seconds
            total[1] += our_seconds
            all_found += found
            for text in found:
                print(text, flush=True)
    print(f"\n{'tree':28} {'answers':>8} {'equal':>8} {'differ':>8} {'Salt has errors':>16}")
    for name, (answers, differ, errors) in table.items():
        print(f"{name:28} {answers:8} {answers - differ:8} {differ:8} {errors:16}")
    answers, differ = sum(row[0] for row in table.values()), len(all_found)
    print(f"{'all':28} {answers:8} {answers - differ:8} {differ:8}")
    print(f"CPU: Salt {total[0]:.0f} s, ours {total[1]:.0f} s")
    sys.exit(1 if all_found else 0)


main()
