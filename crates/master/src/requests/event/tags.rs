//! Decides which tags a minion may use on the master's bus.
//!
//! Operators, reactors and programs trust these events. So a minion may fire events about itself only, and never in the
//! name of the master.

use std::sync::LazyLock;

use targeting::Glob;
use value::Map;
use wire::MinionId;

/// Tags only a master may use.
static OF_MASTERS: LazyLock<Vec<Glob>> = LazyLock::new(|| {
    let patterns = [
        "key",
        "minion/refresh/*",
        "salt/auth",
        "salt/auth/*",
        "salt/cloud/*",
        "salt/cluster/*",
        "salt/key",
        "salt/key/*",
        "salt/presence/*",
        "salt/run/*",
        "salt/wheel/*",
        "saltern/*",
        "syndic/*",
    ];
    patterns.into_iter().map(Glob::new).collect()
});

/// Tags that only a master may use and that a syndic never passes up, as in Salt.
static NEVER: LazyLock<Vec<Glob>> = LazyLock::new(|| {
    let patterns = [
        "salt/job/*/publish",
        "salt/job/*/new",
        "salt/job/*/return",
        "salt/key",
        "salt/cloud/*",
        "salt/run/*",
        "salt/cluster/*",
        "salt/wheel/*/new",
        "salt/wheel/*/return",
        "saltern/*",
    ];
    patterns.into_iter().map(Glob::new).collect()
});

/// The longest permitted tag in bytes, since each reader of the bus compares it.
const LONGEST: usize = 1024;

/// The sender of an event.
pub enum Sender<'a> {
    /// A minion.
    Minion(&'a MinionId),
    /// A lower master, which passes up the events of its minions.
    Syndic(&'a MinionId),
}

impl<'a> Sender<'a> {
    /// Returns the sender. Syndics exist only with `order_masters`, and put their own name in front of the tags.
    pub fn of(id: &'a MinionId, pretag: Option<&str>, order_masters: bool) -> Self {
        let is_own = pretag.and_then(|pretag| pretag.strip_prefix("syndic/")) == Some(id.as_str());
        if order_masters && is_own { Sender::Syndic(id) } else { Sender::Minion(id) }
    }

    /// Its id.
    pub fn id(&self) -> &'a MinionId {
        let (Sender::Minion(id) | Sender::Syndic(id)) = self;
        id
    }
}

/// Returns whether the sender may use the tag, which includes a prefix if there is one.
pub fn is_allowed(sender: &Sender, tag: &str, data: &Map) -> bool {
    // The bus puts a line end between tag and data.
    if tag.is_empty() || tag.len() > LONGEST || tag.chars().any(char::is_control) {
        return false;
    }
    let on = |list: &[Glob]| list.iter().any(|pattern| pattern.matches(tag));
    match sender {
        Sender::Syndic(id) => match tag.strip_prefix("syndic/") {
            Some(rest) => rest.strip_prefix(id.as_str()).is_some_and(|rest| rest.starts_with('/')),
            None => !on(&NEVER),
        },
        Sender::Minion(id) => !on(&OF_MASTERS) && is_own(id, tag, data),
    }
}

/// Returns whether an event is about its sender. Tags of jobs, minions, beacons and syndics contain an id, which must
/// be that of the sender. So must the `id` in the data of events of jobs and minions, because readers use it as the id
/// of the minion that answers.
fn is_own(id: &MinionId, tag: &str, data: &Map) -> bool {
    let parts: Vec<&str> = tag.split('/').collect();
    let (place, speaks) = match parts.as_slice() {
        ["salt", "job", ..] => (4, true),
        ["salt", "minion", ..] => (2, true),
        ["salt", "beacon" | "syndic", ..] => (2, false),
        _ => return true,
    };
    let told = data.get("id").filter(|_| speaks);
    parts.get(place) == Some(&id.as_str()) && told.is_none_or(|told| told.as_str() == Some(id.as_str()))
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    const JOB: &str = "salt/job/20240229131415678901";

    fn passes(tag: &str) -> bool {
        let id = MinionId::new("web1").unwrap();
        is_allowed(&Sender::Minion(&id), tag, &map! { "id" => "web1" })
    }

    #[test]
    fn a_minion_speaks_for_itself() {
        for tag in [
            "custom/tag",
            "minion_start",
            "syndic_start",
            "salt/minion/web1/start",
            "salt/syndic/web1/start",
            "salt/beacon/web1/load/",
            "salt/fileserver/gitfs/update",
            "/salt/minion/minion_pillar_refresh_complete",
            &format!("{JOB}/prog/web1/0"),
            &format!("{JOB}/start/web1"),
            &format!("{JOB}/ret/web1"),
            "keyboard",
            "salt/authority",
        ] {
            assert!(passes(tag), "{tag}");
        }
    }

    #[test]
    fn a_minion_speaks_neither_for_others_nor_for_masters() {
        for tag in [
            "",
            "key",
            "salt/auth",
            "salt/auth/creds",
            "salt/key",
            "salt/presence/present",
            "salt/run/20240229131415678901/ret",
            "salt/wheel/20240229131415678901/ret",
            "salt/cloud/x",
            "saltern/job/1/peer/web1",
            "minion/refresh/web2",
            "salt/minion/web2/start",
            "salt/minion/refresh",
            "salt/syndic/web2/start",
            "salt/beacon/web2/load/",
            "syndic/web1/20240229131415678901",
            JOB,
            &format!("{JOB}/ret"),
            &format!("{JOB}/ret/web2"),
            &format!("{JOB}/ret/web2/web1"),
            &format!("{JOB}/ret/web1 "),
            &format!("{JOB}/new"),
            &format!("{JOB}/publish"),
            &format!("{JOB}/return"),
            &format!("{JOB}/error"),
            &format!("{JOB}/prog/web2/0"),
            "salt/key\n\nx",
            &"x".repeat(LONGEST + 1),
        ] {
            assert!(!passes(tag), "{tag}");
        }
        let id = MinionId::new("web1").unwrap();
        let data = map! { "id" => "web2", "return" => true };
        assert!(!is_allowed(&Sender::Minion(&id), &format!("{JOB}/prog/web1/0"), &data), "in the name of another");
        assert!(is_allowed(&Sender::Minion(&id), "salt/beacon/web1/docker/", &data), "an id of something else");
    }

    #[test]
    fn a_syndic_hands_up_what_its_minions_fired_where_there_are_syndics() {
        let id = MinionId::new("syndic1").unwrap();
        let of =
            |pretag: &str, order_masters| matches!(Sender::of(&id, Some(pretag), order_masters), Sender::Syndic(_));
        assert!(of("syndic/syndic1", true));
        assert!(!of("syndic/syndic1", false) && !of("syndic/syndic2", true) && !of("salt", true));
        let passes = |tag: &str| is_allowed(&Sender::Syndic(&id), tag, &map! { "id" => "web2" });
        for tag in ["salt/minion/web2/start", "syndic/syndic1/salt/job/1/new", "salt/auth"] {
            assert!(passes(tag), "{tag}");
        }
        for tag in ["syndic/syndic2/salt/minion/web2/start", "salt/job/1/new", "salt/key", "salt/run/1/ret"] {
            assert!(!passes(tag), "{tag}");
        }
    }
}
