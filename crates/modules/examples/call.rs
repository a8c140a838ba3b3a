//! Calls one function on this machine without any minion and prints the result as JSON, as
//! `salt-call --local --out=json` does.
//!
//! `cargo run -p saltern-modules --example call -- file.stats /etc/passwd hash_type=md5`

use std::sync::Arc;

use exec::testing::FakeAgent;
use exec::{Call, Context, Job, Registry};
use value::{Map, Value, map};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((fun, args)) = args.split_first() else {
        eprintln!("usage: call FUNCTION [ARGUMENT…]");
        std::process::exit(2);
    };
    let opts = map! { "id" => "call", "file_client" => "local", "cachedir" => "/tmp", "enable_fqdns_grains" => false };
    let grains = grains::collect(&opts);
    let registry = Registry::new(saltern_modules::ALL, &grains);
    let context = Context {
        opts: Arc::new(opts),
        grains: Arc::new(grains),
        pillar: Arc::new(Map::new()),
        job: Arc::new(Job::default()),
        agent: Arc::new(FakeAgent { registry, ..FakeAgent::default() }),
        memo: Arc::default(),
        state: None,
    };
    let (args, kwargs) = yaml::args::parse_input(args.iter().map(String::as_str), &[]);
    let answer = match context.call_with(fun, Call { args, kwargs }) {
        Ok(value) => value,
        Err(error) => Value::from(error.return_text(fun, "")),
    };
    let answer = Value::Map(map! { "local" => answer });
    println!("{}", serde_json::to_string_pretty(&answer).expect("a value is JSON"));
}
