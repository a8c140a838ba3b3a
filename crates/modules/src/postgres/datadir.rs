//! The directory a server keeps its data in.

use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value, map};

use super::{program, remove_secret, run, secret_file, succeeded, system_user};

fn exists(folder: &str) -> bool {
    ["PG_VERSION", "postgresql.conf"].iter().all(|name| Path::new(folder).join(name).is_file())
}

/// Returns whether a directory has the data of a server.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.datadir_exists '/var/lib/pgsql/data'
#[function]
fn datadir_exists(name: String) -> Result<bool> {
    Ok(exists(&name))
}

/// Makes the data directory of a new server with ``initdb``, and returns whether it was made. An existing one is not
/// changed. ``password`` is the one of the superuser ``user``, ``auth`` the way local users log in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.datadir_init '/var/lib/pgsql/data'
#[function]
fn datadir_init(
    ctx: &Context,
    name: String,
    #[default("password")] auth: String,
    user: Option<String>,
    password: Option<String>,
    #[default("UTF8")] encoding: String,
    locale: Option<String>,
    waldir: Option<String>,
    #[default(false)] checksums: bool,
    runas: Option<String>,
) -> Result<bool> {
    if exists(&name) {
        tracing::info!("{name} already exists");
        return Ok(false);
    }
    let runas = runas.unwrap_or_else(|| system_user(ctx));
    let user = user.unwrap_or_else(|| runas.clone());
    let program = program(ctx, "initdb").ok_or_else(|| Error::execution("initdb executable not found."))?;
    let mut words = vec![program, format!("--pgdata={name}"), format!("--username={user}")];
    words.extend([format!("--auth={auth}"), format!("--encoding={encoding}")]);
    words.extend(locale.map(|locale| format!("--locale={locale}")));
    words.extend(waldir.into_iter().flat_map(|folder| ["-X".to_owned(), folder]));
    words.extend(checksums.then(|| "--data-checksums".to_owned()));
    // In the arguments every user of the machine could read the password.
    let secret = match &password {
        Some(password) => Some(secret_file(ctx, password, Some(&runas))?),
        None => None,
    };
    words.extend(secret.iter().map(|file| format!("--pwfile={}", file.display())));
    let words: Vec<Value> = words.into_iter().map(Value::from).collect();
    let said = run(ctx, words.into(), map! { "runas" => runas });
    // The file is removed before any error of the command is examined.
    if let Some(file) = secret {
        remove_secret(ctx, file)?;
    }
    let said: Map = said?;
    if !succeeded(&said) {
        tracing::error!("Error initilizing the postgres data directory");
    }
    Ok(succeeded(&said))
}
