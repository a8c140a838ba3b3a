//! The recipients of a publication.

use std::collections::HashSet;

use targeting::{Compiled, Context, Facts, TargetType, split_list};
use transport::Audience;
use value::{Map, Value};
use wire::MinionId;

use crate::Shared;

/// Returns the recipients. With `zmq_filtering`, a list goes to its minions and to syndics. Otherwise all subscribers
/// get every publication, except Saltern minions whose ids show that they are not targeted, so that they are not woken.
pub fn audience(shared: &Shared, publication: &Map) -> Audience {
    let network = &shared.stores.config.network;
    if network.transport == config::Transport::Zeromq && network.zmq_filtering {
        return topics(publication);
    }
    match by_id(publication) {
        Some(is_meant) => Audience::AllBut(shared.presence.ours(|id| !is_meant(id.as_str()))),
        None => Audience::All,
    }
}

/// Returns the recipients of a job that another master has published: its targets, and connections of Salt minions, which do not
/// tell their names. If only minions can decide whether they are targeted, all get it except those that are connected to the
/// publisher, `connected_there`.
pub fn audience_of_forwarded(
    shared: &Shared,
    publication: &Map,
    targets: &HashSet<MinionId>,
    connected_there: Option<&HashSet<MinionId>>,
) -> Audience {
    let network = &shared.stores.config.network;
    if network.transport == config::Transport::Zeromq && network.zmq_filtering {
        return topics(publication);
    }
    let has_it = |id: &MinionId| connected_there.is_none_or(|there| there.contains(id));
    Audience::AllBut(shared.presence.ours(|id| !targets.contains(id) && has_it(id)))
}

fn topics(publication: &Map) -> Audience {
    let topic = |topic: wire::topic::Topic| topic.to_bytes();
    let ids = match (publication.get_str("tgt_type"), publication.get("tgt")) {
        (Some("list"), Some(Value::List(ids))) => ids.iter().filter_map(|id| MinionId::try_from(id).ok()).collect(),
        (Some("list"), Some(Value::Str(ids))) => {
            ids.split(',').filter_map(|id| MinionId::new(id.trim()).ok()).collect::<Vec<_>>()
        }
        _ => return Audience::Topics(vec![topic(wire::topic::Topic::Broadcast)]),
    };
    // Syndics, because minions of the list may be below them.
    let mut topics = vec![topic(wire::topic::Topic::Syndic)];
    topics.extend(ids.iter().map(|id| topic(crypto::filter_topic(id))));
    Audience::Topics(topics)
}

/// A test of whether an id is targeted.
type IsMeant = Box<dyn Fn(&str) -> bool>;

/// Returns the test for a target that depends on ids alone, as minions evaluate it. `None` if minions have to decide,
/// or if all are targeted.
fn by_id(publication: &Map) -> Option<IsMeant> {
    let target = publication.get("tgt")?;
    let kind = TargetType::from_name(publication.get_str("tgt_type").unwrap_or("glob")).ok()?;
    if kind.needs_data() || target.as_str() == Some("*") {
        return None;
    }
    if kind == TargetType::List {
        let ids: HashSet<String> = split_list(target).ok()?.into_iter().collect();
        return Some(Box::new(move |id| ids.contains(id)));
    }
    let compiled = Compiled::new(target, kind, &Context::default()).ok()?;
    // Ids suffice for these kinds, so the facts can be empty.
    let nothing = Map::new();
    Some(Box::new(move |id| compiled.matches(&Facts { id, grains: &nothing, pillar: &nothing })))
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn ids_decide_about_ids_alone() {
        let meant = |target: Value, kind: &str| {
            let is_meant = by_id(&map! { "tgt" => target, "tgt_type" => kind })?;
            Some(["web1", "web2", "db1"].into_iter().filter(|id| is_meant(id)).collect::<Vec<_>>())
        };
        assert_eq!(meant("web*".into(), "glob"), Some(vec!["web1", "web2"]));
        assert_eq!(meant("(web|db)1".into(), "pcre"), Some(vec!["web1", "db1"]));
        assert_eq!(meant("db1,web2".into(), "list"), Some(vec!["web2", "db1"]));
        assert_eq!(meant(list!["web2"], "list"), Some(vec!["web2"]));
        for (target, kind) in
            // What cannot be decided goes to everybody: too many is harmless, too few loses jobs.
            [("*", "glob"), ("os:Debian", "grain"), ("web*", "compound"), ("(", "pcre"), ("x", "range")]
        {
            assert_eq!(meant(target.into(), kind), None, "{target} {kind}");
        }
    }
}
