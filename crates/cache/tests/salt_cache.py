"""Uses the real Salt's cache as its masters do: reads operations as JSON, prints their results.

Arguments: the options of the master as JSON, and a list of operations, each a name with arguments. The operation `dump`
returns everything in the Redis database, except times.
"""

import json
import sys

import salt.cache
import salt.config
import salt.payload


def dump(opts):
    import redis

    server = redis.Redis(
        unix_socket_path=opts["cache.redis.unix_socket_path"],
        password=opts["cache.redis.password"],
        db=opts["cache.redis.db"],
    )
    found = {}
    for key in sorted(server.keys()):
        kind = server.type(key).decode()
        if kind == "string":
            content = server.get(key)
        elif kind == "hash":
            content = sorted(server.hgetall(key).items())
        elif kind == "set":
            content = sorted(server.smembers(key))
        else:
            content = server.zrange(key, 0, -1, withscores=True)
        if b"TSTAMP" in key:
            # The times differ, their form does not.
            if kind == "hash":
                content = [(name, type(salt.payload.loads(at)).__name__, len(at)) for name, at in content]
            else:
                content = (type(salt.payload.loads(content)).__name__, len(content))
        found[repr(key)] = repr(content)
    return found


def main():
    opts = salt.config.DEFAULT_MASTER_OPTS.copy()
    opts.update(json.loads(sys.argv[1]))
    cache = salt.cache.factory(opts)
    results = []
    for name, *args in json.loads(sys.argv[2]):
        result = dump(opts) if name == "dump" else getattr(cache, name)(*args)
        results.append(sorted(result) if name == "list" else result)
    print(json.dumps(results))


main()
