//! The layout of 3008: a hash per bank, and a sorted set of all banks.

use redis::pipe;

use super::Server;
use super::connection::Connection;
use crate::Banks;
use crate::banks::{Answer, Failure, Place};
use crate::stamps::{packed, unpacked};

pub(super) struct Redis {
    connection: Connection,
    server: Server,
}

impl Redis {
    pub(super) fn new(connection: Connection, server: Server) -> Self {
        Redis { connection, server }
    }

    /// Returns the key of a bank's values, which is also its name in the set of banks.
    fn values(&self, bank: &str) -> String {
        format!("{}{}/", self.server.keys, bank.trim_end_matches('/'))
    }

    fn times(&self, bank: &str) -> String {
        format!("{}{}/", self.server.timestamps, bank.trim_end_matches('/'))
    }

    /// Returns the limits between which the names of a bank and the banks below it sort: `0` follows `/`.
    fn range(&self, bank: &str) -> (String, String) {
        let values = self.values(bank);
        let end = format!("({}0", values.trim_end_matches('/'));
        (format!("[{values}"), end)
    }

    async fn remove(&self, place: &Place) -> Result<bool, Failure> {
        let (values, times) = (self.values(&place.bank), self.times(&place.bank));
        let mut commands = pipe();
        commands.atomic();
        commands.cmd("HDEL").arg(&values).arg(&place.key);
        commands.cmd("HDEL").arg(&times).arg(&place.key).ignore();
        commands.cmd("EXISTS").arg(&values);
        let (removed, left): (i64, bool) = self.connection.send(&commands).await?;
        if !left {
            let mut commands = pipe();
            commands.cmd("ZREM").arg(&self.server.banks).arg(&values).ignore();
            self.connection.send::<()>(&commands).await?;
        }
        Ok(removed > 0)
    }

    async fn remove_bank(&self, bank: &str) -> Result<bool, Failure> {
        let (start, end) = self.range(bank);
        let mut commands = pipe();
        commands.cmd("ZRANGE").arg(&self.server.banks).arg(start).arg(end).arg("BYLEX");
        let (banks,): (Vec<String>,) = self.connection.send(&commands).await?;
        if banks.is_empty() {
            return Ok(false);
        }
        let times: Vec<String> = banks
            .iter()
            .map(|values| {
                format!("{}{}", self.server.timestamps, values.strip_prefix(&self.server.keys).unwrap_or(values))
            })
            .collect();
        let mut commands = pipe();
        commands.atomic();
        commands.cmd("ZREM").arg(&self.server.banks).arg(&banks).ignore();
        commands.cmd("UNLINK").arg(&banks).ignore();
        commands.cmd("UNLINK").arg(&times).ignore();
        self.connection.send::<()>(&commands).await?;
        Ok(true)
    }
}

impl Banks for Redis {
    fn store<'a>(&'a self, place: &'a Place, value: Vec<u8>, now: i64) -> Answer<'a, ()> {
        Box::pin(async move {
            let values = self.values(&place.bank);
            let mut commands = pipe();
            commands.atomic();
            commands.cmd("ZADD").arg(&self.server.banks).arg(0).arg(&values).ignore();
            commands.cmd("HSET").arg(&values).arg(&place.key).arg(value).ignore();
            commands.cmd("HSET").arg(self.times(&place.bank)).arg(&place.key).arg(packed(now)).ignore();
            self.connection.send(&commands).await
        })
    }

    fn fetch<'a>(&'a self, places: &'a [Place]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(async move {
            if places.is_empty() {
                return Ok(Vec::new());
            }
            let mut commands = pipe();
            for place in places {
                commands.cmd("HGET").arg(self.values(&place.bank)).arg(&place.key);
            }
            self.connection.send(&commands).await
        })
    }

    fn updated<'a>(&'a self, place: &'a Place) -> Answer<'a, Option<i64>> {
        Box::pin(async move {
            let mut commands = pipe();
            commands.cmd("HGET").arg(self.times(&place.bank)).arg(&place.key);
            let (stamp,) = self.connection.send(&commands).await?;
            Ok(unpacked(stamp))
        })
    }

    fn flush<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(self.remove(place))
    }

    fn flush_bank<'a>(&'a self, bank: &'a str) -> Answer<'a, bool> {
        Box::pin(self.remove_bank(bank))
    }

    fn list<'a>(&'a self, bank: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            let ((start, end), values) = (self.range(bank), self.values(bank));
            let mut commands = pipe();
            commands.cmd("ZRANGE").arg(&self.server.banks).arg(start).arg(end).arg("BYLEX");
            commands.cmd("HKEYS").arg(&values);
            let (banks, mut names): (Vec<String>, Vec<String>) = self.connection.send(&commands).await?;
            // Only banks directly below, not deeper ones.
            let below = banks.iter().filter_map(|name| name.strip_prefix(&values)?.strip_suffix('/'));
            names.extend(below.filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned));
            Ok(names)
        })
    }

    fn contains<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut commands = pipe();
            commands.cmd("HEXISTS").arg(self.values(&place.bank)).arg(&place.key);
            let (found,) = self.connection.send(&commands).await?;
            Ok(found)
        })
    }

    fn reconnect(&self) {
        self.connection.reconnect();
    }
}
