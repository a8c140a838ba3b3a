#!/usr/bin/env python3
"""Records the files Salt 3008.5's own module rh_ip writes, and what its functions return.

Usage: PYTHON_OF_SALT record_rh_ip.py > rh_ip.json

Each case begins with the files below and runs one function.
"""

import importlib
import json
import os
import sys
import tempfile

CASES = []
SCRIPTS = "/etc/sysconfig/network-scripts"
ROCKY = {"os_family": "RedHat", "os": "Rocky", "osrelease": "9.4", "osmajorrelease": 9, "num_cpus": 4}
CENTOS = {"os_family": "RedHat", "os": "CentOS", "osrelease": "7.9", "osmajorrelease": 7, "num_cpus": 2}
FEDORA = {"os_family": "RedHat", "os": "Fedora", "osrelease": "40", "osmajorrelease": 40, "num_cpus": 4}
AMAZON = {"os_family": "RedHat", "os": "Amazon", "osrelease": "2023", "osmajorrelease": 2023, "num_cpus": 4}


def case(fun, *args, files=None, grains=None, **kwargs):
    start = {f"{SCRIPTS}/.keep": "", **(files or {})}
    CASES.append({"fun": fun, "args": list(args), "kwargs": kwargs, "files": start, "grains": grains or ROCKY})


def interface(kind="eth", name="eth0", enabled=True, **kwargs):
    case("build_interface", name, kind, enabled, **kwargs)
    if len(CASES) % 3 == 0:
        case("build_interface", name, kind, enabled, test=True, **kwargs)


def interfaces():
    static = {"proto": "none", "ipaddr": "10.0.0.5", "netmask": "255.255.255.0"}
    for grains in [ROCKY, CENTOS, FEDORA, AMAZON]:
        case("build_interface", "eth0", "eth", True, grains=grains, gateway="10.0.0.1", **static)
    interface(proto="dhcp")
    interface(enabled=False, proto="bootp", onboot=True)
    interface(proto="static")
    interface(proto="dhcp", dns=["1.1.1.1", "8.8.8.8"], domain=["a.b", "c.d"], mtu="1480", delay=0, zone="public", nickname="n", uuid="u-u")
    interface(proto="dhcp", dns=["1.1.1.1"], peerdns=False, mtu="x")
    interface(name="eth5", proto="dhcp")
    interface(hwaddr="00:11:22:33:44:55", **static)
    interface(hwaddr="xx", **static)
    interface(macaddr="00:11:22:33:44:55", **static)
    interface(macaddr="00:11:22:33:44:55", hwaddr="00:11:22:33:44:55", **static)
    interface(prefix=24, **static)
    interface(proto="none", ipaddr="1.2.3.4", prefix=24, ipaddrs=["10.0.0.6/24", "10.0.0.7/8"], srcaddr="1.2.3.4", arpcheck="no")
    interface(proto="none", ipaddr="1.2.3.4", ipaddrs=["x/24"])
    interface(enable_ipv6=True, ipv6addr="2001:db8::3/64", ipv6gateway="2001:db8::1", ipv6addrs=["2001:db8::4/64", "2001:db8::5/64"], ipv6_autoconf="no",
              ipv6_peerdns=True, ipv6_defroute="yes", ipv6_peerroutes="on", dhcpv6c=False, **static)
    interface(ipv6addr="2001:db8::3/64", ipv6addrs=["bla"], **static)
    interface(ipv6addr="2001:db8::3/64", ipv6gateway="x", enable_ipv6=False, **static)
    interface(onparent="yes", peerroutes="no", defroute=True, stp="off", ipv4_failure_fatal=1, userctl="yes", nm_controlled="on", **static)
    for name in ["onparent", "userctl", "nm_controlled", "defroute"]:
        interface(**{name: "maybe"}, **static)
    interface(name="eth0-range0", ipaddr_start="10.0.0.6", ipaddr_end="10.0.0.9", clonenum_start=3, proto="none")
    interface(autoneg="on", duplex="full", speed="1000", rx=True, tx="off", gso="no", advertise="0x020", channels={"rx": 2, "combined": 4}, **static)
    for bad in [{"speed": 7}, {"duplex": "x"}, {"autoneg": "x"}, {"lro": "x"}, {"advertise": "x"}, {"channels": {"tx": 9}}]:
        interface(**bad, **static)
    interface("slave", master="bond0", proto="dhcp")
    interface("slave")
    interface("slave", master="bond0", proto="x")
    interface("vlan", "eth0.5", **static)
    interface("vlan", "eth0.5", reorder_hdr=True, vlan_id=5, phys_dev="eth0", **static)
    for bad in [{"reorder_hdr": "x"}, {"vlan_id": 0}, {"phys_dev": ""}]:
        interface("vlan", "eth0.5", **bad)
    interface("team", "team0", team_config={"runner": {"name": "loadbalance", "ü": [1, True]}}, **static)
    interface("teamport", "eth1", team_master="team0", team_port_config={"prio": 9})
    interface("teamport", "eth1", master="team0")
    interface("teamport", "eth1", master="team0", team_master="team1")
    interface("teamport", "eth1")
    interface("ipip", "tun0", my_inner_ipaddr="10.0.0.1", my_outer_ipaddr="10.0.0.2")
    interface("ipip", "tun0", my_inner_ipaddr="10.0.0.1")
    interface("ib", "ib0", **static)
    interface("alias", "eth0:1", **static)
    interface("ETH", bridge="br0")
    interface("foo")
    case("build_interface", "br0", "bridge", True, stp="on", delay=5, bridge="x", **static)
    case("build_interface", "br0", "bridge", True, bypassfirewall="no", **static)
    case("build_interface", "br0", "bridge", True, bypassfirewall="x", **static)


def bonds():
    for mode, more in [
        ("0", {"arp_interval": 500, "arp_ip_target": ["10.0.0.1", "10.0.0.2"]}), ("balance-rr", {"miimon": 100}), ("0", {}), ("0", {"arp_interval": 5}),
        ("0", {"arp_interval": 5, "arp_ip_target": "x"}), (0, {"arp_interval": "x"}), ("active-backup", {"primary": "eth0", "miimon": 100}), ("1", {}),
        ("1", {"miimon": 50, "downdelay": 100, "updelay": 0, "use_carrier": "on"}), ("1", {"miimon": 50, "downdelay": 70}), ("1", {"miimon": 0}),
        ("1", {"miimon": 50, "updelay": 70}), ("1", {"miimon": 50, "use_carrier": "x"}), ("2", {"miimon": 50, "hashing-algorithm": "layer3+4"}),
        ("balance-xor", {"miimon": 50, "hashing-algorithm": "encap2+3"}), ("broadcast", {"miimon": 50}), ("3", {}), ("802.3ad", {"miimon": 50}),
        ("4", {"miimon": 50, "lacp_rate": "fast", "ad_select": 1, "hashing-algorithm": "vlan+srcmac"}), ("4", {"miimon": 50, "lacp_rate": "slow"}),
        ("4", {"miimon": 50, "lacp_rate": 1}), ("4", {"miimon": 50, "ad_select": "x"}), ("4", {"miimon": 50, "hashing-algorithm": "x"}), ("4", {}),
        ("balance-tlb", {"miimon": 50, "primary": "eth1"}), (5, {}), ("6", {"miimon": 50, "primary": "eth1"}), ("balance-alb", {}), ("7", {}), (1, {"miimon": "x"}),
    ]:
        interface("bond", "bond0", mode=mode, proto="none", ipaddr="10.0.0.5", **more)
    case("build_interface", "bond0", "bond", True, mode="4", miimon=50, grains=CENTOS, **{"hashing-algorithm": "vlan+srcmac"})
    case("build_interface", "bond0", "bond", True, mode="4", miimon=50, grains=CENTOS, **{"hashing-algorithm": "encap3+4"})
    interface("bond", "bond0")


def read():
    for text in ["DEVICE=\"eth0\"\nONBOOT=\"yes\"\n", "\nDEVICE=eth0\n\n\nA=b\n", ""]:
        case("get_interface", "eth0", files={f"{SCRIPTS}/ifcfg-eth0": text})
        case("get_routes", "eth0", files={f"{SCRIPTS}/route-eth0": text, f"{SCRIPTS}/route6-eth0": "x\n"})
    case("get_interface", "eth0")
    case("get_routes", "eth0")


def routes():
    listed = [
        {"name": "secure_network", "ipaddr": "10.2.0.0", "netmask": "255.255.255.0", "gateway": "10.1.0.3", "metric": 5},
        {"ipaddr": "10.3.0.0", "netmask": 24}, {"ipaddr": "2001:db8::", "netmask": 32, "gateway": "fe80::1"}, {"name": "b", "ipaddr": "2001:db9::1"},
        {"ipaddr": "10.4.0.1", "gateway": "10.0.0.1"},
    ]
    for test in [True, False]:
        for grains in [ROCKY, CENTOS, FEDORA, AMAZON]:
            case("build_routes", "eth0", routes=listed, test=test, grains=grains)
        case("build_routes", "eth0.5", Routes=listed[:1], test=test)
        case("build_routes", "eth0", routes=[], test=test)
        case("build_routes", "eth0", test=test)


def system():
    quoted = {"/etc/sysconfig/network": "# x\n\nNETWORKING=\"yes\"\nHOSTNAME='old'\nGATEWAY=1.2.3.4\nfoo\n"}
    plain = {"/etc/sysconfig/network": "NETWORKING=no\nHOSTNAME=old\nNOZEROCONF=yes\n"}
    for files in [quoted, plain]:
        for kwargs in [
            {"enabled": True, "hostname": "new"}, {"enabled": "no", "hostname": "new", "retain_settings": True}, {"hostname": "new"}, {}, {"enabled": "x", "hostname": "n"},
            {"Enabled": "yes", "HOSTNAME": "'new'", "nozeroconf": "no"}, {"enabled": True, "nozeroconf": "x"}, {"hostname": "n", "retain_settings": True},
            {"enabled": True, "gateway": "1.2.3.4", "gatewaydev": "eth0", "nisdomain": "n", "networkdelay": 5, "devtimeout": 6, "networking_ipv6": True},
            {"enabled": True, "enable_ipv6": True, "ipv6gateway": "fe80::1", "nozeroconf": True},
        ]:
            case("build_network_settings", files=files, test=False, **kwargs)
        case("build_network_settings", files=files, test=True, enabled=True, hostname="new")
        case("get_network_settings", files=files)
    case("build_network_settings", test=False, enabled=True)
    case("build_network_settings", test=False, enabled=True, hostname="new")
    case("get_network_settings")


def run(module, entry, root):
    for path, text in entry["files"].items():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        with open(root + path, "w", encoding="utf-8") as file:
            file.write(text)
    module.__grains__ = entry["grains"]
    entry["asked"] = []
    module.__salt__ = {
        "pkg.version": lambda name: "", "pkg.install": lambda name: {}, "sysctl.persist": lambda name, value: entry["asked"].append([name, value]),
        "network.interfaces": lambda: {"eth0": {"up": True, "hwaddr": "aa:bb:cc:dd:ee:ff"}, "eth5": {"up": False}},
    }
    for name, value in CONSTANTS.items():
        setattr(module, name, root + value)
    try:
        entry["result"] = getattr(module, entry["fun"])(*entry["args"], **json.loads(json.dumps(entry["kwargs"])))
    except Exception as error:  # pylint: disable=broad-except
        entry["raises"] = [type(error).__name__, str(error).replace(root, "")]
    after = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if name != ".keep":
                with open(path, encoding="utf-8") as file:
                    after[path[len(root):]] = [file.read(), oct(os.stat(path).st_mode & 0o777)]
    entry["after"] = after


CONSTANTS = {}


def main():
    module = importlib.import_module("salt.modules.rh_ip")
    CONSTANTS.update({name: value for name, value in vars(module).items() if name.startswith("_RH_") and isinstance(value, str)})
    os.umask(0o022)
    for collect in [interfaces, bonds, read, routes, system]:
        collect()
    for entry in CASES:
        with tempfile.TemporaryDirectory() as root:
            run(module, entry, root)
    print("[\n" + ",\n".join(json.dumps(entry) for entry in CASES) + "\n]")
    print(len(CASES), "cases", file=sys.stderr)


if __name__ == "__main__":
    main()
