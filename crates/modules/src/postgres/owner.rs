//! A new owner for all that is in a database; what belongs to the server itself keeps its own.

use exec::{Context, Error, Result, function};
use value::{Map, Value};

use super::server::{Server, identifier};

/// The kinds of objects with the queries that list them.
// `REASSIGN OWNED` would also take what the old owner has elsewhere, so every object is named.
// `quote_ident` does the quoting.
const PARTS: [(&str, &str); 4] = [
    (
        "schema",
        "select quote_ident(schema_name) as n from information_schema.schemata where schema_name <> 'information_schema' \
         and left(schema_name, 3) <> 'pg_';",
    ),
    (
        "table",
        "select quote_ident(table_schema)||'.'||quote_ident(table_name) as n from information_schema.tables where \
         table_schema not in ('pg_catalog', 'information_schema');",
    ),
    (
        "routine",
        "select p.oid::regprocedure::text as n from pg_catalog.pg_proc p join pg_catalog.pg_namespace ns on \
         p.pronamespace=ns.oid where ns.nspname not in ('pg_catalog', 'information_schema');",
    ),
    (
        "sequence",
        "select quote_ident(sequence_schema)||'.'||quote_ident(sequence_name) as n from information_schema.sequences;",
    ),
];

/// Changes the owner of a database and all its objects, in one transaction; returns the result of `cmd.run_all`.
pub(super) fn give(ctx: &Context, server: &Server, dbname: &str, owner: &str) -> Result<Map> {
    let server = Server { maintenance_db: Some(dbname.to_owned()), ..server.clone() };
    let owner = identifier(owner);
    let mut script = format!("begin;\nalter database {} owner to {owner};\n", identifier(dbname));
    for (kind, query) in PARTS {
        for row in server.query(ctx, query)? {
            let name = row.get("n").map(Value::to_string).unwrap_or_default();
            script.push_str(&format!("alter {kind} {name} owner to {owner};\n"));
        }
    }
    // All or nothing: half of the objects with another owner would be worse than before.
    script.push_str("commit;\n");
    server.script(ctx, &script)
}

/// Changes the owner of a database and its schemas, tables, views, functions and sequences, and returns the output of
/// the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.owner_to 'dbname' 'username'
#[function]
fn owner_to(
    ctx: &Context,
    dbname: String,
    ownername: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Map> {
    if dbname.is_empty() {
        return Err(Error::invocation("a database must be named"));
    }
    let server = Server { user, host, port, maintenance_db: None, password, runas };
    give(ctx, &server, &dbname, &ownername)
}
