"""Databases, roles, schemas and privileges of PostgreSQL."""

from record_calls import Each

CASES = []
CONN = {"user": "ops", "maintenance_db": "main", "db_user": "admin", "db_password": "pw", "db_host": "db", "db_port": 5433}


def add(state, answers, *args, tests=(False, True), **kwargs):
    for test in tests:
        known = [{}, CONN] if "initdb" not in state else [{}]
        for conn in known:
            conn = {key: value for key, value in conn.items() if key != "maintenance_db" or "schema" not in state}
            if "maintenance_db" in kwargs or "language" in state:
                conn.pop("maintenance_db", None)
            CASES.append({"state": "postgres_" + state, "answers": {"postgres." + fun: answer for fun, answer in answers.items()},
                          "args": list(args), "kwargs": {**kwargs, **conn}, "test": test})


DBS = {"one": {"Owner": "ann", "Encoding": "UTF8", "Collate": "C", "Ctype": "C", "Tablespace": "pg_default"}}
for name in ("one", "two"):
    for done in (True, False):
        for kwargs in ({}, {"owner": "ann", "encoding": "utf8"}, {"owner": "bob"}, {"tablespace": "fast"}, {"lc_collate": "de"},
                       {"owner": "bob", "owner_recurse": True, "template": "t0", "lc_ctype": "C"}):
            add("database.present", {"db_list": DBS, "db_create": done, "db_alter": done}, name, **kwargs)
        add("database.absent", {"db_exists": name == "one", "db_remove": done}, name)
        add("user.absent", {"user_exists": name == "one", "user_remove": done}, name)
        add("group.absent", {"user_exists": name == "one", "group_remove": done}, name)
        add("schema.absent", {"schema_exists": name == "one", "schema_remove": done}, "db", name)
        add("schema.present", {"schema_get": {"owner": "ann"} if name == "one" else None, "schema_create": done}, "db", name, owner="ann")
        add("language.present", {"language_list": {"one": "one"}, "language_create": done}, name, "db")
        add("extension.absent", {"is_installed_extension": name == "one", "drop_extension": done}, name, cascade=True)
        add("initdb.present", {"datadir_exists": name == "one", "datadir_init": done}, name, user="ann", password="pw")
        add("initdb.present", {"datadir_exists": name == "one", "datadir_init": done}, name, auth="md5", checksums=True)
        for kind, privileges in (("table", ["SELECT", "INSERT"]), ("group", None)):
            has = {"has_privileges": name == "one"}
            add("privileges.present", {**has, "privileges_grant": done}, name, "thing", kind, privileges)
            add("privileges.absent", {**has, "privileges_revoke": done}, name, "thing", kind, privileges)
add("language.absent", {"language_exists": False}, "one", "db")
add("language.absent", {"language_exists": True}, "one", "db", tests=(True,))
for facts in (["EXTENSION NOT INSTALLED"], ["EXTENSION INSTALLED"], ["EXTENSION INSTALLED", "EXTENSION TO UPGRADE"],
              ["EXTENSION INSTALLED", "EXTENSION TO MOVE"]):
    for done in (True, False):
        for kwargs in ({}, {"schema": "s", "ext_version": "2", "if_not_exists": True, "from_version": "1"}):
            add("extension.present", {"create_metadata": facts, "create_extension": done}, "hstore", **kwargs)
SPACES = {"fast": {"Location": "/srv/fast", "Owner": "ann", "Opts": "{seq_page_cost=1.1}"}}
add("tablespace.present", {"tablespace_list": SPACES, "tablespace_create": True}, "slow", "/srv/slow", {"a": 1}, "ann")
add("tablespace.present", {"tablespace_list": SPACES}, "fast", "/srv/fast")
add("tablespace.present", {"tablespace_list": SPACES}, "fast", "/srv/fast", {"seq_page_cost": 1.1}, "ann")
add("tablespace.absent", {"tablespace_exists": True, "tablespace_remove": True}, "fast")
add("tablespace.absent", {"tablespace_exists": False}, "fast")
ANN = {"superuser": True, "inherits privileges": True, "can create roles": False, "can create databases": False, "can login": True,
       "replication": False, "expiry time": None, "defaults variables": "", "groups": ["staff"], "password": "md5" + "0" * 32}
for kind in ("user", "group"):
    for known in (ANN, None):
        for done in (True, False):
            answers = {"role_get": known, kind + "_create": done, kind + "_update": done}
            for kwargs in ({}, {"createdb": True, "superuser": True}, {"groups": "staff,ops"}, {"groups": ["staff"]},
                           {"inherit": False, "login": False, "createroles": True, "replication": True},
                           {"password": "md5" + "0" * 32}, {"password": "md5" + "1" * 32, "refresh_password": True},
                           {"password": "plain", "encrypted": False}, {"password": "secret", "encrypted": True}):
                add(kind + ".present", answers, "ann", **kwargs)
            if kind == "user":
                add("user.present", answers, "ann", default_password="secret")
                add("user.present", {**answers, "psql_query": [{"dt": "2030-01-01 00:00:00"}]}, "ann", valid_until="2030-01-01")
                add("user.present", {**answers, "psql_query": [{"dt": "infinity"}]}, "ann", valid_until="infinity")
