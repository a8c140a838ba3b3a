"""Logs in with each kind of client, and prints what the master lets a user do as one JSON map.

Arguments: the master's configuration file, the right and a wrong password.
"""

import json
import sys

import salt.auth
import salt.client
import salt.config
import salt.exceptions
import salt.runner
import salt.wheel

conf, right, wrong = sys.argv[1:4]
opts = salt.config.client_config(conf)
login = {"eauth": "file", "username": "fred", "password": right}
token = salt.auth.Resolver(opts).mk_token(dict(login))
seen = {"token": sorted(token)}
proofs = {
    "login": login,
    "token": {"token": token["token"]},
    # Another user, because a Saltern master refuses one with many failures.
    "wrong password": dict(login, username="ann", password=wrong),
    "wrong token": {"token": "f" * 64},
}
local = salt.client.LocalClient(conf)
runner = salt.runner.RunnerClient(opts)
wheel = salt.wheel.WheelClient(opts)


def note(name, call):
    try:
        seen[name] = call()
    except salt.exceptions.SaltException as error:
        seen[name] = [type(error).__name__, str(error)]


def of_wheel(low):
    answer = wheel.cmd_sync(low)
    data = answer["data"]
    return [sorted(answer), sorted(data), data["user"], data["success"], data["return"]]


for how, proof in proofs.items():
    for fun, arg in [("test.ping", []), ("cmd.run", ["id"])]:
        note(f"job {fun}, {how}", lambda: local.cmd("one", fun, arg, timeout=20, **proof))
    for low in [
        {"fun": "test.arg", "arg": ["x"], "kwarg": {"y": 1}},
        {"fun": "test.arg", "arg": ["y=1"], "z": 2},
        {"fun": "config.get", "arg": ["transport"]},
        {"fun": "config.get", "arg": ["user"]},
        {"fun": "config.get", "key": "user"},
        {"fun": "jobs.active"},
    ]:
        name = json.dumps(low)
        note(f"runner {name}, {how}", lambda: runner.cmd_sync(dict(low, **proof)))
    note(f"runner later, {how}", lambda: sorted(runner.cmd_async(dict(proof, fun="test.arg", arg=["x"]))))
    for low in [
        {"fun": "key.list", "match": "acc"},
        {"fun": "key.list", "arg": ["acc"], "kwarg": {}},
        {"fun": "key.print", "match": "one"},
        {"fun": "key.reject", "match": "other"},
        {"fun": "key.accept", "match": "new"},
        {"fun": "key.accept", "arg": ["other"], "kwarg": {}},
    ]:
        name = json.dumps(low)
        note(f"wheel {name}, {how}", lambda: of_wheel(dict(low, **proof)))
print(json.dumps(seen, default=str))
