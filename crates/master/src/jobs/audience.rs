//! Whom a publication is sent to.

use std::collections::HashSet;

use targeting::{Compiled, Context, Facts, TargetType, split_list};
use transport::Audience;
use value::{Map, Value};
use wire::MinionId;

use crate::Shared;

/// With `zmq_filtering` a list is sent to its minions and to syndics. Else everybody gets everything, but for minions of ours
/// whose ids say that they are not meant: these are not woken.
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

fn topics(publication: &Map) -> Audience {
    let topic = |topic: wire::topic::Topic| topic.to_bytes();
    let ids = match (publication.get_str("tgt_type"), publication.get("tgt")) {
        (Some("list"), Some(Value::List(ids))) => ids.iter().filter_map(|id| MinionId::try_from(id).ok()).collect(),
        (Some("list"), Some(Value::Str(ids))) => {
            ids.split(',').filter_map(|id| MinionId::new(id.trim()).ok()).collect::<Vec<_>>()
        }
        _ => return Audience::Topics(vec![topic(wire::topic::Topic::Broadcast)]),
    };
    let mut topics = vec![topic(wire::topic::Topic::Syndic)];
    topics.extend(ids.iter().map(|id| topic(crypto::filter_topic(id))));
    Audience::Topics(topics)
}

/// Says of an id whether it is meant.
type IsMeant = Box<dyn Fn(&str) -> bool>;

/// Says whom a target means when that follows from ids alone, read as minions read it; none when minions have to decide, or
/// when everybody is meant.
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
            [("*", "glob"), ("os:Debian", "grain"), ("web*", "compound"), ("(", "pcre"), ("x", "range")]
        {
            assert_eq!(meant(target.into(), kind), None, "{target} {kind}");
        }
    }
}
