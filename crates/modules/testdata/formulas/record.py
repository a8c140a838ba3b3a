"""Records what the real Salt renders of the trees beside this file: formulas of the old and the new style, and a pillar.

Run with the Python of an installed Salt, in this directory: `python record.py expected.json`.
"""

import json
import logging
import os
import sys
import tempfile

logging.disable(logging.CRITICAL)

import salt.config
import salt.loader
import salt.pillar

HERE = os.path.dirname(os.path.abspath(__file__))
GRAINS = [
    {"id": "web1", "os": "Debian", "os_family": "Debian", "osarch": "amd64"},
    {"id": "web1", "os": "Ubuntu", "os_family": "Debian", "osarch": "amd64"},
    {"id": "web1", "os": "CentOS", "os_family": "RedHat", "osarch": "x86_64"},
    {"id": "web1", "os": "SUSE", "os_family": "Suse", "osarch": "x86_64"},
]
FILES = ["newstyle/init.sls", "newstyle/config/init.sls", "newstyle/_mapdata.sls", "oldstyle/init.sls"]


def main(path):
    recorded = []
    with tempfile.TemporaryDirectory() as root:
        config = os.path.join(root, "minion")
        with open(config, "w", encoding="utf-8") as out:
            json.dump({"id": "web1", "root_dir": root, "file_client": "local", "file_roots": {"base": [HERE + "/srv"]}, "pillar_roots": {"base": [HERE + "/pillar"]}, "pki_dir": root + "/pki"}, out)
        for grains in GRAINS:
            opts = salt.config.minion_config(config)
            opts["grains"] = dict(grains)
            pillar = salt.pillar.Pillar(opts, dict(grains), "web1", "base").compile_pillar()
            opts["pillar"] = pillar
            functions = salt.loader.minion_mods(opts, utils=salt.loader.utils(opts))
            rendered = {}
            for name in FILES:
                sls = name[: -len(".sls")].replace("/init", "").replace("/", ".")
                rendered[name] = functions["slsutil.renderer"]("salt://" + name, sls=sls)
            recorded.append({"grains": grains, "pillar": pillar, "files": rendered})
    with open(path, "w", encoding="utf-8") as out:
        json.dump(recorded, out, indent=1)
        out.write("\n")


main(sys.argv[1])
