//! The paths every job and every return goes through, each so many times: `saltern-hot-paths PATH TIMES`.
//!
//! `cargo xtask instructions` runs this under valgrind, twice for each path with different times, so that what a start costs
//! falls out. Everything is made from fixed numbers and keys: the same program does the same each time.

mod conversation;
mod matching;
mod states;
mod storing;

use std::process::ExitCode;

use value::{Map, list, map};

/// The id of the job all paths belong to.
const JID: &str = "20240229131415678901";

/// A path, which is gone so many times.
type Path = fn(usize);

/// All paths, by name.
const PATHS: [(&str, Path); 14] = [
    ("compile_states", states::compile),
    ("decode_return", conversation::decode_return),
    ("gather_return", storing::gather_return),
    ("match_compound", matching::compound),
    ("match_glob", matching::glob),
    ("match_grain", matching::grain),
    ("open_publication", conversation::open_publication),
    ("open_return", conversation::open_return),
    ("publish", conversation::publish),
    ("render_jinja", states::render_jinja),
    ("seal_publication", conversation::seal_publication),
    ("sign_in", conversation::sign_in),
    ("store_return_embedded", storing::embedded),
    ("store_return_files", storing::files),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let found = match arguments.as_slice() {
        [name, times] => PATHS.iter().find(|(known, _)| known == name).zip(times.parse().ok()),
        _ => None,
    };
    let Some(((_, path), times)) = found else {
        for (name, _) in PATHS {
            println!("{name}");
        }
        return if arguments.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    path(times);
    ExitCode::SUCCESS
}

fn id(number: usize) -> String {
    format!("web{number:05}.example.com")
}

/// What a minion sends back after a run of twenty states: about ten kilobytes.
fn returned(number: usize) -> Map {
    let state = |place: usize| {
        let chunk = map! {
            "__id__" => format!("file_{place}"), "name" => format!("/etc/app/{place}.conf"), "result" => true,
            "comment" => format!("File /etc/app/{place}.conf is in the correct state"), "changes" => Map::new(),
            "__run_num__" => place, "__sls__" => "app.config", "start_time" => "13:14:15.678901", "duration" => 1.25,
            "text" => "x".repeat(200),
        };
        (format!("file_|-file_{place}_|-/etc/app/{place}.conf_|-managed"), chunk)
    };
    let states: Map = (0..20).map(state).collect();
    map! {
        "cmd" => "_return", "id" => id(number), "jid" => JID, "fun" => "state.highstate", "fun_args" => list![],
        "retcode" => 0, "success" => true, "return" => states, "out" => "highstate",
    }
}
