//! What becomes of key files that are lost, or lie beside each other.

use super::*;

#[test]
fn keys_whose_files_are_gone_at_a_start_are_lost_unless_they_are_few() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    (0..6).for_each(|number| net.change(0, key_file(&format!("web{number}"), true)));
    net.run(SECOND);
    let gone = |ids: &[&str], holding: &[State]| {
        let ids = ids.iter().map(|id| Key::new(id).unwrap()).collect();
        Change::GoneAtStart { ids, holding: holding.to_vec() }
    };
    let lost = |net: &Net| net.hosts[0].actions.iter().any(|action| matches!(action, Action::KeysLost(_)));
    net.change(0, gone(&["web0", "web1"], &[State::Accepted]));
    net.run(MINUTE);
    assert_eq!(net.hosts[1].files.len(), 4, "somebody deleted them");
    assert!(!lost(&net));
    net.change(0, gone(&["web2"], &[]));
    net.run(MINUTE);
    assert_eq!(net.hosts[1].files.len(), 4, "the directory is new");
    assert!(lost(&net));
    net.change(0, key_file("web2", true));
    net.hosts[0].actions.clear();
    net.change(0, gone(&["web3", "web4", "web5"], &[State::Accepted]));
    net.run(MINUTE);
    assert_eq!(net.hosts[1].files.len(), 4, "they are too many");
    assert!(lost(&net));
    net.change(0, Change::LossAdopted);
    net.run(SECOND);
    assert_eq!(net.hosts[1].files.len(), 1);
}

#[test]
fn a_copy_beside_an_accepted_file_is_told_and_changes_nothing() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.change(0, key_file("web1", true));
    let (id, copy) = (Key::new("web1").unwrap(), KeyFile { state: State::Rejected, content: packed("old") });
    let file = KeyFile { state: State::Accepted, content: packed("k") };
    net.change(0, Change::Files(id.clone(), vec![copy.clone(), file]));
    net.run(SECOND);
    assert!(accepted(&net.hosts[1], "web1"));
    let told = Action::CopyBeside { id, accepted: packed("k"), copy };
    assert!(net.hosts[0].actions.contains(&told));
}
