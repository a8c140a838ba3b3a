#!/usr/bin/env python3
"""Records how Salt's apt module reads, changes and removes sources in scratch trees, as apt_repos.json.

Run with the Python of a Salt 3008.5 installation.
"""

import copy
import json
import os
import shutil
import tempfile

import salt.modules.aptpkg as apt
import salt.utils.path
import salt.utils.pkg.deb as deb

HERE = os.path.dirname(os.path.abspath(__file__))
LINES = """# the main archive
deb http://deb.debian.org/debian bookworm main contrib
deb-src http://deb.debian.org/debian bookworm main
# deb http://old.example/debian jessie main

deb [arch=amd64,i386 signed-by=/usr/share/keyrings/k.gpg] http://example.org/apt/ stable main extra # a remark
deb [trusted=yes] file:/srv/repo ./
"""
DOCKER = "deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://download.docker.com/linux/debian bookworm stable\n"
STANZAS = """# remark
Types: deb deb-src
URIs: http://deb.debian.org/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://security.debian.org/debian-security/
Suites: trixie-security
Components: main non-free
Enabled: no
Architectures: amd64
"""
TREES = {
    "lines": {"sources.list": LINES, "sources.list.d/docker.list": DOCKER},
    "stanzas": {"sources.list.d/debian.sources": STANZAS},
    "both": {"sources.list": LINES, "sources.list.d/debian.sources": STANZAS, "sources.list.d/docker.list": DOCKER},
    "nothing": {"sources.list": ""},
}
DEFINITIONS = [
    "deb http://deb.debian.org/debian bookworm main",
    "deb http://deb.debian.org/debian/ bookworm contrib",
    "deb http://deb.debian.org/debian bookworm main contrib",
    "deb-src http://deb.debian.org/debian bookworm main",
    "deb [arch=amd64,i386 signed-by=/usr/share/keyrings/k.gpg] http://example.org/apt stable main extra",
    "deb [signed-by=/etc/apt/keyrings/docker.asc arch=amd64] https://download.docker.com/linux/debian bookworm stable",
    "deb [arch=amd64] https://download.docker.com/linux/debian bookworm stable edge",
    "deb [trusted=yes] http://new.example/debian sid main",
    "deb [signed-by=/k.gpg] http://new.example/debian sid main non-free # why",
    "deb http://deb.debian.org/debian trixie main",
    "deb http://deb.debian.org/debian trixie-updates main",
    "deb http://security.debian.org/debian-security trixie-security non-free",
    "deb http://nowhere.example/ x y",
    "deb [trusted=yes] file:/srv/repo ./",
    "nonsense",
    "deb http://x",
]
SETTINGS = [
    {}, {"comps": "main,universe"}, {"disabled": True}, {"file": "/etc/apt/sources.list.d/own.list"},
    {"file": "/etc/apt/sources.list.d/own.sources", "trusted": True}, {"architectures": "arm64,amd64"},
    {"comments": ["two", "words"]}, {"enabled": False, "dist": "bookworm", "type": "deb"}, {"consolidate": True},
]


def files(root):
    found = {}
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as text:
                found[path[len(root):]] = text.read()
    return dict(sorted(found.items()))


def run(tree, operation, definition, settings):
    root = tempfile.mkdtemp()
    os.makedirs(f"{root}/etc/apt/sources.list.d")
    for name, text in TREES[tree].items():
        with open(f"{root}/etc/apt/{name}", "w", encoding="utf-8") as out:
            out.write(text)
    deb._APT_SOURCES_LIST = f"{root}/etc/apt/sources.list"
    deb._APT_SOURCES_PARTSDIR = f"{root}/etc/apt/sources.list.d/"
    given = copy.deepcopy(settings)
    if "file" in given:
        given["file"] = root + given["file"]
    case = {"tree": tree, "operation": operation, "definition": definition, "settings": settings}
    try:
        if operation == "list":
            result = apt.list_repos()
        elif operation == "get":
            result = apt.get_repo(definition)
        elif operation == "expand":
            result = apt._expand_repo_def("Debian", "bookworm", repo=definition, **given)
        elif operation == "mod":
            result = apt.mod_repo(definition, aptkey=False, **given)[definition]
        else:
            result = apt.del_repo(definition)
        case["result"] = json.loads(json.dumps(result).replace(root, ""))
        if operation in ("mod", "del"):
            case["files"] = json.loads(json.dumps(files(root)).replace(root, ""))
    except Exception as error:  # pylint: disable=broad-except
        case["error"] = str(error).replace(root, "")
    shutil.rmtree(root)
    return case


def main():
    apt.__grains__ = {"os": "Debian", "oscodename": "bookworm", "os_family": "Debian"}
    apt.__opts__ = {"test": False}
    apt.__salt__ = {"config.option": lambda name: []}
    apt.__context__ = {}
    apt.refresh_db = lambda *args, **kwargs: {}
    salt.utils.path.which = lambda name: None
    real = os.listdir
    os.listdir = lambda path=".": sorted(real(path))
    cases = [run(tree, "list", "", {}) for tree in TREES]
    for tree in TREES:
        for definition in DEFINITIONS:
            cases.append(run(tree, "get", definition, {}))
            cases.append(run(tree, "del", definition, {}))
            cases.append(run(tree, "mod", definition, {}))
    for settings in SETTINGS[1:]:
        for definition in DEFINITIONS[:10]:
            cases.append(run("lines", "mod", definition, settings))
            if not settings.get("consolidate"):
                cases.append(run("both", "mod", definition, settings))
    for settings in SETTINGS[:-1]:
        for definition in DEFINITIONS[:-2]:
            cases.append(run("nothing", "expand", definition, settings))
    with open(f"{HERE}/apt_repos.json", "w", encoding="utf-8") as out:
        out.write('{"trees": ' + json.dumps(TREES) + ',\n"cases": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]}\n")
    print(len(cases), sum("error" in case for case in cases))
    print({case["error"] for case in cases if "error" in case})


if __name__ == "__main__":
    main()
