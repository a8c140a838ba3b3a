#!/usr/bin/env python3
"""Records what the states network of the real Salt 3008.5 come to over its modules debian_ip and rh_ip, in a directory of
their own.

Usage: PYTHON_OF_SALT record_network.py > network.json

Each case is a row of steps in one directory. Interfaces are up as the case says.
"""

import importlib
import json
import os
import sys
import tempfile

CASES = []
FAMILIES = {
    "Debian": {
        "module": "salt.modules.debian_ip", "constants": "_DEB_",
        "grains": {"os_family": "Debian", "os": "Debian", "osfullname": "Debian", "osrelease": "12", "osrelease_info": [12]},
        "folders": ["network/interfaces.d", "network/if-up.d", "network/if-down.d", "modprobe.d", "default"],
        "files": {"network/interfaces": "auto lo\niface lo inet loopback\n", "hostname": "old\n"},
    },
    "RedHat": {
        "module": "salt.modules.rh_ip", "constants": "_RH_",
        "grains": {"os_family": "RedHat", "os": "Rocky", "osrelease": "9.4", "osmajorrelease": 9, "num_cpus": 2},
        "folders": ["sysconfig/network-scripts"],
        "files": {"sysconfig/network": "NETWORKING=yes\nHOSTNAME=old\n"},
    },
}
STATIC = {"proto": "static", "ipaddr": "10.0.0.5", "netmask": "255.255.255.0"}


def case(*steps, interfaces=None, family="Debian"):
    CASES.append({"family": family, "interfaces": interfaces or {"eth0": {"up": True}}, "steps": [dict(zip(["fun", "name", "test", "kwargs"], step)) for step in steps]})


def collect():
    for up in [True, False]:
        links = {"eth0": {"up": up}}
        for more in [{}, {"noifupdown": True}, {"enabled": False}, {"addr": "00:11:22:33:44:55"}, {"addr": "x", "hwaddr": "00:11:22:33:44:55"}]:
            settings = {**STATIC, **more}
            case(("managed", "eth0", True, settings), ("managed", "eth0", False, settings), ("managed", "eth0", False, settings),
                 ("managed", "eth0", True, {**settings, "mtu": 1400}), ("managed", "eth0", False, {**settings, "mtu": 1400}), interfaces=links)
    bond = {"type": "bond", "mode": "1", "slaves": "eth1 eth2", "noifupdown": True, **STATIC}
    case(("managed", "bond0", True, bond), ("managed", "bond0", False, bond), ("managed", "bond0", False, bond), ("managed", "bond0", True, {**bond, "miimon": "50"}),
         ("managed", "bond0", False, {**bond, "miimon": "50"}))
    case(("managed", "source", True, {"type": "source", "source": "x/*"}), ("managed", "source", False, {"type": "source", "source": "x/*"}))
    case(("managed", "eth0", False, {"type": "slave"}), ("managed", "eth0", False, {"proto": "dhcp", "duplex": "x"}))
    case(("managed", "label", False, STATIC), interfaces={"lo": {"up": True, "inet": [{"label": "lo"}, {"label": "label"}]}})
    case(("managed", "label", False, STATIC), interfaces={"eth0": {"up": True, "secondary": [{"label": "label"}]}})
    listed = {"routes": [{"name": "a", "ipaddr": "10.2.0.0", "netmask": "255.255.255.0", "gateway": "10.1.0.3"}]}
    more = {"routes": listed["routes"] + [{"ipaddr": "10.3.0.0", "netmask": 24, "gateway": "10.1.0.3"}]}
    case(("routes", "eth0", True, listed), ("routes", "eth0", False, listed), ("routes", "eth0", False, listed), ("routes", "eth0", True, listed),
         ("routes", "eth0", True, more), ("routes", "eth0", False, more), ("routes", "eth0", False, {}))
    named = {"enabled": True, "hostname": "new"}
    case(("system", "system", True, named), ("system", "system", False, named), ("system", "system", False, named), ("system", "system", False, {**named, "enabled": "x"}),
         ("system", "system", False, {**named, "require_reboot": True, "enabled": False}))


def collect_red_hat():
    static = {**STATIC, "proto": "none"}
    for up in [True, False]:
        links = {"eth0": {"up": up, "hwaddr": "aa:bb:cc:dd:ee:ff"}}
        for more in [{}, {"noifupdown": True}, {"enabled": False}, {"addr": "00:11:22:33:44:55"}]:
            settings = {**static, **more}
            case(("managed", "eth0", True, settings), ("managed", "eth0", False, settings), ("managed", "eth0", False, settings),
                 ("managed", "eth0", True, {**settings, "mtu": 1400}), ("managed", "eth0", False, {**settings, "mtu": 1400}), interfaces=links, family="RedHat")
    bond = {"type": "bond", "mode": "1", "miimon": 100, "noifupdown": True, **static}
    case(("managed", "bond0", True, bond), ("managed", "bond0", False, bond), ("managed", "bond0", False, bond), ("managed", "bond0", False, {**bond, "mode": "9"}), family="RedHat")
    ranged = {"ipaddr_start": "10.0.0.6", "ipaddr_end": "10.0.0.9", "clonenum_start": 1, "proto": "none"}
    case(("managed", "eth0-range0", False, ranged), ("managed", "eth0-range0", False, ranged), family="RedHat")
    case(("managed", "eth0", False, {"type": "slave"}), ("managed", "eth1", False, {"type": "slave", "master": "bond0"}), family="RedHat")
    listed = {"routes": [{"name": "a", "ipaddr": "10.2.0.0", "netmask": "255.255.255.0", "gateway": "10.1.0.3"}]}
    more = {"routes": listed["routes"] + [{"ipaddr": "10.3.0.0", "netmask": 24, "gateway": "10.1.0.3"}]}
    case(("routes", "eth0", True, listed), ("routes", "eth0", False, listed), ("routes", "eth0", False, listed), ("routes", "eth0", True, listed),
         ("routes", "eth0", True, more), ("routes", "eth0", False, more), ("routes", "eth0", False, {}), family="RedHat")
    named = {"enabled": True, "hostname": "new"}
    case(("system", "system", True, named), ("system", "system", False, named), ("system", "system", False, named), ("system", "system", False, {**named, "enabled": "x"}),
         ("system", "system", False, {**named, "require_reboot": True, "enabled": False}), family="RedHat")


def main():
    state = importlib.import_module("salt.states.network")
    collect()
    collect_red_hat()
    asked = []

    def noted(name, answer):
        def function(*args, **kwargs):
            asked.append([name, *map(str, args)])
            return answer
        return function

    fakes = {
        "pkg.install": lambda *args: {}, "kmod.load": lambda *args: [], "service.stop": noted("service.stop", True), "service.start": noted("service.start", True),
        "file.set_mode": lambda path, mode: os.chmod(path, int(mode, 8)), "saltutil.refresh_grains": noted("saltutil.refresh_grains", True),
        "cmd.run": lambda command, **kwargs: asked.append(["cmd.run", *(command.split() if isinstance(command, str) else command)]) or "",
        "service.restart": noted("service.restart", True),
    }
    for entry in CASES:
        family = FAMILIES[entry["family"]]
        module = importlib.import_module(family["module"])
        constants = family.setdefault("places", {name: value for name, value in vars(module).items() if name.startswith(family["constants"]) and isinstance(value, str)})
        entry["grains"] = module.__grains__ = state.__grains__ = family["grains"]
        entry["folders"], entry["files"] = family["folders"], family["files"]
        if hasattr(module, "time"):
            module.time.sleep = lambda seconds: None
        module.__salt__ = {**fakes, "network.interfaces": lambda links=entry["interfaces"]: links}
        state.__salt__ = {**fakes, **{f"ip.{name}": function for name, function in vars(module).items() if not name.startswith("_") and callable(function)}}
        state.salt.utils.network.interfaces = lambda links=entry["interfaces"]: links
        with tempfile.TemporaryDirectory() as root:
            for name, value in constants.items():
                setattr(module, name, root + value)
            for folder in family["folders"]:
                os.makedirs(f"{root}/etc/{folder}")
            for name, text in family["files"].items():
                with open(f"{root}/etc/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
            for step in entry["steps"]:
                asked.clear()
                state.__opts__ = {"test": step["test"]}
                step["salt"] = getattr(state, step["fun"])(step["name"], **json.loads(json.dumps(step["kwargs"])))
                step["asked"] = list(asked)
    print("[\n" + ",\n".join(json.dumps(entry) for entry in CASES) + "\n]")
    print(len(CASES), "cases", file=sys.stderr)


if __name__ == "__main__":
    main()
