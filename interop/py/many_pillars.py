"""Compiles the pillar of many minions with the real Salt, one after the other in one process, as a master's worker does.

usage: many_pillars.py MASTER_CONFIG COUNT
"""

import sys

import salt.config
import salt.pillar


def main():
    opts = salt.config.master_config(sys.argv[1])
    for number in range(int(sys.argv[2])):
        minion = f"web{number}"
        grains = {"id": minion, "os_family": "Debian", "num_cpus": 4 + number % 4}
        pillar = salt.pillar.get_pillar(opts, grains, minion, "base").compile_pillar()
        assert "_errors" not in pillar, pillar
        assert pillar["host"] == minion and len(pillar) == 14, pillar


main()
