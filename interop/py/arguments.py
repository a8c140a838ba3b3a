"""Gives a minion arguments in every form LocalClient takes them, and prints what came back as one JSON map.

Arguments: the master's configuration file, a minion id.
"""

import json
import sys
import time

import salt.client

conf, minion = sys.argv[1:3]
client = salt.client.LocalClient(conf)
seen = {}


def plain(value):
    """Leaves out the fields of the job, which functions with any keywords see as keywords, documentation and tracebacks."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if not str(key).startswith("__pub_")}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str) and value.startswith("Passed invalid arguments"):
        return value.split("\n\n")[0]
    if isinstance(value, str) and "The following keyword arguments are not valid" in value:
        return value[value.index("The following keyword") :].strip()
    return value


def of(parts):
    return [plain(part[minion]["ret"]) for part in parts if part]


LISTS = {
    "text stays text": ["5", "1.0", "True", "None", "[1]", "{a: 1}", "", " x "],
    "values keep their types": [5, 1.5, True, None, [1, [2]], {"a": {"b": None}}],
    "named texts are read as YAML": ["a=5", "b=[1, x]", "c={d: 1}", "e=None", "f=", "g=True", "h=x=y", "i=k: v", "j='5'", "k=#"],
    "named texts among others": ["one", "a=1", "two", "b=2", 3],
    "no names": ["a==b", "=x", "2=3", "two words=1", "/a=b", "a=b\nc", "a b=c"],
    "names with marks": ["a.b=1", "a-b=2", "_c=3", "d_e=4"],
    "a marked map": ["one", {"__kwarg__": True, "a": "x=y", "b": 2}],
    "two marked maps": [{"__kwarg__": True, "a": 1}, {"__kwarg__": True, "a": 2, "b": 3}],
    "a marked map and named texts": ["a=1", {"__kwarg__": True, "a": 2}, "a=3"],
    "a map that is not marked": [{"a": 1}, {"__kwarg__": False, "b": 1}],
    "a number like a job id": [20240229131415123456, "20240229131415123456"],
    "nothing": [],
}
for name, arg in LISTS.items():
    seen[name] = plain(client.cmd(minion, "test.arg", arg, timeout=20))
    seen[name + ", kwarg"] = plain(client.cmd(minion, "test.arg", arg, kwarg={"z": {"y": [1]}, "a": "k=v"}, timeout=20))
    seen[name + ", types"] = plain(client.cmd(minion, "test.arg_type", arg, timeout=20))

for name, (fun, arg, kwarg) in {
    "a keyword the function has": ("test.echo", ["text=hi"], None),
    "a keyword it does not have": ("test.echo", ["hi", "nosuch=1"], None),
    "two it does not have": ("test.echo", ["hi", "nosuch=1", "other=[2]"], {"third": {"a": 1}}),
    "one it does not have, in kwarg": ("test.echo", ["hi"], {"nosuch": 1}),
    "the same twice": ("test.echo", ["hi", "text=ho"], None),
    "too many": ("test.echo", ["hi", "ho"], None),
    "too few": ("test.echo", [], None),
    "a user": ("cmd.run", ["id -un", "runas=nobody"], None),
    "a shell": ("cmd.run", ["echo $((1+1))", "python_shell=True"], None),
    "a variable": ("cmd.run", ["echo $X", "python_shell=True", "env={X: y}"], None),
    "a variable, in kwarg": ("cmd.run", ["echo $X"], {"python_shell": True, "env": {"X": "a=b"}}),
    "a command that looks like a name": ("cmd.run", ["X=1 env | grep ^X="], {"python_shell": True}),
    "an assignment": ("cmd.run", ["X=1"], {"python_shell": True}),
    "a pillar": ("pillar.get", ["nosuch", "default={a: [1]}"], None),
    "a state": ("state.single", ["test.nop", "name=x", "test=True"], None),
}.items():
    result = client.cmd(minion, fun, arg, kwarg=kwarg, timeout=20)[minion]
    if fun == "state.single":
        result = [[key, part["result"], part["name"]] for key, part in sorted(result.items())]
    seen[name] = plain(result)

# What a minion of 3008 adds to the fields of the job.
RESOURCES = ["__pub_minion_is_target", "__pub_pure_resource_target", "__pub_resource_targets"]
fields = client.cmd(minion, "test.arg", [], timeout=20)[minion]["kwargs"]
seen["fields about resources"] = {name: fields.get(name, "missing") for name in RESOURCES}

FUNS, ARGS = ["test.arg", "test.echo", "test.arg"], [["1", "a=1"], ["text=[1]"], []]
seen["several functions"] = plain(client.cmd(minion, FUNS, ARGS, timeout=20))
seen["several functions, short list"] = plain(client.cmd(minion, FUNS[:2], [["a=b"], ["x"]], timeout=20))
seen["several functions, one fails"] = plain(client.cmd(minion, ["test.arg", "test.echo"], [["x"], ["x", "nosuch=1"]], timeout=20))

FUN, ARG, KWARG = "test.arg", ["x", "a=[1]", 2], {"b": "c=d"}
seen["full_return"] = plain(client.cmd(minion, FUN, ARG, kwarg=KWARG, full_return=True, timeout=20)[minion]["ret"])
seen["cmd_iter"] = of(client.cmd_iter(minion, FUN, ARG, kwarg=KWARG, timeout=20))
seen["cmd_iter_no_block"] = of(client.cmd_iter_no_block(minion, FUN, ARG, kwarg=KWARG, timeout=20))
seen["cmd_cli"] = of(client.cmd_cli(minion, FUN, ARG, kwarg=KWARG, timeout=20))
seen["cmd_batch"] = [plain(part) for part in client.cmd_batch(minion, FUN, ARG, kwarg=KWARG, batch="1")]
seen["cmd_subset"] = plain(client.cmd_subset(minion, FUN, ARG, kwarg=KWARG, subset=1))
seen["cmd_full_return"] = plain(client.cmd_full_return(minion, FUN, ARG, kwarg=KWARG, timeout=20)[minion]["ret"])
job = client.run_job(minion, FUN, ARG, kwarg=KWARG, listen=True)
seen["run_job"] = of(client.get_iter_returns(job["jid"], job["minions"], timeout=20))
jid = client.cmd_async(minion, FUN, ARG, kwarg=KWARG)
for _ in range(200):
    cached = client.get_cache_returns(jid)
    if minion in cached:
        break
    time.sleep(0.05)
seen["cmd_async"] = plain(cached[minion]["ret"])
print(json.dumps(seen, sort_keys=True, default=repr))
