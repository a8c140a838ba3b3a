"""Rules of the packet filter."""

from record_calls import Each, Raise

CASES = []
RULES = {"filter": {"INPUT": {"policy": "ACCEPT", "rules": [{"jump": ["ACCEPT"]}]}}}
OTHER = {"filter": {"INPUT": {"policy": "DROP", "rules": []}}}


def add(fun, answers, *args, **kwargs):
    for test in (False, True):
        CASES.append({"state": "iptables." + fun, "answers": answers, "args": list(args), "kwargs": kwargs, "test": test})


for there in (True, False):
    for said in (True, "iptables: failed. "):
        for family in ("ipv4", "ipv6"):
            add("chain_present", {"iptables.check_chain": there, "iptables.new_chain": said}, "OURS", "nat", family=family)
            for flushed in ("", "cannot flush "):
                add("chain_absent", {"iptables.check_chain": there, "iptables.flush": flushed,
                                     "iptables.delete_chain": said}, "OURS", family=family)


def rules(there=False, done=True, saved=RULES, now=RULES):
    return {"iptables.build_rule": lambda full=None, **kw: f"iptables -t x {kw.get('jump')} " if full else "-j " + str(kw.get("jump")),
            "iptables.check": there, "iptables.append": done, "iptables.insert": "" if done is True else "no",
            "iptables.delete": "" if done is True else "no", "iptables.save": 'Wrote 1 lines to "/x"',
            "iptables.get_saved_rules": saved, "iptables.get_rules": now}


for there in (True, False, "Error: odd"):
    for done in (True, False):
        for save in ({}, {"save": True}, {"save": "/etc/rules"}, {"save": False}):
            for saved in (RULES, OTHER) if there is True and save else (RULES,):
                answers = rules(there, done, saved)
                add("append", answers, "web", chain="INPUT", jump="ACCEPT", dport=80, **save)
                add("insert", answers, "web", "nat", "ipv6", chain="INPUT", position=1, jump="ACCEPT", **save)
                add("delete", answers, "web", chain="INPUT", jump="ACCEPT", **save)
                add("delete", answers, "web", chain="INPUT", position=2, jump="ACCEPT", **save)
add("append", rules(), "web", chain="INPUT", jump="ACCEPT", require=[{"pkg": "x"}], order=3, unless="x", __agg__=True)

CHUNK = {"state": "iptables", "fun": "append", "__id__": "a", "__sls__": "s", "__env__": "base", "order": 10000, "chain": "INPUT"}
ONE = {**CHUNK, "name": "one", "jump": "ACCEPT"}
TWO = {**CHUNK, "name": "two", "jump": "DROP", "table": "nat", "__agg__": True, "rules": ["x"]}
for fun in ("append", "insert", "delete"):
    for there in (True, False, Each([True, False]), Each([False, True])):
        for save in ({}, {"save": True}, {"save": "/etc/rules"}):
            if fun == "delete" and save:
                continue  # Python ends with an UnboundLocalError or does not save.
            add(fun, rules(there), "all", chain="INPUT", rules=[{**ONE, "position": 1, **save}, {**TWO, "position": 2}])
            add(fun, rules(there, False), "all", family="ipv6", rules=[{**ONE, "position": 1}, {**TWO, "position": 1, **save}])
    add(fun, rules(), "none", rules=[])

for now in ("ACCEPT", "DROP", None):
    for said in ("", "bad policy"):
        for save in ({}, {"save": True}, {"save": "/etc/rules"}):
            add("set_policy", {"iptables.get_policy": now, "iptables.set_policy": said, "iptables.save": "x"}, "p", chain="INPUT",
                policy="DROP", **save)
for said in ("", "no"):
    add("flush", {"iptables.flush": said}, "f", "nat")
    add("flush", {"iptables.flush": said}, "f", chain="INPUT", family="ipv6")
