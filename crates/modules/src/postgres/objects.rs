//! Objects of a database that privileges are granted on.

use exec::{Error, Result};
use value::{Map, Value};

use super::server::{identifier, literal};

/// The letters that privileges are kept as.
// The letters of access lists as psql's `\dp` shows them.
const LETTERS: [(char, &str); 14] = [
    ('a', "INSERT"),
    ('C', "CREATE"),
    ('D', "TRUNCATE"),
    ('c', "CONNECT"),
    ('t', "TRIGGER"),
    ('r', "SELECT"),
    ('U', "USAGE"),
    ('T', "TEMPORARY"),
    ('w', "UPDATE"),
    ('X', "EXECUTE"),
    ('x', "REFERENCES"),
    ('d', "DELETE"),
    ('m', "MAINTAIN"),
    ('*', "GRANT"),
];

fn word(letter: char) -> Option<&'static str> {
    LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, word)| *word)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Database,
    Function,
    Group,
    Language,
    Schema,
    Sequence,
    Table,
    Tablespace,
}

impl Kind {
    fn of(name: &str) -> Result<Self> {
        Ok(match name {
            "database" => Kind::Database,
            "function" => Kind::Function,
            "group" => Kind::Group,
            "language" => Kind::Language,
            "schema" => Kind::Schema,
            "sequence" => Kind::Sequence,
            "table" => Kind::Table,
            "tablespace" => Kind::Tablespace,
            _ => return Err(Error::invocation(format!("Invalid object_type: {name} provided"))),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Database => "database",
            Kind::Function => "function",
            Kind::Group => "group",
            Kind::Language => "language",
            Kind::Schema => "schema",
            Kind::Sequence => "sequence",
            Kind::Table => "table",
            Kind::Tablespace => "tablespace",
        }
    }

    /// The existing privileges on such an object.
    fn privileges(self) -> Vec<&'static str> {
        let letters = match self {
            Kind::Database => "CTc",
            Kind::Function => "X",
            Kind::Group => "",
            Kind::Language => "U",
            Kind::Schema => "UC",
            Kind::Sequence => "rwU",
            Kind::Table => "arwdDxtm",
            Kind::Tablespace => "C",
        };
        letters.chars().filter_map(word).collect()
    }

    fn in_schema(self) -> bool {
        matches!(self, Kind::Table | Kind::Sequence | Kind::Function)
    }
}

/// An object, and its schema if it has one.
pub(super) struct Object<'a> {
    kind: Kind,
    name: &'a str,
    schema: &'a str,
}

impl<'a> Object<'a> {
    pub fn new(kind: &str, name: &'a str, schema: &'a str) -> Result<Self> {
        Ok(Object { kind: Kind::of(&kind.to_lowercase())?, name, schema })
    }

    /// The query for the privileges on it.
    pub fn query(&self) -> String {
        let (name, schema) = (literal(self.name), literal(self.schema));
        match self.kind {
            // Views are granted like tables.
            Kind::Table => relation(&name, &schema, "AND relkind in ('r', 'v')"),
            Kind::Sequence => relation(&name, &schema, "AND relkind = 'S'"),
            Kind::Schema => {
                format!("SELECT nspacl AS name FROM pg_catalog.pg_namespace WHERE nspname = {name} ORDER BY nspname")
            }
            Kind::Function => format!(
                "SELECT proacl AS name FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
                 WHERE nspname = {schema} AND p.oid::regprocedure::text = {name} ORDER BY proname, proargtypes"
            ),
            Kind::Tablespace => {
                format!("SELECT spcacl AS name FROM pg_catalog.pg_tablespace WHERE spcname = {name} ORDER BY spcname")
            }
            Kind::Language => {
                format!("SELECT lanacl AS name FROM pg_catalog.pg_language WHERE lanname = {name} ORDER BY lanname")
            }
            Kind::Database => {
                format!("SELECT datacl AS name FROM pg_catalog.pg_database WHERE datname = {name} ORDER BY datname")
            }
            Kind::Group => format!(
                "SELECT rolname, admin_option FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles r ON m.member=r.oid \
                 WHERE m.roleid IN (SELECT oid FROM pg_catalog.pg_roles WHERE rolname={name}) ORDER BY rolname"
            ),
        }
    }

    /// The query for its owner; groups have none.
    pub fn owner_query(&self) -> Option<String> {
        let (name, schema) = (literal(self.name), literal(self.schema));
        Some(match self.kind {
            // To be the owner of a role is not to be a member.
            Kind::Group => return None,
            Kind::Table => {
                format!("SELECT tableowner AS name FROM pg_tables WHERE schemaname = {schema} AND tablename = {name}")
            }
            Kind::Sequence => format!(
                "SELECT rolname AS name FROM pg_catalog.pg_class c JOIN pg_roles r ON c.relowner = r.oid JOIN \
                 pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE relkind='S' AND nspname={schema} AND relname = \
                 {name}"
            ),
            Kind::Schema => format!(
                "SELECT rolname AS name FROM pg_namespace n JOIN pg_roles r ON n.nspowner = r.oid WHERE nspname = {name}"
            ),
            Kind::Function => format!(
                "SELECT rolname AS name FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
                 JOIN pg_catalog.pg_roles r ON p.proowner = r.oid WHERE nspname = {schema} AND p.oid::regprocedure::text \
                 = {name} ORDER BY proname, proargtypes"
            ),
            Kind::Tablespace => format!(
                "SELECT rolname AS name FROM pg_tablespace t JOIN pg_roles r ON t.spcowner = r.oid WHERE spcname = {name}"
            ),
            Kind::Language => format!(
                "SELECT rolname AS name FROM pg_language l JOIN pg_roles r ON l.lanowner = r.oid WHERE lanname = {name}"
            ),
            Kind::Database => format!(
                "SELECT rolname AS name FROM pg_database d JOIN pg_roles r ON d.datdba = r.oid WHERE datname = {name}"
            ),
        })
    }

    /// Reads the rows of its privileges.
    pub fn privileges(&self, rows: &[Map]) -> Map {
        let text = |row: &Map, key: &str| row.get_str(key).unwrap_or_default().to_owned();
        match self.kind {
            Kind::Group => rows.iter().map(|row| (text(row, "rolname"), text(row, "admin_option") == "t")).collect(),
            _ => rows.iter().flat_map(|row| entries(&text(row, "name"))).collect(),
        }
    }

    /// Returns the object in its form behind `ON` in a statement.
    fn target(&self) -> String {
        let kind = self.kind.name().to_uppercase();
        match self.kind.in_schema() {
            true => format!("{kind} {}.{}", self.schema, identifier(self.name)),
            false => format!("{kind} {}", identifier(self.name)),
        }
    }
}

fn relation(name: &str, schema: &str, kind: &str) -> String {
    format!(
        "SELECT relacl AS name FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE \
         nspname = {schema} AND relname = {name} {kind} ORDER BY relname"
    )
}

/// Reads privileges such as `{ann=arw*/postgres,=r/postgres}`.
fn entries(text: &str) -> Vec<(String, Map)> {
    let parts = text.trim_matches(['{', '}']).split(',');
    parts
        .filter_map(|part| {
            let (role, letters) = part.split('/').next()?.split_once('=')?;
            let mut held: Vec<(&str, bool)> = Vec::new();
            for letter in letters.chars() {
                match (letter, held.last_mut()) {
                    // A star follows a privilege that may be passed on.
                    ('*', Some(last)) => last.1 = true,
                    (letter, _) => held.extend(word(letter).map(|word| (word, false))),
                }
            }
            // An empty name means all roles.
            let role = if role.is_empty() { "public" } else { role };
            Some((role.to_owned(), held.into_iter().collect()))
        })
        .collect()
}

/// Privileges on an object.
pub(super) struct ObjectPrivileges<'a> {
    pub object: Object<'a>,
    privileges: Vec<String>,
}

impl<'a> ObjectPrivileges<'a> {
    /// Reads privileges that are separated by commas.
    pub fn new(kind: &str, name: &'a str, schema: &'a str, privileges: Option<&str>) -> Result<Self> {
        let object = Object::new(kind, name, schema)?;
        let given = privileges.unwrap_or_default().to_uppercase();
        let privileges: Vec<String> = given.split(',').map(|word| word.trim().to_owned()).collect();
        if object.kind == Kind::Group {
            return match given.is_empty() {
                true => Ok(ObjectPrivileges { object, privileges }),
                false => Err(Error::invocation("The privileges option should not be set for object_type group")),
            };
        }
        let known = object.kind.privileges();
        if privileges.iter().any(|word| word != "ALL" && !known.contains(&word.as_str())) {
            let name = object.kind.name();
            return Err(Error::invocation(format!("Invalid privilege(s): {given} provided for object {name}")));
        }
        Ok(ObjectPrivileges { object, privileges })
    }

    /// Returns whether the privileges of a role are sufficient.
    pub fn holds(&self, held: &Value, grant: bool) -> bool {
        // Of a group only "with admin option" or not is known.
        let Some(held) = held.as_map() else { return !grant || held.truthy() };
        let all = self.object.kind.privileges();
        let whole = held.len() == all.len() && all.iter().all(|word| held.contains_key(word));
        if grant {
            // With the option to grant, Salt looks only whether everything is held that way.
            return whole && held.values().all(Value::truthy);
        }
        match self.privileges.iter().any(|word| word == "ALL") {
            true => whole,
            false => self.privileges.iter().all(|word| held.contains_key(word)),
        }
    }

    /// The statement that grants them.
    pub fn grant(&self, role: &str, grant: bool) -> String {
        let object = &self.object;
        if object.kind == Kind::Group {
            let option = if grant { " WITH ADMIN OPTION" } else { "" };
            return format!("GRANT {} TO {role}{option}", object.name);
        }
        let option = if grant { " WITH GRANT OPTION" } else { "" };
        // `ALL` as a name means every table, sequence or function of the schema.
        let target = match object.kind.in_schema() && object.name.eq_ignore_ascii_case("all") {
            true => format!("ALL {}S IN SCHEMA {}", object.kind.name().to_uppercase(), object.schema),
            false => object.target(),
        };
        format!("GRANT {} ON {target} TO {role}{option}", self.privileges.join(","))
    }

    /// The statement that takes them.
    pub fn revoke(&self, role: &str) -> String {
        match self.object.kind {
            Kind::Group => format!("REVOKE {} FROM {role}", self.object.name),
            _ => format!("REVOKE {} ON {} FROM {role}", self.privileges.join(","), self.object.target()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn entries_hold_privileges_by_role() {
        let found: Map = entries("{ann=ar*/postgres,=r/postgres}").into_iter().collect();
        let expected =
            map! { "ann" => map! { "INSERT" => false, "SELECT" => true }, "public" => map! { "SELECT" => false } };
        assert_eq!(found, expected);
        assert!(entries("{}").is_empty());
    }

    #[test]
    fn statements_name_objects() {
        let wanted = ObjectPrivileges::new("Table", "t", "public", Some("select, Insert")).unwrap();
        assert_eq!(wanted.grant("\"ann\"", false), "GRANT SELECT,INSERT ON TABLE public.\"t\" TO \"ann\"");
        assert_eq!(wanted.revoke("ann"), "REVOKE SELECT,INSERT ON TABLE public.\"t\" FROM ann");
        let group = ObjectPrivileges::new("group", "staff", "public", None).unwrap();
        assert_eq!(group.grant("\"ann\"", true), "GRANT staff TO \"ann\" WITH ADMIN OPTION");
        assert!(ObjectPrivileges::new("schema", "s", "public", Some("SELECT")).is_err());
        assert!(ObjectPrivileges::new("heap", "s", "public", None).is_err());
    }
}
