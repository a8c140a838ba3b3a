//! Decides whether a chunk runs, from the results of its requisites alone.

use value::{Map, Value};

use crate::keywords::Kind;

/// The verdict about a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A requisite has not run yet.
    Unmet,
    /// A requisite is still running in parallel.
    Pending,
    /// The chunk runs.
    Met,
    /// The chunk runs, and reacts to changes.
    Change,
    /// A requisite failed.
    Fail,
    /// The target of `prereq` predicts no changes.
    Pre,
    /// No `onfail` requisite failed.
    Onfail,
    /// No `onchanges` requisite made changes.
    Onchanges,
    /// The result of a requisite carries `skip_req`.
    SkipReq,
    /// The chunk runs without `mod_watch`.
    SkipWatch,
}

/// The verdict of one kind of requisite about all chunks it names.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    unmet: bool,
    fail: bool,
    skip_req: bool,
    onfail: bool,
    onchanges: bool,
    onchanges_met: bool,
    change: bool,
    pre_met: bool,
    pre: bool,
    met: bool,
}

/// Returns the verdict. Each kind comes with the results of the chunks it names; `None` is a chunk without a result.
/// `pending` means that some of them are still running and their results are not final.
pub fn status(kinds: &[(Kind, Vec<Option<&Map>>)], pending: bool) -> Status {
    let mut all = Seen::default();
    for (kind, results) in kinds {
        let mut seen = Seen::default();
        results.iter().for_each(|ret| look(*kind, *ret, pending, &mut seen));
        soften(*kind, &mut seen);
        all.add(seen);
    }
    all.verdict(pending)
}

fn look(kind: Kind, ret: Option<&Map>, pending: bool, seen: &mut Seen) {
    let Some(ret) = ret else {
        seen.unmet = true;
        return;
    };
    // A parallel state has only a placeholder, whose result means nothing yet.
    if pending {
        return;
    }
    let result = ret.get("result");
    let failed = result == Some(&Value::Bool(false));
    let changed = ret.get("changes").is_some_and(Value::truthy);
    seen.skip_req |= ret.get("skip_req").is_some_and(Value::truthy);
    match kind.base() {
        Kind::Onfail if result == Some(&Value::Bool(true)) => seen.onfail = true,
        // The changes of a state that failed do not count: they may be incomplete.
        Kind::Onchanges if failed || !changed => seen.onchanges = true,
        Kind::Onchanges => seen.onchanges_met = true,
        Kind::Onfail => seen.met |= ran(ret),
        _ if failed => seen.fail = true,
        Kind::Watch if changed => seen.change = true,
        Kind::Prereq if matches!(result, Some(Value::Null)) => seen.pre_met = true,
        Kind::Prereq => seen.pre = true,
        _ => seen.met |= ran(ret),
    }
}

fn ran(ret: &Map) -> bool {
    ret.get("__state_ran__").is_none_or(Value::truthy)
}

/// Combines the verdicts of several chunks: `_any` needs one, other kinds need all.
fn soften(kind: Kind, seen: &mut Seen) {
    let any = matches!(kind, Kind::OnfailAny | Kind::RequireAny | Kind::OnchangesAny | Kind::WatchAny | Kind::Onfail);
    if any {
        if seen.met || seen.change || seen.onchanges_met {
            seen.fail = false;
        }
        if seen.onchanges_met {
            seen.onchanges = false;
        }
        if seen.met {
            seen.onfail = false;
        }
    }
    if kind == Kind::OnfailAll && seen.onfail {
        seen.met = false;
    }
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.unmet |= other.unmet;
        self.fail |= other.fail;
        self.skip_req |= other.skip_req;
        self.onfail |= other.onfail;
        self.onchanges |= other.onchanges;
        self.onchanges_met |= other.onchanges_met;
        self.change |= other.change;
        self.pre_met |= other.pre_met;
        self.pre |= other.pre;
        self.met |= other.met;
    }

    fn verdict(self, pending: bool) -> Status {
        match self {
            // The order of the arms is the precedence in Salt.
            Seen { unmet: true, .. } => Status::Unmet,
            _ if pending => Status::Pending,
            Seen { fail: true, .. } => Status::Fail,
            Seen { skip_req: true, onchanges_met, pre_met, .. } if onchanges_met || pre_met => Status::SkipReq,
            Seen { skip_req: true, change: true, .. } => Status::SkipWatch,
            Seen { pre: true, pre_met: true, .. } => Status::Met,
            Seen { pre: true, .. } => Status::Pre,
            Seen { onfail: true, onchanges_met: false, .. } => Status::Onfail,
            Seen { onchanges: true, onchanges_met: false, .. } => Status::Onchanges,
            Seen { change: true, .. } => Status::Change,
            Seen { onfail: true, .. } => Status::Onfail,
            _ => Status::Met,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    fn ret(result: Value, changed: bool) -> Map {
        let changes = if changed {
            map! { "a" => 1 }
        } else {
            map! {}
        };
        map! { "result" => result, "changes" => changes }
    }

    fn one(kind: Kind, results: &[&Map]) -> Status {
        status(&[(kind, results.iter().map(|ret| Some(*ret)).collect())], false)
    }

    #[test]
    fn kinds_decide_by_result_and_changes() {
        let (good, changed, bad, would) =
            (ret(true.into(), false), ret(true.into(), true), ret(false.into(), false), ret(Value::Null, true));
        let failed_with_changes = ret(false.into(), true);
        let cases = [
            (Kind::Require, &good, Status::Met),
            (Kind::Require, &bad, Status::Fail),
            (Kind::Require, &would, Status::Met),
            (Kind::Watch, &good, Status::Met),
            (Kind::Watch, &changed, Status::Change),
            (Kind::Watch, &bad, Status::Fail),
            (Kind::Onchanges, &good, Status::Onchanges),
            (Kind::Onchanges, &changed, Status::Met),
            (Kind::Onchanges, &bad, Status::Onchanges),
            (Kind::Onchanges, &failed_with_changes, Status::Onchanges),
            (Kind::Onfail, &good, Status::Onfail),
            (Kind::Onfail, &bad, Status::Met),
            (Kind::Prereq, &good, Status::Pre),
            (Kind::Prereq, &would, Status::Met),
            (Kind::Prereq, &bad, Status::Fail),
        ];
        for (kind, ret, wanted) in cases {
            assert_eq!(one(kind, &[ret]), wanted, "{kind:?}");
        }
        assert_eq!(one(Kind::RequireAny, &[&bad, &good]), Status::Met);
        assert_eq!(one(Kind::RequireAny, &[&bad, &bad]), Status::Fail);
        assert_eq!(one(Kind::WatchAny, &[&bad, &changed]), Status::Change);
        assert_eq!(one(Kind::OnchangesAny, &[&good, &changed]), Status::Met);
        assert_eq!(one(Kind::Onchanges, &[&good, &changed]), Status::Met);
        assert_eq!(one(Kind::OnfailAny, &[&good, &bad]), Status::Met);
        assert_eq!(one(Kind::OnfailAll, &[&good, &bad]), Status::Onfail);
        assert_eq!(one(Kind::OnfailAll, &[&bad, &bad]), Status::Met);
    }

    #[test]
    fn what_has_no_result_or_is_at_work_is_waited_for() {
        let good = ret(true.into(), false);
        assert_eq!(status(&[(Kind::Require, vec![None, Some(&good)])], false), Status::Unmet);
        assert_eq!(status(&[(Kind::Require, vec![Some(&good)])], true), Status::Pending);
        assert_eq!(status(&[], false), Status::Met);
    }

    #[test]
    fn a_state_can_keep_others_from_reacting() {
        let mut quiet = ret(true.into(), true);
        quiet.insert("skip_req", true);
        assert_eq!(one(Kind::Onchanges, &[&quiet]), Status::SkipReq);
        assert_eq!(one(Kind::Watch, &[&quiet]), Status::SkipWatch);
        assert_eq!(one(Kind::Require, &[&quiet]), Status::Met);
    }
}
