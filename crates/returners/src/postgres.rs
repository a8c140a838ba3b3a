//! `pgjsonb` and `postgres` — store returns, jobs and events in the tables of a PostgreSQL server.
//!
//! Both use the tables `salt_returns`, `jids` and `salt_events` as in Salt's documentation, `pgjsonb` with columns of the type
//! `jsonb`, `postgres` with text.

mod connect;
mod jobs;
mod literal;

use futures_util::future::BoxFuture;
use tracing::error;
use value::{Map, Value};

use crate::{Error, JobStore, Options, Result, Returner, World, json};
use connect::{connect, words};
use literal::Literal;

/// Stores as `jsonb`.
pub struct Pgjsonb;

/// Stores as text.
pub struct Postgres;

/// The differences between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Jsonb,
    Text,
}

/// The options of the connection; the option of the password has two names.
const NAMES: [&str; 11] =
    ["host", "user", "db", "port", "connect_timeout", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "pass"];
const TEXT_NAMES: [&str; 5] = ["host", "user", "db", "port", "passwd"];

impl Kind {
    fn options(self, world: &World, ret: Option<&Map>) -> Result<Options> {
        let mut defaults = value::map! { "host" => "localhost", "user" => "salt", "db" => "salt", "port" => 5432 };
        defaults.insert(self.password(), "salt");
        match self {
            Kind::Jsonb => Options::find(world, "returner.pgjsonb", &NAMES, defaults, ret),
            Kind::Text => Options::find(world, "returner.postgres", &TEXT_NAMES, defaults, ret),
        }
    }

    fn password(self) -> &'static str {
        match self {
            Kind::Jsonb => "pass",
            Kind::Text => "passwd",
        }
    }

    async fn client(self, world: &World, ret: Option<&Map>) -> Result<tokio_postgres::Client> {
        let options = self.options(world, ret)?;
        connect(world, &options, self.password()).await
    }

    async fn give(self, world: &World, ret: &Map) -> Result<()> {
        let client = self.client(world, Some(ret)).await?;
        let (sql, row) = (self.insert(), row(ret, world)?);
        // The tables with text have no time column that is set here.
        let values = if self == Kind::Jsonb { &row[..] } else { &row[..6] };
        client.execute(sql, &Literal::all(values)).await.map(drop).map_err(|error| Error::failed(words(&error)))
    }

    fn insert(self) -> &'static str {
        match self {
            Kind::Jsonb => {
                "INSERT INTO salt_returns (fun, jid, return, id, success, full_ret, alter_time) \
                 VALUES ($1, $2, $3, $4, $5, $6, to_timestamp($7))"
            }
            Kind::Text => {
                "INSERT INTO salt_returns (fun, jid, return, id, success, full_ret) VALUES ($1, $2, $3, $4, $5, $6)"
            }
        }
    }

    async fn events(self, world: &World, events: &[Value]) -> Result<()> {
        let sql = match self {
            Kind::Jsonb => {
                "INSERT INTO salt_events (tag, data, master_id, alter_time) VALUES ($1, $2, $3, to_timestamp($4))"
            }
            Kind::Text => "INSERT INTO salt_events (tag, data, master_id) VALUES ($1, $2, $3)",
        };
        // One transaction for the batch: `event_return_queue` can hold thousands of events.
        let mut client = self.client(world, None).await?;
        let failed = |error: &tokio_postgres::Error| Error::failed(words(error));
        let transaction = client.transaction().await.map_err(|error| failed(&error))?;
        for event in events {
            let part = |name: &str| event.get(name).cloned().unwrap_or_else(|| "".into());
            let mut values =
                vec![Literal(part("tag").to_string()), Literal(json(&part("data"))?), Literal(world.id().to_owned())];
            if self == Kind::Jsonb {
                values.push(Literal(seconds(world)));
            }
            transaction.execute(sql, &Literal::all(&values)).await.map_err(|error| failed(&error))?;
        }
        transaction.commit().await.map_err(|error| failed(&error))
    }
}

/// Formats the time of day for PostgreSQL's `to_timestamp`.
fn seconds(world: &World) -> String {
    let since = world.rt.now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:.6}", since.as_secs_f64())
}

/// The columns of one return.
fn row(ret: &Map, world: &World) -> Result<Vec<Literal>> {
    let part = |name: &str| ret.get(name).cloned().unwrap_or_default();
    let fun = match part("fun") {
        Value::List(names) => {
            let names: Vec<String> = names.iter().map(Value::to_string).collect();
            // PostgreSQL's notation for arrays: psycopg2 turns a Python list into one, so existing rows have this
            // form.
            format!("{{{}}}", names.join(","))
        }
        name => name.to_string(),
    };
    // A column takes one value; several functions have succeeded if all of them have.
    let success = match part("success") {
        Value::Map(each) => each.values().all(Value::truthy),
        Value::List(each) => each.iter().all(Value::truthy),
        one => one.truthy(),
    };
    Ok([
        fun,
        part("jid").to_string(),
        json(&part("return"))?,
        part("id").to_string(),
        success.to_string(),
        json(&Value::Map(ret.clone()))?,
        seconds(world),
    ]
    .map(Literal)
    .into())
}

/// Describes a return that was dropped, for the log.
fn place(ret: &Map) -> String {
    let part = |name: &str| ret.get(name).map(Value::to_string).unwrap_or_default();
    format!("for jid={} id={}", part("jid"), part("id"))
}

impl Returner for Pgjsonb {
    fn name(&self) -> &'static str {
        "pgjsonb"
    }

    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match Kind::Jsonb.give(world, ret).await {
                // As in Salt, a database that is down costs this return and a line in the log, but is no failure of
                // the job.
                Err(Error::Unreachable { reason, .. }) => {
                    error!("pgjsonb: PostgreSQL unavailable, dropping return {}: {reason}", place(ret));
                    Ok(())
                }
                Err(Error::Failed(reason)) => {
                    error!("pgjsonb: failed to store return {}: {reason}", place(ret));
                    Ok(())
                }
                other => other,
            }
        })
    }

    fn events<'a>(&'a self, world: &'a World, events: &'a [Value]) -> Option<BoxFuture<'a, Result<()>>> {
        Some(Box::pin(async move {
            match Kind::Jsonb.events(world, events).await {
                Err(Error::Unreachable { reason, .. }) => {
                    error!("pgjsonb: PostgreSQL unavailable, dropping {} event(s): {reason}", events.len());
                    Ok(())
                }
                Err(Error::Failed(reason)) => {
                    error!("pgjsonb: failed to store {} event(s): {reason}", events.len());
                    Ok(())
                }
                other => other,
            }
        }))
    }

    fn jobs(&self) -> Option<&dyn JobStore> {
        Some(self)
    }
}

impl Returner for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match Kind::Text.give(world, ret).await {
                // Salt's `postgres` catches only this one; other failures go up.
                Err(Error::Unreachable { reason, .. }) => {
                    error!("Could not store return with postgres returner. PostgreSQL server unavailable. ({reason})");
                    Ok(())
                }
                other => other,
            }
        })
    }

    fn events<'a>(&'a self, world: &'a World, events: &'a [Value]) -> Option<BoxFuture<'a, Result<()>>> {
        Some(Box::pin(Kind::Text.events(world, events)))
    }

    fn jobs(&self) -> Option<&dyn JobStore> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;
    use crate::testing;

    #[test]
    fn a_return_is_a_row() {
        let world = testing::world(map! {});
        let row = row(&testing::ret(), &world).unwrap();
        let texts: Vec<&str> = row.iter().map(|literal| literal.0.as_str()).collect();
        assert_eq!(texts[..5], ["test.echo", "20240229131415678901", "{\"a\": [1, \"ä\"]}", "web1", "true"]);
        assert!(texts[5].starts_with("{\"success\": true, \"return\": "));
        assert!(texts[6].parse::<f64>().unwrap() > 1.7e9);
    }

    #[test]
    fn several_functions_are_one_row() {
        let ret = map! { "fun" => list!["test.ping", "no.such"], "success" => map! { "test.ping" => true, "no.such" => false } };
        let row = row(&ret, &testing::world(map! {})).unwrap();
        assert_eq!((row[0].0.as_str(), row[4].0.as_str()), ("{test.ping,no.such}", "false"));
    }

    #[test]
    fn the_password_option_has_two_names() {
        let world = testing::world(map! { "returner.postgres.passwd" => "a", "returner.pgjsonb.pass" => "b" });
        assert_eq!(Kind::Text.options(&world, None).unwrap().text("passwd").as_deref(), Some("a"));
        assert_eq!(Kind::Jsonb.options(&world, None).unwrap().text("pass").as_deref(), Some("b"));
    }
}
