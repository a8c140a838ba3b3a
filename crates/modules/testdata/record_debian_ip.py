#!/usr/bin/env python3
"""Records the files Salt 3008.5's own module debian_ip writes, and what its functions return.

Usage: PYTHON_OF_SALT record_debian_ip.py > debian_ip.json

Each case begins with the files below and runs one function after the other.
"""

import importlib
import json
import os
import sys
import tempfile

CASES = []
LOOPBACK = "auto lo\niface lo inet loopback\n"
DEBIAN = {"os_family": "Debian", "os": "Debian", "osfullname": "Debian", "osrelease": "12", "osrelease_info": [12]}
UBUNTU = {"os_family": "Debian", "os": "Ubuntu", "osfullname": "Ubuntu", "osrelease": "24.04", "osrelease_info": [24, 4]}
RESOLV = "domain old.example\nsearch old.example\nnameserver 1.1.1.1\n"


def case(fun, *args, files=None, grains=None, **kwargs):
    start = {
        "/etc/network/interfaces": LOOPBACK, "/etc/network/interfaces.d/.keep": "", "/etc/network/if-up.d/.keep": "",
        "/etc/network/if-down.d/.keep": "", "/etc/modprobe.d/.keep": "", "/etc/default/.keep": "",
    }
    start.update(files or {})
    CASES.append({"fun": fun, "args": list(args), "kwargs": kwargs, "files": start, "grains": grains or DEBIAN})


def interface(kind="eth", name="eth0", enabled=True, **kwargs):
    case("build_interface", name, kind, enabled, **kwargs)
    if len(CASES) % 3 == 0:
        case("build_interface", name, kind, enabled, test=True, **kwargs)


def interfaces():
    interface(proto="dhcp")
    interface(enabled=False, proto="dhcp")
    interface(proto="manual", hotplug=True)
    interface(proto="static", ipaddr="10.0.0.5", netmask="255.255.255.0", gateway="10.0.0.1", dns=["1.1.1.1", "8.8.8.8"])
    interface(proto="static", ipaddr="10.0.0.5/24", dns="1.1.1.1 8.8.8.8", search="example.com", mtu=1480, metric="5")
    interface(proto="static", ipaddr="10.0.0.5", netmask=24, ipaddrs=["10.0.0.6", "10.0.0.7"], hwaddr="00:11:22:33:44:55")
    interface(proto="static", ipaddr="10.0.0.5", netmask=40, gateway="bla", hwaddr="xx", mtu="x")
    interface(proto="static", address="10.0.0.5", netmask="0.0.0.255", broadcast="10.0.0.255", network="10.0.0.0", scope="link")
    interface(proto="static", addresses=["10.0.0.6/24"], pointopoint="10.0.0.1", hostname="h", vendor="v", client="c", leasetime=5, leasehours="6")
    interface(proto="dhcp", enable_ipv6=True, ipv6proto="static", ipv6addr="2001:db8::3", ipv6netmask=64, ipv6gateway="2001:db8::1", ipv6ttl=15, mtu=1480, ttl=18, dns=["8.8.8.8"])
    interface(proto="static", ipaddr="10.0.0.5", ipv6proto="auto", ipv6accept_ra=2, ipv6autoconf=1, ipv6privext=2, ipv6dhcp=1)
    interface(ipv6proto="static", ipv6ipaddr="2001:db8::3", ipv6ipaddrs=["2001:db8::4/64"], ipv6netmask="64", enable_ipv4=False)
    interface(proto="static", ipv6proto="static", enable_ipv6=False, ipaddr="1.2.3.4")
    interface(proto="bla", ipaddr="1.2.3.4")
    interface(ipv4proto="static", ipv4ipaddr="1.2.3.4", ipv4netmask="255.0.0.0", ipv6proto="v4tunnel", ipv6endpoint="1.2.3.4", ipv6local="4.3.2.1")
    interface(proto="manual", up_cmds=["ip link set up", "echo a"], pre_up_cmds="true", post_down_cmds=["x y"], ipv6proto="manual")
    interface(proto="dhcp", **{"wireless-mode": "managed", "wpa-ssid": "net", "wpa-psk": "secret", "wpa-ap-scan": 2})
    interface(proto="dhcp", autoneg="on", duplex="full", speed="1000", rx=True, tx="off", gso="no")
    interface(proto="dhcp", speed=1000)
    interface(proto="dhcp", speed="7")
    interface(proto="dhcp", duplex="both")
    interface(proto="dhcp", autoneg="maybe")
    interface(proto="dhcp", lro="x")
    interface("slave", proto="static", master="bond0", ipaddr="1.2.3.4")
    interface("slave", proto="static")
    interface("vlan", "eth0.5", proto="static", ipaddr="10.0.0.5", netmask="255.255.255.0")
    interface("vlan", "bond0.12.3", proto="dhcp")
    interface("foo", proto="dhcp")
    interface("ETH", proto="dhcp")
    interface("source", "source", source="interfaces.d/*")
    interface(proto="dhcp", filename="eth0.cfg")
    interface(proto="dhcp", filename="/etc/network/other")
    interface(proto="dhcp", filename="/no/such/file")
    interface("bridge", "br0", proto="dhcp", ports="eth0 eth1", stp="on", fd=0, hello="2", maxwait=5, ageing="3.5", hw="00:11:22:33:44:55")
    interface("bridge", "br0", proto="static", ipaddr="1.2.3.4", ports=["eth0", "eth1"], stp=False, pathcost="eth0 5", portprio="eth1 7", waitport=5, bridgeprio=9)
    interface("bridge", "br0", proto="dhcp", ports="none", waitport="5 eth0 eth1")
    interface("bridge", "br0", proto="dhcp")
    interface("bridge", "br0", proto="dhcp", ports="eth0", stp="x")
    interface("bridge", "br0", proto="dhcp", ports="eth0", fd="x")
    interface("bridge", "br0", proto="dhcp", ports="eth0", maxwait="x")
    interface("bridge", "br0", proto="dhcp", ports="eth0", hw="x")
    interface("bridge", "br0", proto="dhcp", ports="eth0", pathcost="x")


def bonds():
    bond = {"proto": "static", "ipaddr": "10.0.0.5", "netmask": "255.255.255.0", "slaves": "eth0 eth1"}
    for mode, more in [
        ("0", {"arp_ip_target": ["10.0.0.1", "10.0.0.2"]}), ("balance-rr", {"arp_ip_target": ["10.0.0.1"], "arp_interval": "500"}),
        ("0", {}), ("0", {"arp_ip_target": "x"}), ("0", {"arp_ip_target": ["x"], "arp_interval": "x"}), ("active-backup", {"primary": "eth0"}),
        ("1", {"miimon": 50, "downdelay": "7", "use_carrier": "off"}), ("2", {"arp_ip_target": ["10.0.0.1"], "hashing-algorithm": "layer3+4"}),
        ("2", {"arp_ip_target": ["10.0.0.1"], "hashing-algorithm": "x"}), ("broadcast", {}), ("3", {"use_carrier": "x"}),
        ("802.3ad", {}), ("4", {"lacp_rate": "fast", "ad_select": "1", "hashing-algorithm": "layer2"}), ("4", {"lacp_rate": "slow"}),
        ("4", {"lacp_rate": "x"}), ("balance-tlb", {"primary": "eth1"}), ("6", {"miimon": "x"}), ("balance-alb", {"updelay": "9"}), ("7", {}), (4, {}),
    ]:
        interface("bond", "bond0", mode=mode, **bond, **more)
        case("build_bond", "bond0", mode=mode, **more)
        case("build_bond", "bond0", mode=mode, test=True, **more)
    interface("bond", "bond0", mode="1", proto="dhcp")
    interface("bond", "bond0", mode="1", proto="dhcp", slaves=["eth0", "eth1"])
    case("build_interface", "bond0", "bond", True, mode="1", grains=UBUNTU, **bond)
    case("get_bond", "bond0")
    case("get_bond", "bond0", files={"/etc/modprobe.d/bond0.conf": "alias bond0 bonding\noptions bond0 mode=1 "})


def read():
    text = (
        LOOPBACK + "# a comment\n\nallow-hotplug eth1\nauto eth0 eth1\niface eth0 inet static\n  address 10.0.0.5\n  address 10.0.0.6\n\tnetmask 255.255.255.0\n"
        "    dns-nameservers 1.1.1.1 8.8.8.8\n    dns-search a.b\n    mtu 1500\n    link-speed 1000\n    up echo  a b\n    unknown thing\n"
        "iface eth0 inet6 auto\n    accept_ra 2\n    privext 2\niface eth1 inet dhcp\n    hwaddress 00:11:22:33:44:55\n"
        "iface br0 inet manual\n    bridge_ports eth0\n    bridge_stp on\n    bridge_fd 0\niface bond0 inet manual\n    bond-mode 1\n    bond-slaves eth0 eth1\n    bond_miimon 100\n"
    )
    files = {"/etc/network/interfaces": text}
    for name in ["lo", "eth0", "eth1", "br0", "bond0", "none"]:
        case("get_interface", name, files=files)
    case("build_interface", "eth1", "eth", True, proto="static", ipaddr="1.2.3.4", files=files)
    case("build_interface", "eth0", "eth", True, proto="dhcp", files=files)
    case("build_interface", "eth9", "eth", True, proto="dhcp", files=files)
    case("get_interface", "source", files={"/etc/network/interfaces": LOOPBACK + "source interfaces.d/*\n"})
    case("get_interface", "eth0", files={"/etc/network/interfaces": "iface eth0 inet\n"})
    case("get_interface", "eth0", files={"/etc/network/interfaces": "auto eth0\n"})
    case("get_interface", "eth5", files={"/etc/network/interfaces.d/eth5": "auto eth5\niface eth5 inet dhcp\n"})


def routes():
    listed = [
        {"name": "secure_network", "ipaddr": "10.2.0.0", "netmask": "255.255.255.0", "gateway": "10.1.0.3", "metric": 5},
        {"ipaddr": "10.3.0.0", "netmask": 24}, {"ipaddr": "10.4.0.1", "gateway": "10.0.0.1"}, {},
    ]
    for name in ["eth0", "eth0.5"]:
        case("build_routes", name, routes=listed)
        case("build_routes", name, routes=listed, test=True)
    case("build_routes", "eth0", Routes=listed[:1])
    case("build_routes", "eth0", routes=[])
    case("build_routes", "eth0")
    case("get_routes", "eth0")
    case("get_routes", "eth0", files={"/etc/network/if-up.d/route-eth0": "#!/bin/sh\na\n", "/etc/network/if-down.d/route-eth0": "b\n"})


def system():
    named = {"/etc/hostname": "old\n", "/etc/resolv.conf": RESOLV}
    for kwargs in [
        {"enabled": True, "hostname": "new"}, {"enabled": "no", "hostname": "new"}, {"enabled": "x", "hostname": "n"}, {"hostname": "new"}, {"enabled": True},
        {"Enabled": "yes", "HOSTNAME": "new"}, {"enabled": True, "test": True},
    ]:
        case("build_network_settings", files=named, **kwargs)
    case("build_network_settings", enabled=True)
    case("build_network_settings", hostname="x", files={**named, "/etc/default/networking": "# x\nCONFIGURE_INTERFACES=no\n"})
    case("get_network_settings")
    case("get_network_settings", files=named)
    case("get_network_settings", files={**named, "/etc/default/networking": "# x\nCONFIGURE_INTERFACES=yes\n", "/etc/resolv.conf": "nameserver 1.1.1.1\n"})


def run(module, entry, root):
    for path, text in entry["files"].items():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        with open(root + path, "w", encoding="utf-8") as file:
            file.write(text)
    module.__grains__ = entry["grains"]
    module.__salt__ = {
        "pkg.install": lambda *args: {}, "kmod.load": lambda *args: [], "cmd.run": lambda *args, **kwargs: "",
        "file.set_mode": lambda path, mode: os.chmod(path, int(mode, 8)),
    }
    for name, value in CONSTANTS.items():
        setattr(module, name, root + value)
    module._parse_resolve.__globals__["_DEB_RESOLV_FILE"] = root + CONSTANTS["_DEB_RESOLV_FILE"]
    kwargs = dict(entry["kwargs"])
    if str(kwargs.get("filename", "")).startswith("/"):
        kwargs["filename"] = root + kwargs["filename"]
    try:
        entry["result"] = getattr(module, entry["fun"])(*entry["args"], **kwargs)
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
    module = importlib.import_module("salt.modules.debian_ip")
    CONSTANTS.update({name: value for name, value in vars(module).items() if name.startswith("_DEB_") and isinstance(value, str)})
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
