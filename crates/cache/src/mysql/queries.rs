//! The operations of the driver as statements.

use mysql_async::{Params, Value, from_row_opt};

use super::MySql;
use super::connections::{Done, unlike};
use super::rows::{Row, distinct, in_bank, in_order, pattern};
use crate::Banks;
use crate::banks::{Answer, Failure, Outcome, Place};

/// The longest value that is read.
const LONGEST: usize = 8 << 20;

/// True for the exact bytes of a bank. A table of Salt finds names that differ in case, too, and its names may be in another
/// character set than those of a connection.
const EXACT_BANK: &str = "CAST(CONVERT(bank USING utf8mb4) AS BINARY) = CAST(? AS BINARY)";
const EXACT_KEY: &str = "CAST(CONVERT(etcd_key USING utf8mb4) AS BINARY) = CAST(? AS BINARY)";
const EXACT_BELOW: &str = "CAST(CONVERT(bank USING utf8mb4) AS BINARY) LIKE CAST(? AS BINARY) ESCAPE '='";

impl MySql {
    async fn run(&self, statement: &str, values: impl Into<Params>) -> Outcome<Done> {
        self.connections.run(&self.table, statement, values).await
    }

    async fn select<T: mysql_async::prelude::FromRow>(
        &self,
        statement: &str,
        values: impl Into<Params>,
    ) -> Outcome<Vec<T>> {
        let rows = self.run(statement, values).await?.rows;
        rows.into_iter().map(|row| from_row_opt(row).map_err(unlike(&self.table))).collect()
    }

    async fn write(&self, place: &Place, value: Vec<u8>, now: i64) -> Outcome<()> {
        if [&place.bank, &place.key].into_iter().any(|name| name.ends_with(' ')) {
            return Err(Failure::new(format!(
                "a table does not keep the space at the end of {:?} or {:?}",
                place.bank, place.key
            )));
        }
        // REPLACE, as Salt does it, would take the row of a name that differs in case in a table of Salt.
        let same = "CAST(bank AS BINARY) = CAST(VALUES(bank) AS BINARY) AND CAST(etcd_key AS BINARY) = CAST(VALUES(etcd_key) \
                    AS BINARY)";
        let statement = format!(
            "INSERT INTO `{}` (bank, etcd_key, data, last_update) VALUES (?, ?, ?, FROM_UNIXTIME(?)) ON DUPLICATE KEY UPDATE \
             data = IF({same}, VALUES(data), data), last_update = IF({same}, VALUES(last_update), last_update)",
            self.table
        );
        let done = self.run(&statement, (&place.bank, &place.key, value, now)).await?;
        if done.changed == 0 && !self.has(place).await? {
            return Err(Failure::new(format!(
                "the table has a value whose bank and key differ only in case from {:?} and {:?}",
                place.bank, place.key
            )));
        }
        Ok(())
    }

    async fn read(&self, places: &[Place]) -> Outcome<Vec<Option<Vec<u8>>>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        // All places are in one bank or have one key, so no other rows are found.
        let banks = distinct(places.iter().map(|place| place.bank.as_str()));
        let keys = distinct(places.iter().map(|place| place.key.as_str()));
        let statement = format!(
            "SELECT bank, etcd_key, IF(LENGTH(data) <= {LONGEST}, data, NULL) FROM `{}` WHERE bank IN ({}) AND etcd_key IN ({})",
            self.table,
            marks(banks.len()),
            marks(keys.len())
        );
        let names = Params::Positional(banks.into_iter().chain(keys).map(Value::from).collect());
        let rows: Vec<Row> = self.select(&statement, names).await?;
        Ok(in_order(places, rows))
    }

    async fn has(&self, place: &Place) -> Outcome<bool> {
        let statement = format!("SELECT bank, etcd_key FROM `{}` WHERE bank = ? AND etcd_key = ?", self.table);
        let found: Vec<(String, String)> = self.select(&statement, (&place.bank, &place.key)).await?;
        Ok(found.iter().any(|(bank, key)| *bank == place.bank && *key == place.key))
    }

    async fn written(&self, place: &Place) -> Outcome<Option<i64>> {
        let statement = format!(
            "SELECT bank, etcd_key, CAST(UNIX_TIMESTAMP(last_update) AS SIGNED) FROM `{}` WHERE bank = ? AND etcd_key = ?",
            self.table
        );
        let found: Vec<(String, String, Option<i64>)> = self.select(&statement, (&place.bank, &place.key)).await?;
        let found = found.into_iter().find(|(bank, key, _)| *bank == place.bank && *key == place.key);
        Ok(found.and_then(|(.., at)| at))
    }

    async fn remove(&self, place: &Place) -> Outcome<bool> {
        // The first two conditions use the index.
        let statement =
            format!("DELETE FROM `{}` WHERE bank = ? AND etcd_key = ? AND {EXACT_BANK} AND {EXACT_KEY}", self.table);
        let names = (&place.bank, &place.key, &place.bank, &place.key);
        Ok(self.run(&statement, names).await?.changed > 0)
    }

    async fn remove_bank(&self, bank: &str) -> Outcome<bool> {
        let statement = format!(
            "DELETE FROM `{}` WHERE (bank = ? OR bank LIKE ? ESCAPE '=') AND ({EXACT_BANK} OR {EXACT_BELOW})",
            self.table
        );
        let below = pattern(bank);
        Ok(self.run(&statement, (bank, &below, bank, &below)).await?.changed > 0)
    }

    async fn names(&self, bank: &str) -> Outcome<Vec<String>> {
        let table = &self.table;
        let statement = format!(
            "SELECT bank, etcd_key FROM `{table}` WHERE bank = ? UNION ALL \
             SELECT DISTINCT CONVERT(bank USING utf8mb4) COLLATE utf8mb4_bin, '' FROM `{table}` WHERE bank LIKE ? ESCAPE '='"
        );
        let rows = self.select(&statement, (bank, pattern(bank))).await?;
        Ok(in_bank(bank, rows))
    }
}

fn marks(number: usize) -> String {
    vec!["?"; number].join(", ")
}

impl Banks for MySql {
    fn store<'a>(&'a self, place: &'a Place, value: Vec<u8>, now: i64) -> Answer<'a, ()> {
        Box::pin(self.write(place, value, now))
    }

    fn fetch<'a>(&'a self, places: &'a [Place]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(self.read(places))
    }

    fn updated<'a>(&'a self, place: &'a Place) -> Answer<'a, Option<i64>> {
        Box::pin(self.written(place))
    }

    fn flush<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(self.remove(place))
    }

    fn flush_bank<'a>(&'a self, bank: &'a str) -> Answer<'a, bool> {
        Box::pin(self.remove_bank(bank))
    }

    fn list<'a>(&'a self, bank: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(self.names(bank))
    }

    fn contains<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(self.has(place))
    }

    fn reconnect(&self) {
        self.connections.reconnect();
    }
}
