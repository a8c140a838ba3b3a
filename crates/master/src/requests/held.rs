//! `saltern_held`, `saltern_job`, `saltern_drop`: requests of programs on this host about jobs that may still be
//! delivered.
//!
//! Salt masters do not know these commands and answer with an empty map.

use std::sync::Arc;

use value::{Map, Value, map};
use wire::Jid;
use wire::loads::{DropJob, JobProgress};

use super::{Answer, MasterRequest, read};
use crate::Shared;
use crate::credentials;
use crate::jobs::expiry;
use crate::jobs::publish::away;
use crate::open_jobs::ledger::Report;
use crate::users::Grant;

/// Lists the held jobs.
pub fn list(ask: MasterRequest) -> Answer {
    let (shared, _) = match admit(ask) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into(),
    };
    let one = |(report, publication): (Report, Arc<Map>)| -> Value {
        let mut shown = described(&shared, &report);
        for name in ["fun", "arg", "tgt", "tgt_type", "user"] {
            if let Some(value) = publication.get(name) {
                shown.insert(name, value.clone());
            }
        }
        shown.into()
    };
    map! { "held" => shared.open_jobs.held().into_iter().map(one).collect::<Vec<Value>>() }.into()
}

/// Answers with the progress of a job on each of its targets.
pub fn job(ask: MasterRequest) -> Answer {
    let (shared, load) = match admit(ask) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into(),
    };
    expiry::check_now(&shared);
    let report = read(load, JobProgress::from_map).and_then(|wanted| shared.open_jobs.job(wanted.jid.as_str()));
    map! { "job" => report.map_or(Value::Null, |report| described(&shared, &report).into()) }.into()
}

/// Ends a held job, on this master and on the others of its set.
pub fn drop_job(ask: MasterRequest) -> Answer {
    let (shared, load) = match admit(ask) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into(),
    };
    let jid = read(load, DropJob::from_map).and_then(|wanted| Jid::new(wanted.jid.as_str()).ok());
    let Some(jid) = jid else { return map! { "dropped" => false }.into() };
    let dropped = expiry::end(&shared, &jid, "dropped");
    // Also if this master does not hold it: others may.
    let away = shared.others.get().map(|others| others.drop_held(&jid)).unwrap_or_default();
    map! { "dropped" => dropped, "away" => away.into_iter().map(Value::from).collect::<Vec<_>>() }.into()
}

fn described(shared: &Shared, report: &Report) -> Map {
    let waiting: Vec<String> = report
        .targets
        .iter()
        .filter(|(_, progress)| *progress < crate::open_jobs::ledger::Progress::Returned)
        .map(|(id, _)| id.clone())
        .collect();
    let states: Map = report.targets.iter().map(|(id, progress)| (id.as_str(), progress.word())).collect();
    map! {
        "jid" => report.jid.as_str(), "held" => report.held,
        "left" => report.left.map(|left| left.as_secs_f64()), "states" => states, "away" => away(shared, &waiting),
    }
}

/// Admits only users with all permissions, because these commands show the jobs of all users.
pub fn admit(ask: MasterRequest) -> Result<(Arc<Shared>, Map), Map> {
    let MasterRequest { shared, login, mut load, .. } = ask;
    let fields = load.clone();
    let caller = credentials::check(&shared, login, &fields, &mut load).map_err(|unknown| unknown.answer())?;
    match caller.grant {
        Grant::All => Ok((shared, load)),
        Grant::Listed(_) => Err(
            map! { "error" => map! { "name" => "AuthorizationError", "message" => "Authorization error occurred." } },
        ),
    }
}
