//! A daemon's log has the panics of its threads. Alone in this program, because a process has one log and one panic hook.

use value::map;

#[test]
fn the_log_of_a_daemon_names_a_panic_and_its_place_but_no_expected_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("master.log");
    let options = map! { "id" => "m1", "root_dir" => directory.path().to_str().unwrap(), "log_level" => "quiet" };
    let mut log = config::Master::from_options(options).unwrap().log;
    log.log_file = file.to_str().unwrap().to_owned();
    log.log_level_logfile = Some("warning".to_owned());
    saltern_log::init(&saltern_log::Settings::daemon(&log, "root")).unwrap();
    assert!(std::thread::spawn(|| panic!("a thread of {}", 7)).join().is_err());
    assert_eq!(rt::panics::expected(|| -> u8 { panic!("a damaged file") }), None);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("[ERROR   ]") && text.contains("bug: a panic at crates/log/tests/panics.rs:"), "{text}");
    assert!(text.contains(": a thread of 7") && !text.contains("a damaged file"), "{text}");
}
