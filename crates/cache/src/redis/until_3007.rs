//! The layout of 3006 and 3007: a key per value, and sets that lead from a bank to its keys and to the banks below it.

use redis::{Pipeline, pipe};

use super::Server;
use super::connection::Connection;
use crate::Banks;
use crate::banks::{Answer, Failure, Place};
use crate::stamps::{packed, unpacked};

/// The member that marks a bank without banks below it.
const MARK: &str = ".";

/// The number of banks below a bank that are removed with it.
const MOST_BANKS: usize = 1_000_000;

pub(super) struct Redis {
    connection: Connection,
    server: Server,
}

impl Redis {
    pub(super) fn new(connection: Connection, server: Server) -> Self {
        Redis { connection, server }
    }

    fn value(&self, place: &Place) -> String {
        format!("{}{}/{}", self.server.keys, place.bank, place.key)
    }

    /// Braces and quotes are part of the name: Salt formats two sets of one string here.
    fn time(&self, place: &Place) -> String {
        format!("{}{{{}}}/{{{}}}", self.server.timestamps, quoted(&place.bank), quoted(&place.key))
    }

    fn below(&self, bank: &str) -> String {
        format!("{}{bank}", self.server.banks)
    }

    fn names(&self, bank: &str) -> String {
        format!("{}{bank}", self.server.bank_keys)
    }

    /// Names each level of a bank in the level above.
    fn lead_to(&self, bank: &str, commands: &mut Pipeline) {
        let ends = bank.match_indices('/').map(|(at, _)| at).chain([bank.len()]);
        for level in ends.map(|end| &bank[..end]) {
            commands.cmd("SADD").arg(self.below(level)).arg(MARK).ignore();
            if let Some((above, name)) = level.rsplit_once('/') {
                commands.cmd("SADD").arg(self.below(above)).arg(name).ignore();
                commands.cmd("SADD").arg(self.names(above)).arg(name).ignore();
            }
        }
    }

    /// Returns a bank and all banks below it, in one round trip for each level.
    async fn tree(&self, bank: &str) -> Result<Vec<String>, Failure> {
        let (mut all, mut from) = (vec![bank.to_owned()], 0);
        while from < all.len() {
            let mut commands = pipe();
            for bank in &all[from..] {
                commands.cmd("SMEMBERS").arg(self.below(bank));
            }
            let found: Vec<Vec<String>> = self.connection.send(&commands).await?;
            let next: Vec<String> = all[from..]
                .iter()
                .zip(found)
                .flat_map(|(bank, names)| {
                    let names = names.into_iter().filter(|name| name != MARK && !name.is_empty());
                    names.map(move |name| format!("{bank}/{name}"))
                })
                .collect();
            from = all.len();
            all.extend(next);
            if all.len() > MOST_BANKS {
                return Err(Failure::new(format!("bank {bank:?} has more than {MOST_BANKS} banks below it")));
            }
        }
        Ok(all)
    }

    async fn remove_bank(&self, bank: &str) -> Result<bool, Failure> {
        let banks = self.tree(bank).await?;
        let mut commands = pipe();
        for bank in &banks {
            commands.cmd("SMEMBERS").arg(self.names(bank));
        }
        let names: Vec<Vec<String>> = self.connection.send(&commands).await?;
        let mut commands = pipe();
        commands.atomic();
        for (bank, names) in banks.iter().zip(names) {
            for place in names.into_iter().map(|name| Place::new(bank, name)) {
                commands.cmd("DEL").arg(self.value(&place)).arg(self.time(&place)).ignore();
            }
            commands.cmd("DEL").arg(self.names(bank)).ignore();
            commands.cmd("DEL").arg(self.below(bank));
        }
        if let Some((above, name)) = bank.rsplit_once('/') {
            commands.cmd("SREM").arg(self.below(above)).arg(name).ignore();
            commands.cmd("SREM").arg(self.names(above)).arg(name).ignore();
        }
        let removed: Vec<i64> = self.connection.send(&commands).await?;
        Ok(removed.iter().any(|removed| *removed > 0))
    }
}

/// Returns a text as Python's `repr` shows it, for the texts that name banks and keys.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let escaped = text.replace('\\', "\\\\");
    match quote {
        '"' => format!("\"{escaped}\""),
        _ => format!("'{}'", escaped.replace('\'', "\\'")),
    }
}

impl Banks for Redis {
    fn store<'a>(&'a self, place: &'a Place, value: Vec<u8>, now: i64) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut commands = pipe();
            commands.atomic();
            self.lead_to(&place.bank, &mut commands);
            commands.cmd("SET").arg(self.value(place)).arg(value).ignore();
            commands.cmd("SADD").arg(self.names(&place.bank)).arg(&place.key).ignore();
            commands.cmd("SET").arg(self.time(place)).arg(packed(now)).ignore();
            self.connection.send(&commands).await
        })
    }

    fn fetch<'a>(&'a self, places: &'a [Place]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(async move {
            if places.is_empty() {
                return Ok(Vec::new());
            }
            let mut commands = pipe();
            let keys: Vec<String> = places.iter().map(|place| self.value(place)).collect();
            commands.cmd("MGET").arg(keys);
            let (values,) = self.connection.send(&commands).await?;
            Ok(values)
        })
    }

    fn updated<'a>(&'a self, place: &'a Place) -> Answer<'a, Option<i64>> {
        Box::pin(async move {
            let mut commands = pipe();
            commands.cmd("GET").arg(self.time(place));
            let (stamp,) = self.connection.send(&commands).await?;
            Ok(unpacked(stamp))
        })
    }

    fn flush<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut commands = pipe();
            commands.atomic();
            commands.cmd("DEL").arg(self.value(place));
            commands.cmd("DEL").arg(self.time(place)).ignore();
            commands.cmd("SREM").arg(self.names(&place.bank)).arg(&place.key).ignore();
            let (removed,): (i64,) = self.connection.send(&commands).await?;
            Ok(removed > 0)
        })
    }

    fn flush_bank<'a>(&'a self, bank: &'a str) -> Answer<'a, bool> {
        Box::pin(self.remove_bank(bank))
    }

    fn list<'a>(&'a self, bank: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            let mut commands = pipe();
            commands.cmd("SMEMBERS").arg(self.names(bank));
            let (mut names,): (Vec<String>,) = self.connection.send(&commands).await?;
            names.retain(|name| name != MARK);
            Ok(names)
        })
    }

    fn contains<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut commands = pipe();
            commands.cmd("SISMEMBER").arg(self.names(&place.bank)).arg(&place.key);
            let (found,) = self.connection.send(&commands).await?;
            Ok(found)
        })
    }

    fn reconnect(&self) {
        self.connection.reconnect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_in_python() {
        assert_eq!(quoted("minions/web1"), "'minions/web1'");
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("a'\"\\"), "'a\\'\"\\\\'");
    }
}
