//! The connection to a server, and queries.

use exec::{Context, Error, Result};
use value::{Map, Value, list, map};

use super::{csv, option, program, remove_secret, run, secret_file, succeeded, system_user};

/// A server, a database, and who asks. What is not given comes from the options `postgres.*`.
#[derive(Clone, Default)]
pub(super) struct Server {
    pub user: Option<String>,
    pub host: Option<String>,
    pub port: Option<String>,
    pub maintenance_db: Option<String>,
    pub password: Option<String>,
    /// The user of the system that the program runs as.
    pub runas: Option<String>,
}

fn non_empty(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}

/// Puts backslashes before what separates the fields of a password file.
fn field(text: &str) -> String {
    // The escapes of `.pgpass`.
    text.replace('\\', "\\\\").replace(':', "\\:")
}

impl Server {
    /// The arguments that lead to it.
    pub fn kwargs(&self) -> Map {
        map! {
            "runas" => self.runas.as_deref(), "host" => self.host.as_deref(), "user" => self.user.as_deref(),
            "port" => self.port.as_deref(), "maintenance_db" => self.maintenance_db.as_deref(),
            "password" => self.password.as_deref(),
        }
    }

    /// The command, without its statement.
    fn command(&self, ctx: &Context) -> Result<Vec<Value>> {
        let psql = program(ctx, "psql").ok_or_else(|| Error::CommandNotFound("psql".into()))?;
        let mut words: Vec<Value> =
            // The settings of the user must not change the output, and a prompt for a password could not be answered.
            list![psql, "--no-align", "--no-readline", "--no-psqlrc", "--no-password"].into_list().unwrap_or_default();
        for (flag, value, name) in [
            ("--username", &self.user, "postgres.user"),
            ("--host", &self.host, "postgres.host"),
            ("--port", &self.port, "postgres.port"),
        ] {
            if let Some(value) = non_empty(value).or_else(|| option(ctx, name)) {
                words.extend([flag.into(), value.into()]);
            }
        }
        let db = non_empty(&self.maintenance_db).or_else(|| option(ctx, "postgres.maintenance_db"));
        // Any database will do to ask about the server. `postgres` is there nearly always.
        words.extend(["--dbname".into(), db.unwrap_or_else(|| "postgres".to_owned()).into()]);
        Ok(words)
    }

    /// Runs `psql` with additional words, and returns the result of `cmd.run_all`.
    pub fn psql(&self, ctx: &Context, words: &[&str]) -> Result<Map> {
        self.psql_with(ctx, words, Map::new())
    }

    fn psql_with(&self, ctx: &Context, words: &[&str], more: Map) -> Result<Map> {
        let mut command = self.command(ctx)?;
        command.extend(words.iter().map(|word| Value::from(*word)));
        let (mut host, mut runas) = (self.host.clone(), self.runas.clone());
        if runas.is_none() {
            host = non_empty(&host).or_else(|| option(ctx, "postgres.host"));
            // Over a local socket the server trusts the system's user of that name ("peer"), so
            // psql must run as that user.
            if host.as_deref().is_none_or(|host| host.starts_with('/')) {
                runas = Some(system_user(ctx));
            }
        }
        let user = self.user.clone().or_else(|| runas.clone());
        // `.pgpass` calls every local socket `localhost`.
        let host = non_empty(&host).filter(|host| !host.starts_with('/')).unwrap_or_else(|| "localhost".to_owned());
        let any =
            |text: Option<String>| text.filter(|text| !text.is_empty()).map_or("*".to_owned(), |text| field(&text));
        let password = self.password.clone().or_else(|| option(ctx, "postgres.pass")).unwrap_or_default();
        // The password goes into a file, since both arguments and environment can be seen by
        // others.
        let line = format!("{}:{}:*:{}:{}", field(&host), any(self.port.clone()), any(user), field(&password));
        let file = secret_file(ctx, &line, runas.as_deref())?;
        let env = map! { "PGPASSFILE" => file.to_string_lossy().into_owned() };
        let mut kwargs = map! { "reset_system_locale" => false, "env" => env };
        if let Some(runas) = runas.filter(|runas| !runas.is_empty()) {
            kwargs.insert("runas", runas);
        }
        kwargs.update(more);
        let said = run(ctx, command.into(), kwargs);
        // Before errors are examined, so that the password never stays on the disk.
        remove_secret(ctx, file)?;
        let said = said?;
        if !succeeded(&said) {
            tracing::error!("Error connecting to Postgresql server");
        }
        Ok(said)
    }

    /// Runs a statement, and returns whether it did what it was to do.
    pub fn run(&self, ctx: &Context, statement: &str) -> Result<bool> {
        Ok(succeeded(&self.psql(ctx, &["-c", statement])?))
    }

    /// Runs a statement that must not appear among the arguments of a program.
    pub fn run_secret(&self, ctx: &Context, statement: &str) -> Result<bool> {
        // Standard input is the only way that no list of processes shows.
        let words = ["--set", "ON_ERROR_STOP=1", "--single-transaction", "--quiet", "--file", "-"];
        let more = map! { "stdin" => statement, "output_loglevel" => "quiet" };
        Ok(succeeded(&self.psql_with(ctx, &words, more)?))
    }

    /// Runs several statements, and returns the result of `cmd.run_all`.
    pub fn script(&self, ctx: &Context, script: &str) -> Result<Map> {
        self.psql_with(ctx, &["--set", "ON_ERROR_STOP=1", "--file", "-"], map! { "stdin" => script })
    }

    /// Queries rows; none when the query fails.
    pub fn query(&self, ctx: &Context, query: &str) -> Result<Vec<Map>> {
        self.rows(ctx, &copied(query))
    }

    /// Queries rows with a statement that may change something.
    pub fn write(&self, ctx: &Context, query: &str) -> Result<Vec<Map>> {
        let query = format!("START TRANSACTION READ WRITE; {}; COMMIT TRANSACTION;", copied(query));
        let mut rows = self.rows(ctx, &query)?;
        // The last line reports the end of the transaction.
        rows.pop();
        Ok(rows)
    }

    fn rows(&self, ctx: &Context, query: &str) -> Result<Vec<Map>> {
        // The style of dates may be another one for this user or database.
        let said = self.psql(ctx, &["-v", "datestyle=ISO,MDY", "-c", query])?;
        let failed = said.get("retcode").and_then(Value::as_i64).is_some_and(|code| code > 0);
        let text = said.get_str("stdout").filter(|_| !failed).unwrap_or_default();
        let mut lines = csv::rows(text).into_iter().filter(|row| !row.is_empty());
        let names = lines.next().unwrap_or_default();
        Ok(lines.map(|row| names.iter().map(String::as_str).zip(row).collect()).collect())
    }

    /// Returns the version of the server; nothing if it does not answer.
    pub fn version(&self, ctx: &Context) -> Result<String> {
        let query = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'server_version'";
        let said = self.psql(ctx, &["-c", query, "-t"])?;
        Ok(said.get_str("stdout").and_then(|text| text.lines().next()).unwrap_or_default().to_owned())
    }
}

/// A query whose rows are printed as CSV.
fn copied(query: &str) -> String {
    // CSV is the only output of psql whose fields can be separated whatever they hold.
    format!("COPY ({}) TO STDOUT WITH CSV HEADER", query.trim().trim_end_matches(';'))
}

/// Makes a map of rows: each by one of its columns, which it loses.
pub(super) fn by_name(rows: Vec<Map>, column: &str) -> Map {
    let named = |mut row: Map| Some((row.remove(column)?, Value::from(row)));
    rows.into_iter().filter_map(named).collect()
}

/// Writes a name in quotes.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Writes a text in quotes.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Writes a text in quotes, which may not be in it.
pub(super) fn quoted(text: &str, quote: char) -> Result<String> {
    match text.contains(quote) {
        true => Err(Error::invocation(format!("Unsupported character {quote} in value: {text}"))),
        false => Ok(format!("{quote}{text}{quote}")),
    }
}
