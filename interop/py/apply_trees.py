"""Applies state trees with the real Salt, all in one process, and prints what each came to.

usage: apply_trees.py MINION_CONFIG NAME…

Prints one JSON value: name -> [test, real, again], each {"data": …, "text": …} or {"error": …}.
"""

import io
import json
import logging
import sys

import salt.client
import salt.config
import salt.output


def applied(caller, name, **kwargs):
    try:
        data = caller.cmd("state.apply", name, **kwargs)
    except BaseException as error:  # whatever ends salt-call ends only this tree
        return {"error": str(error)}
    try:
        text = salt.output.out_format({"local": data}, "highstate", caller.opts)
    except Exception as error:
        text = f"not printable: {error}"
    return {"data": data, "text": text}


def main():
    config, *names = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    printed, sys.stdout = sys.stdout, io.StringIO()
    opts = salt.config.minion_config(config)
    opts["color"] = False
    caller = salt.client.Caller(mopts=opts)
    results = {}
    for name in names:
        results[name] = [applied(caller, name, test=test) for test in (True, False, False)]
    json.dump(results, printed, default=str)


main()
