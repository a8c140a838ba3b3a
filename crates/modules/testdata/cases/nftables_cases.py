"""The packet filter, through nft."""

import json

from record_calls import Said

CASES = []
TABLES = json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "ip", "name": "filter", "handle": 1}},
                                  {"table": {"family": "ip", "name": "nat", "handle": 2}}]})
RULESET = json.dumps({"nftables": [{"metainfo": {}}, {"table": {"family": "ip", "name": "filter"}},
                                   {"chain": {"family": "ip", "table": "filter", "name": "input", "type": "filter", "hook": "input", "prio": 0,
                                              "policy": "accept"}},
                                   {"chain": {"family": "ip", "table": "filter", "name": "mine"}}]})
CHAIN = """table ip filter {
	chain input { # handle 1
		type filter hook input priority 0; policy accept;
		tcp dport 22 accept # handle 7
		ct state { established, related } accept # handle 8
		tcp dport { 443, 80 } accept # handle 9
	}
}"""


def add(fun, *args, more=(), kwargs=None, **rest):
    says = [*more, ("--json .* list tables", Said(TABLES)), ("list tables ip6", Said("table ip6 filter")), ("list tables", Said("table ip filter\ntable ip nat")),
            ("list ruleset", Said(RULESET)), ("list chain", Said(CHAIN)), ("list table ", Said("table ip filter {\n chain input {\n }\n chain mine {\n }\n}")),
            ("--version", Said("nftables v1.0.6 (Lester Gooch #5)"))]
    CASES.append({"fun": "nftables." + fun, "args": list(args), "kwargs": kwargs or {}, "says": says, **rest})


RULES = [
    {"match": "state", "connstate": "RELATED,ESTABLISHED", "jump": "ACCEPT"},
    {"if": "eth0", "of": "lo", "proto": "tcp", "dport": 22, "target": "accept", "counter": True, "name": "x", "save": True, "require": []},
    {"proto": "udp", "dport": "1:5", "sport": "6:7", "j": "drop", "state": "ignored"},
    {"proto": "tcp", "dports": "80,443,8080", "sports": "1,2", "source": "10.0.0.0/8", "destination": "10.1.0.1", "jump": "accept"},
    {"saddr": "1.1.1.1", "daddr": "2.2.2.2", "icmp-type": "echo-request", "pkttype": "broadcast", "jump": "drop"},
    {"icmpv6-type": "echo-request", "reject-with": "icmp type port-unreachable", "dport": 5},
    {"proto": "tcp", "dport": 80, "redirect-to": 8080}, {"proto": "tcp", "dport": 80, "to-port": 8080, "to-ports": 3},
    {"jump": "dnat", "to-destination": "10.0.0.1:80"}, {"jump": "snat", "to-source": "10.0.0.1"}, {},
]
for rule in RULES:
    for family in ("ipv4", "ip6", "inet"):
        add("build_rule", kwargs={**rule, "family": family})
        add("build_rule", "filter", "input", "insert", 3, "True", kwargs={**rule, "family": family})
for full in (True, "true", "True"):
    for args in (["filter", "input", "add"], ["filter", "input", "INSERT"], ["filter", "input"], ["filter"], [""]):
        add("build_rule", *args, kwargs={"full": full, "jump": "drop"})
add("version")
add("list_tables", kwargs={"family": "odd"})
add("build_rule", kwargs={"family": "odd", "jump": "drop"})
for family in ("ipv4", "ipv6"):
    fam = {"family": family}
    for fun in ("list_tables", "get_rules", "get_rules_json"):
        add(fun, kwargs=fam)
        add(fun, kwargs=fam, more=[("", Said(""))])
        add(fun, kwargs=fam, more=[("json", Said("broken"))])
    for table in ("filter", "none"):
        add("check_table", table, kwargs=fam)
        for code in ("", "Error: could not process"):
            more = [("(add|delete|flush|insert) ", Said(code))]
            add("new_table", table, kwargs=fam, more=more)
            add("delete_table", table, kwargs=fam, more=more)
            add("flush", table, kwargs=fam, more=more)
            for chain in ("input", "none", None):
                add("delete_chain", table, chain, kwargs=fam, more=more)
                add("new_chain", table, chain, kwargs=fam, more=more)
                add("new_chain", table, chain, "filter", "input", 0, kwargs=fam, more=more)
                add("new_chain", table, chain, "filter", kwargs=fam, more=more)
                if chain:
                    add("flush", table, chain, kwargs=fam, more=more)
                for rule in ("tcp dport { 22 } accept", "tcp dport { 443, 80 } accept", "drop", None):
                    add("append", table, chain, rule, kwargs=fam, more=more)
                    add("insert", table, chain, None, rule, kwargs=fam, more=more)
                    add("insert", table, chain, 3, rule, kwargs=fam, more=more)
        for chain in ("input", "none", None):
            add("check_chain", table, chain, kwargs=fam)
            for rule in ("tcp dport { 22 } accept", "tcp dport { 443, 80 } accept", "drop", None):
                add("check", table, chain, rule, kwargs=fam)
            # A rule with braces that nft leaves out is not found by Salt.
            add("get_rule_handle", table, chain, "tcp dport { 443, 80 } accept", kwargs=fam)
            add("get_rule_handle", table, chain, "drop", kwargs=fam)
            for policy in ("drop", None):
                for code in (0, 1):
                    add("set_policy", table, chain, policy, kwargs=fam, more=[("add chain", Said("", code))])
        add("delete", table, "input", 3, "drop", kwargs=fam)
        add("delete", table, "none", None, "drop", kwargs=fam)
        add("delete", table, "input", None, "drop", kwargs=fam)
add("set_policy", "filter", "mine", "drop")
add("get_policy", "filter", None)
for there in (True, False):
    add("save", "{dir}/rules", answers={"file.directory_exists": False})
add("get_saved_rules", "{dir}/rules", files={"rules": "#! nft -f\n\ntable ip filter {\n  # remark\n  chain input {\n  }\n}"})
