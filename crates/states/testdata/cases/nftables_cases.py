"""The packet filter, through nft."""

CASES = []


def said(result, comment="it is so "):
    return {"result": result, "comment": comment}


def add(fun, answers, *args, **kwargs):
    for test in (False, True):
        CASES.append({"state": "nftables." + fun, "answers": dict(answers), "args": list(args), "kwargs": kwargs, "test": test})


for there in (True, False):
    for done in (True, False):
        chains = {"nftables.check_chain": said(there), "nftables.new_chain": said(done)}
        add("chain_present", chains, "mine")
        add("chain_present", chains, "input", "nat", "filter", "input", 0, "ipv6")
        tables = {"nftables.check_table": said(there), "nftables.new_table": said(done), "nftables.delete_table": said(done)}
        for fun in ("table_present", "table_absent"):
            add(fun, tables, "nat")
            add(fun, tables, "nat", "ipv6", other=1)
        rules = {"nftables.build_rule": lambda full=None, **kw: {"result": True, "rule": f"nft {kw.get('command')} {kw['jump']} " if full else kw["jump"]},
                 "nftables.check": said(there), "nftables.append": said(done), "nftables.insert": said(done), "nftables.delete": said(done),
                 "nftables.save": "rules"}
        for fun in ("append", "insert", "delete"):
            for save in ({}, {"save": True}, {"save": False}):
                add(fun, rules, "web", table="filter", chain="input", position=1, jump="accept", proto="tcp", dport=80, **save)
        add("delete", rules, "web", "ipv6", table="filter", chain="input", jump="accept")
        add("append", rules, "web", "inet", table="filter", chain="input", jump="accept", require=[], order=5)
        for flushed in (True, False):
            flush = {"nftables.check_table": said(there), "nftables.check_chain": said(done), "nftables.flush": said(flushed)}
            for absence in ({}, {"ignore_absence": True}):
                add("flush", flush, "x", chain="input", **absence)
                if not absence:
                    add("flush", flush, "x", "ipv6", table="nat")
for now in ("ACCEPT", "drop", None):
    for done in (True, False):
        for save in ({}, {"save": True}, {"save": True, "save_filename": "/etc/x"}):
            add("set_policy", {"nftables.get_policy": now, "nftables.set_policy": done, "nftables.save": ""}, "x", chain="input", policy="Accept", **save)
