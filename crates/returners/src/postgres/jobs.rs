//! The tables as a job cache.

use futures_util::future::BoxFuture;
use python::json::loads;
use tokio_postgres::error::SqlState;
use value::{Map, Value};

use super::connect::words;
use super::literal::Literal;
use super::{Kind, Pgjsonb, Postgres};
use crate::{Error, JobStore, Result, World, json};

/// How jobs older than a time are archived or removed; a job is old when all of its returns are.
const OLD_JOBS: &str = "EXISTS (SELECT 1 FROM salt_returns r WHERE r.jid = j.jid) \
                        AND NOT EXISTS (SELECT 1 FROM salt_returns r WHERE r.jid = j.jid AND r.alter_time >= ";

impl Kind {
    async fn save(self, world: &World, jid: &str, load: &Map) -> Result<()> {
        let sql = match self {
            Kind::Jsonb => "INSERT INTO jids (jid, load) VALUES ($1, $2) ON CONFLICT (jid) DO UPDATE SET load = $2",
            Kind::Text => "INSERT INTO jids (jid, load) VALUES ($1, $2)",
        };
        let client = self.client(world, None).await?;
        let values = [Literal(jid.to_owned()), Literal(json(&Value::Map(load.clone()))?)];
        match client.execute(sql, &Literal::all(&values)).await {
            // The first publication of a job counts. Salt ignores this error, too: a duplicate must not fail the
            // return.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(()),
            Err(error) => Err(Error::failed(words(&error))),
            Ok(_) => Ok(()),
        }
    }

    /// Reads rows of two columns, the second of them JSON.
    async fn rows(self, world: &World, sql: &str, values: &[Literal]) -> Result<Vec<(String, Value)>> {
        let client = self.client(world, None).await?;
        let rows = client.query(sql, &Literal::all(values)).await.map_err(|error| Error::failed(words(&error)))?;
        let read = |row: &tokio_postgres::Row| {
            let text = |column: usize| row.try_get::<_, &str>(column).map_err(|error| Error::failed(words(&error)));
            let value = loads(text(1)?).map_err(|reason| Error::failed(format!("a row holds no JSON: {reason}")))?;
            Ok((text(0)?.to_owned(), value))
        };
        rows.iter().map(read).collect()
    }

    async fn load(self, world: &World, jid: &str) -> Result<Option<Map>> {
        let sql = "SELECT jid::text, load::text FROM jids WHERE jid = $1";
        let rows = self.rows(world, sql, &[Literal(jid.to_owned())]).await?;
        Ok(rows.into_iter().next().and_then(|(_, load)| load.into_map()))
    }

    async fn returns(self, world: &World, jid: &str) -> Result<Map> {
        let sql = "SELECT id::text, full_ret::text FROM salt_returns WHERE jid = $1";
        let rows = self.rows(world, sql, &[Literal(jid.to_owned())]).await?;
        Ok(rows.into_iter().map(|(id, ret)| (Value::from(id), ret)).collect())
    }

    async fn all(self, world: &World) -> Result<Vec<(String, Map)>> {
        let rows = self.rows(world, "SELECT jid::text, load::text FROM jids", &[]).await?;
        Ok(rows.into_iter().filter_map(|(jid, load)| Some((jid, load.into_map()?))).collect())
    }

    async fn clean(self, world: &World) -> Result<()> {
        let keep = world.keep_jobs_seconds();
        // The tables with text may lack the time of a row.
        if keep == 0 || self == Kind::Text {
            return Ok(());
        }
        let archive = world.opts().get("archive_jobs").is_some_and(Value::truthy);
        let client = self.client(world, None).await?;
        // The number is an integer, so nothing can be injected into the statement.
        client.batch_execute(&cleaning(keep, archive)).await.map_err(|error| Error::failed(words(&error)))
    }
}

/// Returns the statements that remove what is older than some seconds, or move it into other tables, in one transaction.
fn cleaning(keep: u64, archive: bool) -> String {
    let limit = format!("now() - interval '{keep} second'");
    let mut all = String::from("BEGIN;\n");
    if archive {
        for table in ["jids", "salt_returns", "salt_events"] {
            all.push_str(&format!("CREATE TABLE IF NOT EXISTS {table}_archive (LIKE {table});\n"));
        }
        // Copied before it is removed, in one transaction: nothing is lost if the connection breaks off in between.
        all.push_str(&format!("INSERT INTO jids_archive SELECT * FROM jids j WHERE {OLD_JOBS}{limit});\n"));
        for table in ["salt_returns", "salt_events"] {
            all.push_str(&format!("INSERT INTO {table}_archive SELECT * FROM {table} WHERE alter_time < {limit};\n"));
        }
    }
    all.push_str(&format!("DELETE FROM jids j WHERE {OLD_JOBS}{limit});\n"));
    for table in ["salt_returns", "salt_events"] {
        all.push_str(&format!("DELETE FROM {table} WHERE alter_time < {limit};\n"));
    }
    all.push_str("COMMIT;");
    all
}

macro_rules! job_store {
    ($returner:ty, $kind:expr) => {
        impl JobStore for $returner {
            fn save_load<'a>(&'a self, world: &'a World, jid: &'a str, load: &'a Map) -> BoxFuture<'a, Result<()>> {
                Box::pin($kind.save(world, jid, load))
            }

            fn load<'a>(&'a self, world: &'a World, jid: &'a str) -> BoxFuture<'a, Result<Option<Map>>> {
                Box::pin($kind.load(world, jid))
            }

            fn returns<'a>(&'a self, world: &'a World, jid: &'a str) -> BoxFuture<'a, Result<Map>> {
                Box::pin($kind.returns(world, jid))
            }

            fn all<'a>(&'a self, world: &'a World) -> BoxFuture<'a, Result<Vec<(String, Map)>>> {
                Box::pin($kind.all(world))
            }

            fn clean<'a>(&'a self, world: &'a World) -> BoxFuture<'a, Result<()>> {
                Box::pin($kind.clean(world))
            }
        }
    };
}

job_store!(Pgjsonb, Kind::Jsonb);
job_store!(Postgres, Kind::Text);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_rows_are_removed_or_archived() {
        let bare = cleaning(60, false);
        assert_eq!(bare.matches("DELETE").count(), 3);
        assert!(!bare.contains("archive") && bare.contains("interval '60 second'"));
        let moved = cleaning(60, true);
        assert!(moved.find("INSERT INTO jids_archive").unwrap() < moved.find("DELETE FROM jids").unwrap());
    }
}
