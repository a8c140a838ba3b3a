"""Uses the real Salt's cache as its masters do: reads operations as JSON, prints their results.

Arguments: the options of the master as JSON, and a list of operations, each a name with arguments. The operation `dump`
returns everything in the store, except times.
"""

import json
import sys

import salt.cache
import salt.config
import salt.payload


def shape(packed):
    """The times differ, their form does not."""
    return (type(salt.payload.loads(packed)).__name__, len(packed))


def dump_redis(opts):
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
            if kind == "hash":
                content = [(name, shape(at)) for name, at in content]
            else:
                content = shape(content)
        found[repr(key)] = repr(content)
    return found


def dump_consul(opts):
    import consul

    agent = consul.Consul(
        host=opts["consul.host"],
        port=opts["consul.port"],
        token=opts["consul.token"],
    )
    _, entries = agent.kv.get("", recurse=True)
    found = {}
    for entry in entries or []:
        key, value = entry["Key"], entry["Value"]
        found[key] = repr(shape(value) if key.endswith(".tstamp") else value)
    return found


def dump_etcd(opts):
    import etcd

    client = etcd.Client(host=opts["etcd.host"], port=opts["etcd.port"])
    prefix = opts["etcd.path_prefix"]
    found = {}
    try:
        entries = client.read(prefix, recursive=True).leaves
    except etcd.EtcdKeyNotFound:
        return found
    for entry in entries:
        if entry.dir:
            # Salt leaves empty directories.
            continue
        value = entry.value
        if entry.key.endswith(".tstamp"):
            value = (len(value), value.isdigit())
        found[entry.key[len(prefix) :]] = repr(value)
    return found


def dump_mysql(opts):
    import pymysql

    server = pymysql.connect(
        unix_socket=opts["mysql.unix_socket"],
        user=opts["mysql.user"],
        passwd=opts["mysql.password"],
        db=opts["mysql.database"],
    )
    with server.cursor() as cursor:
        cursor.execute("SELECT bank, etcd_key, data, last_update IS NOT NULL FROM salt")
        return {f"{bank} {key}": repr(rest) for bank, key, *rest in cursor.fetchall()}


DUMPS = {"redis": dump_redis, "consul": dump_consul, "etcd": dump_etcd, "mysql": dump_mysql}


def main():
    opts = salt.config.DEFAULT_MASTER_OPTS.copy()
    opts.update(json.loads(sys.argv[1]))
    cache = salt.cache.factory(opts)
    results = []
    for name, *args in json.loads(sys.argv[2]):
        if name == "dump":
            result = DUMPS[opts["cache"]](opts)
        else:
            result = getattr(cache, name)(*args)
        results.append(sorted(result) if name == "list" else result)
    print(json.dumps(results))


main()
