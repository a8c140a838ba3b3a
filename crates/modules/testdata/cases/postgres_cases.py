"""Databases, roles, schemas and privileges of PostgreSQL. Statements with passwords are left out: ours hands them over
where nobody sees them."""

import io

import salt.utils.files
from record_calls import Each, Said

CASES = []
CONN = {"user": "admin", "host": "db.example.org", "port": 5433, "maintenance_db": "main", "password": "pw", "runas": "ops"}
OPTS = {"postgres.user": "root", "postgres.host": "db2", "postgres.port": "5999", "postgres.maintenance_db": "m",
        "postgres.pass": "x", "postgres.timeout": 7}
VERSION = ("server_version", "15.14 (Debian 15.14-0+deb12u1)")


def patch(module, root):
    salt.utils.files.mkstemp = lambda **_: "/tmp/{any}"
    salt.utils.files.fopen = lambda *_args, **_kwargs: io.StringIO()


def add(fun, *args, says=(), **more):
    answers = {"file.chown": None, "file.remove": True, **more.pop("answers", {})}
    answers["file.chown"] = Each(["", ""])
    CASES.append({"fun": "postgres." + fun, "args": list(args), "patch": patch, "answers": answers,
                  "says": [(pattern, said if isinstance(said, (Said, Each)) else Said(said)) for pattern, said in says], **more})


def everywhere(fun, *args, **more):
    """Asked as little as can be, with all of a connection, and with options."""
    add(fun, *args, **more)
    kwargs = more.pop("kwargs", {})
    known = {**CONN}
    if fun.startswith("schema_"):
        known = {"user": "ops", "db_user": "admin", "db_host": "/run/pg", "db_port": 5433, "db_password": "pw"}
    if fun.startswith("language_") and fun != "language_list" and fun != "language_exists":
        return
    if fun.startswith("language_"):
        known.pop("maintenance_db")
    add(fun, *args, kwargs={**kwargs, **known}, **more)
    add(fun, *args, kwargs=kwargs, opts=OPTS, **more)


everywhere("version", says=[VERSION])
add("version", says=[("", Said("", 2, "no server"))])
ROWS = 'a,"b c"\n1,"x, ""y"""\n2,\n'
everywhere("psql_query", "select 1;", says=[("", ROWS)])
add("psql_query", " select 1 ", kwargs={"write": True}, says=[("", ROWS + "COMMIT,\n")])
add("psql_query", "select 1", says=[("", Said("", 1, "bad"))])
DBS = "Name,Owner,Encoding,Collate,Ctype,Access privileges,Tablespace\none,ann,UTF8,C,C,,pg_default\n"
everywhere("db_list", says=[("", DBS)])
for name in ("one", "two"):
    add("db_exists", name, says=[("", DBS)])
everywhere("db_create", "one")
add("db_create", "one", kwargs={"tablespace": "fast", "owner": "ann-x", "template": "t0", "encoding": "UTF8", "lc_collate": "C",
                                "lc_ctype": "C"})
add("db_create", "one", kwargs={"encoding": "U'"})
add("db_create", "one", says=[("", Said("", 1, "exists"))])
add("db_alter", "one")
everywhere("db_alter", "one", kwargs={"owner": "bob", "tablespace": "fast"})
add("db_alter", "one", kwargs={"owner": "bob"}, says=[("", Said("", 1))])
everywhere("db_remove", "one")
SPACES = "Name,Owner,ACL,Opts,Location\nfast,ann,,{seq_page_cost=1.1},/srv/fast\n"
add("tablespace_exists", "fast", answers={"postgres.psql_query": [{"Name": "fast", "Owner": "ann"}]})
add("tablespace_exists", "slow", answers={"postgres.psql_query": []})
everywhere("tablespace_create", "fast", "/srv/fast")
add("tablespace_create", "fast", "/srv/fast", {"seq_page_cost": 1.1, "random_page_cost": 3.9}, "ann")
add("tablespace_alter", "fast")
everywhere("tablespace_alter", "fast", kwargs={"new_name": "faster", "new_owner": "bob", "set_option": {"a": 1}, "reset_option": "b"})
add("tablespace_alter", "fast", kwargs={"new_name": "faster", "new_owner": "bob"}, says=[("RENAME", Said("", 1))])
everywhere("tablespace_remove", "fast")
ROLES = ('name,superuser,inherits privileges,can create roles,can create databases,can update system catalogs,can login,'
         'replication,connections,groups,expiry time,defaults variables\n'
         'ann,t,t,f,f,,t,f,-1,"{staff,""two words""}",,\nstaff,f,t,f,t,,f,f,-1,,,{a=b}\n')
WITH = ROLES.replace("variables\n", "variables,password\n").replace(",,\nstaff", ",,,md5abc\nstaff").replace("{a=b}", "{a=b},")
SAYS = [VERSION, ("pg_shadow", WITH), ("pg_roles", ROLES)]
everywhere("user_list", says=SAYS)
add("user_list", kwargs={"return_password": True}, says=SAYS)
add("user_list", says=[("", Said("", 2))])
for name in ("ann", "bob"):
    add("role_get", name, says=SAYS)
    add("user_exists", name, says=SAYS)
    for kind in ("user", "group"):
        everywhere(kind + "_remove", name, says=SAYS)
        add(kind + "_create", name, says=SAYS)
        add(kind + "_update", name, says=SAYS)
        flags = {"createdb": True, "createroles": False, "inherit": False, "login": True, "superuser": True, "replication": False}
        add(kind + "_create", name, kwargs={**flags, "groups": "staff,ops"}, says=SAYS)
        add(kind + "_update", name, kwargs={**flags, "groups": ["staff"]}, says=SAYS)
        add(kind + "_update", name, kwargs={"superuser": False}, says=SAYS)
add("role_get", "ann", says=[("", Said("", 2))])
add("user_create", "bob", kwargs={"connlimit": 5, "valid_until": "2030-01-01"}, says=SAYS)
gone = [VERSION, ("pg_roles", Each([Said(ROLES), Said("name\n")]))]
for kind in ("user", "group"):
    add(kind + "_remove", "ann", says=gone)
CAN = "name,default_version,comment\nplpgsql,1.0,x\nhstore,1.8,y\n"
HAS = "oid,extname,extrelocatable,extversion,schema_name\n1,plpgsql,t,1.0,pg_catalog\n"
EXT = [("pg_available", CAN), ("pg_extension", HAS)]
everywhere("available_extensions", says=EXT)
everywhere("installed_extensions", says=EXT)
for name in ("plpgsql", "hstore", "HSTORE", "none"):
    for fun in ("get_available_extension", "get_installed_extension", "is_available_extension", "is_installed_extension",
                "create_metadata", "drop_extension", "create_extension"):
        add(fun, name, says=EXT)
    for kwargs in ({"ext_version": "1.5", "schema": "s"}, {"ext_version": "0.9"}, {"schema": "pg_catalog"}):
        add("create_metadata", name, kwargs=kwargs, says=EXT)
        add("create_extension", name, kwargs=kwargs, says=EXT)
add("create_extension", "hstore", kwargs={"if_not_exists": False, "from_version": "1", "schema": "s", "ext_version": "1.8"}, says=EXT)
add("drop_extension", "plpgsql", kwargs={"if_exists": True, "restrict": True, "cascade": False}, says=EXT)
SCHEMAS = 'name,acl,owner\npublic,"{a=UC/a,=U/a}",ann\nempty,,bob\n'
SCH = [("pg_namespace", SCHEMAS)]
everywhere("schema_list", "db", says=SCH)
for name in ("public", "other"):
    everywhere("schema_get", "db", name, says=SCH)
    everywhere("schema_exists", "db", name, says=SCH)
    everywhere("schema_create", "db", name, says=SCH)
    add("schema_create", "db", name, kwargs={"owner": "ann"}, says=SCH)
    add("schema_remove", "db", name, says=SCH)
add("schema_remove", "db", "public", says=[("pg_namespace", Each([Said(SCHEMAS), Said("name\n")]))])
LANGUAGES = [("pg_language", "Name\ninternal\nplpgsql\n")]
everywhere("language_list", "db", says=LANGUAGES)
for name in ("plpgsql", "plperl"):
    everywhere("language_exists", name, "db", says=LANGUAGES)
    add("language_create", name, "db", says=LANGUAGES)
    add("language_remove", name, "db", says=LANGUAGES)
ACL = 'name\n"{ann=arw*/ann,=r/ann,bob=C/ann}"\n'
OWNED = "name\nowner\n"
OWNER = "tableowner|rolname AS name"
for kind in ("table", "sequence", "schema", "tablespace", "language", "database", "function", "group", "heap", "Table"):
    rows = 'rolname,admin_option\nann,t\nbob,f\n' if kind == "group" else ACL
    says = [(OWNER, OWNED), ("", rows)]
    if kind != "heap":
        everywhere("privileges_list", "thing", kind, says=says)
        add("privileges_list", "thing", kind, says=[("", "name\n{}\n" if kind != "group" else "rolname,admin_option\n")])
    wanted = {"table": "SELECT,insert", "sequence": "USAGE", "schema": "CREATE", "tablespace": "CREATE", "language": "USAGE",
              "database": "CREATE , CONNECT", "function": "EXECUTE", "Table": "SELECT"}.get(kind)
    if kind == "heap":
        continue
    for role in ("ann", "owner", "carl", "bob"):
        for privileges in (wanted, "ALL", "DROP"):
            for grant in (None, True):
                kwargs = {"privileges": privileges, "grant_option": grant}
                add("has_privileges", role, "thing", kind, kwargs=kwargs, says=says)
                if grant is None or role == "carl":
                    add("privileges_grant", role, "thing", kind, kwargs=kwargs, says=says)
            add("privileges_revoke", role, "thing", kind, kwargs={"privileges": privileges}, says=says)
    add("privileges_grant", "carl", "ALL", kind, kwargs={"privileges": wanted, "prepend": "s"}, says=says)
add("datadir_exists", "{dir}/data", files={"data/PG_VERSION": "15", "data/postgresql.conf": ""})
add("datadir_exists", "{dir}/data", files={"data/PG_VERSION": "15"})
add("datadir_init", "{dir}/data", files={"data/PG_VERSION": "15", "data/postgresql.conf": ""})
