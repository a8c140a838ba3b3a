//! `saltern_status`: programs on this host request the master's metrics, and what consoles show of it.

use exec::Call;
use runners::Kind;
use value::{Map, Value, map};

use super::{Answer, MasterRequest, functions, held};
use crate::credentials;
use crate::fleet_memory::Refused;
use crate::overview::{self, Question};

/// Answers users with all permissions with the metrics. With the field `of` it answers each user with what their list grants.
pub fn handle(ask: MasterRequest) -> Answer {
    if ask.load.contains_key("of") {
        return answer_question(ask);
    }
    match held::admit(ask) {
        Ok((shared, _)) => map! { "status" => crate::exporter::status(&shared) }.into(),
        Err(refused) => refused.into(),
    }
}

fn answer_question(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, login, mut load, .. } = ask;
    let fields = load.clone();
    let caller = match credentials::check(&shared, login, &fields, &mut load) {
        Ok(caller) => caller,
        Err(unknown) => {
            unknown.log();
            return unknown.answer().into();
        }
    };
    let _peer = logscope::enter(caller.peer());
    let (what, none) = (load.get_str("of").unwrap_or_default(), Map::new());
    let fields = load.get("question").and_then(Value::as_map).unwrap_or(&none);
    let mut question = match Question::of(what, fields, shared.stores.rt.now()) {
        Ok(question) => question,
        Err(refused) => return refused.answer().into(),
    };
    if let Some((kind, fun, call)) = question.behind()
        && !functions::is_granted(&shared, &caller, kind, fun, &call)
    {
        let word = kind.word();
        return Refused::new(403, format!("Your list does not grant the {word} function {fun}")).answer().into();
    }
    if let Question::Preview(job) = &mut question {
        let fun = overview::SEES_MINIONS;
        job.sees_all = functions::is_granted(&shared, &caller, Kind::Runner, fun, &Call::default());
    }
    Answer::Later(Box::pin(async move {
        match overview::answer(shared, caller, question).await {
            Ok(fleet) => map! { "fleet" => fleet }.into(),
            Err(refused) => refused.answer().into(),
        }
    }))
}
