//! Drift without a network: trees, options, going down the trees, and when somebody hears of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use value::{Map, Value, list, map};

use super::*;
use crate::message::NamedDigest;
use crate::{Digest, Moment, Node};

const OTHER: Node = Node([2; 8]);
const THIRD: Node = Node([3; 8]);

fn leaf(content: u8, mode: u32) -> Leaf {
    Leaf { digest: Digest([content; 16]), mode, stamp: 7 }
}

type Files = BTreeMap<Vec<String>, (u8, u32)>;

fn tree(files: &Files) -> Dir {
    let mut root = DirBuilder::default();
    for (path, (content, mode)) in files {
        let (name, inside) = path.split_last().unwrap();
        let dir = inside.iter().fold(&mut root, |dir, name| dir.dir(name).expect("no file has the name"));
        assert!(dir.leaf(name, leaf(*content, *mode)));
    }
    root.finish()
}

/// Files in directories of which none has the name of a file.
fn some_files(random: &mut StdRng, most: usize) -> Files {
    let count = random.random_range(0..most);
    let file = |random: &mut StdRng| {
        let depth = random.random_range(0..4);
        let mut path: Vec<String> = (0..depth).map(|_| format!("d{}", random.random_range(0..4))).collect();
        path.push(format!("f{}", random.random_range(0..30)));
        (path, (random.random_range(0..3), if random.random_bool(0.9) { 0o644 } else { 0o755 }))
    };
    (0..count).map(|_| file(random)).collect()
}

/// Compares with a member that has this tree, with all messages packed.
fn compare(own: &Dir, other: &Dir) -> (Vec<(Vec<String>, PathDifference)>, bool) {
    let mut descent = Descent::new(Kind::Files, Arc::new(own.clone()));
    while let Some(question) = descent.next() {
        let question = Question::unpack(&question.pack()).unwrap().expect("the kind is known");
        let listing = other.at(&question.path).map(|dir| dir.listing(question.after.as_deref()));
        descent.take(Listing::unpack(&Listing::pack(listing.as_ref())).unwrap());
    }
    descent.found()
}

/// What a comparison must find: missing directories count once.
fn expected(own: &Files, other: &Files) -> BTreeMap<Vec<String>, PathDifference> {
    let mut found = BTreeMap::new();
    for path in own.keys().chain(other.keys()) {
        let has = |files: &Files, prefix: &[String]| files.keys().any(|path| path.starts_with(prefix));
        let missing = |files: &Files| (1..=path.len()).map(|end| &path[..end]).find(|part| !has(files, part));
        let (key, difference) = match (missing(own), missing(other)) {
            (Some(part), _) => (part, PathDifference::MissingHere),
            (_, Some(part)) => (part, PathDifference::MissingThere),
            _ if own[path].0 != other[path].0 => (&path[..], PathDifference::Content),
            _ if own[path].1 != other[path].1 => (&path[..], PathDifference::Mode),
            _ => continue,
        };
        found.insert(key.to_vec(), difference);
    }
    found
}

#[test]
fn a_comparison_finds_exactly_what_differs() {
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..500 {
        let own = some_files(&mut random, 80);
        let mut other = if random.random_bool(0.5) { own.clone() } else { some_files(&mut random, 80) };
        for _ in 0..random.random_range(0..4) {
            other.extend(some_files(&mut random, 3));
            let gone = other.keys().nth(random.random_range(0..40)).cloned();
            gone.and_then(|path| other.remove(&path));
        }
        let (found, more) = compare(&tree(&own), &tree(&other));
        assert_eq!(found.iter().cloned().collect::<BTreeMap<_, _>>(), expected(&own, &other));
        assert!(!more);
        assert_eq!(own == other, tree(&own).digest() == tree(&other).digest());
    }
}

#[test]
fn a_tree_has_one_digest_whatever_the_order_and_the_stamps() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..200 {
        let files: Vec<(String, Leaf)> =
            (0..20u8).map(|number| (format!("f{number}"), leaf(random.random(), 0o644))).collect();
        let build = |files: &mut dyn Iterator<Item = &(String, Leaf)>, stamp: u64| {
            let mut dir = DirBuilder::default();
            files.for_each(|(name, leaf)| assert!(dir.leaf(name, Leaf { stamp, ..*leaf })));
            dir.finish().digest()
        };
        assert_eq!(build(&mut files.iter(), 1), build(&mut files.iter().rev(), 2));
    }
    let mut with_empty = DirBuilder::default();
    with_empty.dir("a").unwrap().dir("b");
    assert_eq!(with_empty.finish(), Dir::default());
}

#[test]
fn large_directories_are_compared_in_parts() {
    let files = |odd: u8| -> Files {
        (0..10_000u32)
            .map(|number| (vec![format!("{number:0>200}")], (if number == 9_999 { odd } else { 0 }, 0o644)))
            .collect()
    };
    let (own, other) = (tree(&files(1)), tree(&files(2)));
    let first = own.listing(None);
    assert!(first.more && first.entries.len() < 4_096, "bounded by bytes, too");
    assert_eq!(compare(&own, &other), (vec![(vec![format!("{:0>200}", 9_999)], PathDifference::Content)], false));
    let (found, more) = compare(&own, &Dir::default());
    assert_eq!((found.len(), more), (MOST_FOUND, true));
    let (found, more) = compare(&Dir::default(), &own);
    assert_eq!((found.len(), more), (MOST_FOUND, true));
}

#[test]
fn a_member_whose_answers_never_end_is_not_asked_for_ever() {
    let mut descent = Descent::new(Kind::Files, Arc::new(Dir::default()));
    let mut asked = 0;
    while descent.next().is_some() {
        asked += 1;
        // The same again and again.
        let entries = vec![Listed { name: "a".into(), is_dir: true, mode: 0, digest: Digest([1; 16]) }];
        descent.take(Some(Listing { entries, more: true }));
    }
    assert!(asked <= 2_000, "{asked}");
    assert_eq!(descent.found(), (vec![(vec!["a".into()], PathDifference::MissingHere)], false));
    // A tree that has a directory in each directory.
    let mut own = DirBuilder::default();
    (0..100).fold(&mut own, |dir, _| dir.dir("d").unwrap()).leaf("f", leaf(1, 0));
    let mut descent = Descent::new(Kind::Files, Arc::new(own.finish()));
    let mut depth = 0;
    while let Some(question) = descent.next() {
        depth = question.path.len();
        assert!(Question::unpack(&question.pack()).is_ok());
        let entries = vec![Listed { name: "d".into(), is_dir: true, mode: 0, digest: Digest([1; 16]) }];
        descent.take(Some(Listing { entries, more: false }));
    }
    assert_eq!((depth, descent.found().0.len()), (63, 1));
}

#[test]
fn answers_of_another_member_are_checked() {
    let one = |name: &str| Listed { name: name.into(), is_dir: false, mode: 0, digest: Digest([1; 16]) };
    let read = |entries: Vec<Listed>, more| Listing::unpack(&Listing::pack(Some(&Listing { entries, more })));
    assert!(read(vec![one("a"), one("b")], true).is_ok());
    assert!(read(vec![one("b"), one("a")], false).is_err(), "not in order");
    assert!(read(vec![one("a"), one("a")], false).is_err(), "twice");
    assert!(read(vec![one("a\x1b[2J")], false).is_err(), "a terminal would obey it");
    assert!(read(vec![], true).is_err(), "it would be asked again and again");
    assert!(read(vec![one(&"x".repeat(2_000))], false).is_err());
    assert!(read((0..5_000).map(|number| one(&format!("{number:05}"))).collect(), false).is_err());
    let question = |path: Vec<String>| Question { kind: Kind::Git, path, after: Some("a".into()) };
    assert_eq!(Question::unpack(&question(vec!["x".into()]).pack()), Ok(Some(question(vec!["x".into()]))));
    assert!(Question::unpack(&question(vec![String::new(); 65]).pack()).is_err());
    let later = crate::fields::packed(vec!["later".into(), Value::List(vec![]), Value::Null]);
    assert_eq!(Question::unpack(&later), Ok(None));
}

#[test]
fn the_decoders_are_total() {
    let mut random = StdRng::seed_from_u64(3);
    let listing = tree(&some_files(&mut random, 50)).listing(None);
    let question = Question { kind: Kind::Acl, path: vec!["a".into(), "b".into()], after: None };
    let (mut read, packed) = (0, [Listing::pack(Some(&listing)), question.pack()]);
    for round in 0..40_000 {
        let mut bytes = packed[round % 2].to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..3) {
                0 => bytes[at] = random.next_u32() as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, random.next_u32() as u8),
            }
        }
        let bytes = Bytes::from(bytes);
        if let Ok(Some(listing)) = Listing::unpack(&bytes) {
            read += 1;
            assert_eq!(Listing::unpack(&Listing::pack(Some(&listing))), Ok(Some(listing)));
        }
        if let Ok(Some(question)) = Question::unpack(&bytes) {
            read += 1;
            assert_eq!(Question::unpack(&question.pack()), Ok(Some(question)));
        }
    }
    assert!(read > 500, "{read}");
}

#[test]
fn names_can_be_shown_and_are_bounded() {
    assert_eq!(entry_name("grün".as_bytes()), "grün");
    assert_eq!(entry_name(b"a\x1b[2J\xff\n"), "a\\x1b[2J\\xff\\x0a");
    let (long, longer) = ("é".repeat(600), "é".repeat(601));
    let names = [&long, &longer].map(|name| entry_name(name.as_bytes()));
    assert!(names.iter().all(|name| name.len() <= 1_024) && names[0] != names[1]);
}

/// Returns the paths of all leaves.
fn paths(dir: &Dir) -> Vec<String> {
    let mut all = Vec::new();
    for one in dir.listing(None).entries {
        match dir.get(&one.name) {
            Some(Entry::Dir(inside)) => {
                all.extend(paths(inside).iter().map(|path| format!("{}:{path}", one.name)));
            }
            _ => all.push(one.name),
        }
    }
    all
}

#[test]
fn options_of_one_host_are_left_out() {
    let all = map! {
        "id" => "m1_master", "interface" => "10.0.0.1", "publish_port" => 4505, "ret_port" => 4506, "root_dir" => "/",
        "file_roots" => map! { "base" => list!["/srv/salt"] }, "log_level" => "debug", "max_event_size" => 1,
        "cluster_id" => "prod", "cluster_secret" => "(hidden)", "__role" => "master", "worker_threads" => 8,
        "ssl" => map! { "certfile" => "/etc/x", "ssl_version" => "TLSv1_2" }, "nodegroups" => map! { "web" => "web*" },
        "schedule" => map! {}, "django_auth_path" => "x", "auto_accept" => false, "mysql.host" => "db1",
        "rest_cherrypy" => map! { "port" => 8000, "debug" => true }, "hash_type" => "sha256",
    };
    let found = paths(&options(&all));
    assert_eq!(found, ["auto_accept", "hash_type", "mysql.host", "rest_cherrypy:debug", "ssl:ssl_version"]);
    assert_eq!(paths(&acl(&all, None)), ["nodegroups:web"]);
}

#[test]
fn access_control_is_compared_by_name_and_whatever_the_order() {
    let rules = |web: &str, swapped: bool| {
        let mut users = vec![("fred", list!["test.*"]), ("bob", list![map! { "web*" => list![".*"] }])];
        if swapped {
            users.reverse();
        }
        let users: Map = users.into_iter().collect();
        let options = map! { "external_auth" => map! { "pam" => users }, "nodegroups" => map! { "web" => web }, "peer" => map! {} };
        acl(&options, None)
    };
    let (own, other) = (rules("web*", false), rules("web*", true));
    assert_eq!(own.digest(), other.digest());
    assert_eq!(paths(&own), ["external_auth:pam:bob", "external_auth:pam:fred", "nodegroups:web"]);
    let found = compare(&own, &rules("db*", true)).0;
    assert_eq!(found, [(vec!["nodegroups".to_owned(), "web".to_owned()], PathDifference::Content)]);
    assert_eq!(Kind::Acl.display_path(&found[0].0), "nodegroups:web");
}

#[test]
fn the_file_of_users_belongs_to_access_control() {
    let with = |content: &str| acl(&map! {}, Some(Digest::of(&[content.as_bytes()])));
    let found = compare(&with("fred:a"), &with("fred:b")).0;
    assert_eq!(found, [(vec!["users file".to_owned()], PathDifference::Content)]);
    assert_eq!(compare(&with("fred:a"), &acl(&map! {}, None)).0.len(), 1);
}

#[test]
fn of_the_values_of_options_two_bytes_are_told() {
    let tree = options(&map! { "mysql.pass" => "hunter2", "nested" => map! { "token" => "x" }, "list" => list!["pw"] });
    let mut leaves = Vec::new();
    let mut open = vec![&tree];
    while let Some(dir) = open.pop() {
        for one in dir.listing(None).entries {
            match dir.get(&one.name) {
                Some(Entry::Dir(dir)) => open.push(dir),
                _ => leaves.push(one.digest.0),
            }
        }
    }
    assert_eq!(leaves.len(), 3);
    assert!(leaves.iter().all(|digest| digest[2..] == [0; 14]), "{leaves:?}");
    let differs =
        options(&map! { "mysql.pass" => "hunter3" }).digest() != options(&map! { "mysql.pass" => "hunter2" }).digest();
    assert!(differs);
}

#[test]
fn deep_options_are_one_value() {
    let deep = (0..100).fold(Value::from(1), |inside, _| map! { "a" => inside }.into());
    let tree = option_tree(Some(&map! { "job" => deep }.into()));
    assert_eq!(paths(&tree).len(), 1);
    assert!(paths(&tree)[0].len() < 30);
    assert_eq!(option_tree(Some(&Value::Null)), Dir::default());
}

fn at(seconds: u64) -> Moment {
    Moment { wall: 1_000_000 + seconds * 1_000, steady: seconds * 1_000 }
}

fn digests(all: &[(Kind, u8)]) -> Vec<NamedDigest> {
    let named = |(kind, content): &(Kind, u8)| NamedDigest {
        kind: kind.name().into(),
        name: String::new(),
        digest: Digest([*content; 16]),
    };
    all.iter().map(named).collect()
}

fn watch() -> DriftWatch {
    let mut watch = DriftWatch::default();
    watch.own(Kind::Acl, Digest([1; 16]), at(0));
    watch.own(Kind::Files, Digest([1; 16]), at(0));
    watch
}

#[test]
fn only_what_differs_for_a_minute_is_reported_and_once() {
    let mut watch = watch();
    assert!(watch.hear(OTHER, &digests(&[(Kind::Acl, 2), (Kind::Files, 1)]), at(10)));
    assert_eq!(watch.differences().len(), 1);
    assert_eq!(watch.tick(at(69)), []);
    assert_eq!(watch.next(), Some(at(70).steady));
    let differs = DriftReport::Differs { kind: Kind::Acl, members: vec![OTHER], since: at(10).wall };
    assert_eq!(watch.tick(at(70)), [differs]);
    assert_eq!((watch.tick(at(200)), watch.next()), (vec![], None));
    assert!(watch.differences()[0].reported);
    // Equal again.
    assert!(watch.own(Kind::Acl, Digest([2; 16]), at(300)));
    assert_eq!(watch.tick(at(300)), [DriftReport::Over(Kind::Acl)]);
    assert_eq!(watch.tick(at(400)), []);
    // What was equal for a moment begins to differ again.
    watch.hear(OTHER, &digests(&[(Kind::Acl, 1)]), at(410));
    watch.hear(OTHER, &digests(&[(Kind::Acl, 2)]), at(420));
    watch.hear(OTHER, &digests(&[(Kind::Acl, 1)]), at(430));
    assert_eq!(watch.next(), Some(at(490).steady));
}

#[test]
fn a_member_that_is_away_does_not_become_equal_by_that() {
    let mut watch = watch();
    watch.hear(OTHER, &digests(&[(Kind::Acl, 2)]), at(0));
    assert_eq!(watch.tick(at(60)).len(), 1);
    watch.down(OTHER);
    assert_eq!(watch.tick(at(100)), []);
    assert_eq!(watch.differences().len(), 1);
    // One that was removed does not count.
    watch.retain(|node| node != OTHER);
    assert_eq!(watch.tick(at(101)), [DriftReport::Over(Kind::Acl)]);
}

#[test]
fn a_member_that_is_stopped_while_its_options_are_changed_is_not_reported_meanwhile() {
    let mut watch = watch();
    watch.hear(OTHER, &digests(&[(Kind::Acl, 2)]), at(0));
    watch.down(OTHER);
    assert_eq!((watch.tick(at(100)), watch.next()), (vec![], None));
    watch.hear(OTHER, &digests(&[(Kind::Acl, 2)]), at(110));
    assert_eq!((watch.tick(at(169)), watch.tick(at(170)).len()), (vec![], 1), "it lasts once the member is back");
}

#[test]
fn each_change_of_who_differs_is_reported() {
    let mut watch = watch();
    watch.hear(OTHER, &digests(&[(Kind::Acl, 2)]), at(0));
    watch.hear(THIRD, &digests(&[(Kind::Acl, 3)]), at(30));
    let differs = |members: &[Node], since| DriftReport::Differs { kind: Kind::Acl, members: members.to_vec(), since };
    assert_eq!(watch.tick(at(60)), [differs(&[OTHER], at(0).wall)]);
    assert_eq!(watch.tick(at(90)), [differs(&[OTHER, THIRD], at(0).wall)]);
    watch.hear(OTHER, &digests(&[(Kind::Acl, 1)]), at(95));
    assert_eq!(watch.tick(at(95)), [differs(&[THIRD], at(30).wall)]);
}

#[test]
fn what_a_member_does_not_name_is_not_compared() {
    let mut watch = watch();
    assert!(!watch.hear(OTHER, &[], at(0)));
    let mut presence = digests(&[(Kind::Acl, 9)]);
    presence[0].kind = "presence".into();
    assert!(!watch.hear(OTHER, &presence, at(0)), "that is about something else");
    watch.hear(OTHER, &digests(&[(Kind::Files, 2), (Kind::Pillar, 5)]), at(0));
    let kinds: Vec<_> = watch.differences().iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [Kind::Files], "the digest of the pillar is not made yet");
    // An older version came in its place.
    watch.hear(OTHER, &digests(&[(Kind::Acl, 1)]), at(5));
    assert_eq!(watch.differences(), []);
}

#[test]
fn repositories_are_fetched_at_different_times() {
    let mut watch = watch();
    watch.allow(Kind::Git, 60_000);
    watch.own(Kind::Git, Digest([1; 16]), at(0));
    watch.hear(OTHER, &digests(&[(Kind::Git, 2)]), at(0));
    assert_eq!(watch.tick(at(119)), []);
    assert_eq!(watch.tick(at(120)).len(), 1);
}

#[test]
fn random_histories_report_what_lasts() {
    for seed in 0..300 {
        let (mut random, mut watch) = (StdRng::seed_from_u64(seed), watch());
        let mut differs_since: BTreeMap<Node, u64> = BTreeMap::new();
        let (mut own, mut theirs, mut reported) = (1, BTreeMap::from([(OTHER, 1), (THIRD, 1)]), Vec::new());
        for node in [OTHER, THIRD] {
            watch.hear(node, &digests(&[(Kind::Acl, 1)]), at(0));
        }
        for second in 0..600 {
            if random.random_bool(0.02) {
                own = random.random_range(1..3);
                watch.own(Kind::Acl, Digest([own; 16]), at(second));
            } else if random.random_bool(0.04) {
                let node = if random.random_bool(0.5) { OTHER } else { THIRD };
                theirs.insert(node, random.random_range(1..3));
                watch.hear(node, &digests(&[(Kind::Acl, theirs[&node])]), at(second));
            }
            for (node, content) in &theirs {
                match *content == own {
                    true => drop(differs_since.remove(node)),
                    false => drop(differs_since.entry(*node).or_insert(second)),
                }
            }
            for report in watch.tick(at(second)) {
                match report {
                    DriftReport::Differs { members, .. } => reported = members,
                    DriftReport::Over(_) => reported.clear(),
                }
            }
            let lasting = differs_since.iter().filter(|(_, since)| **since + 60 <= second);
            assert_eq!(reported, lasting.map(|(node, _)| *node).collect::<Vec<_>>(), "seed {seed}, second {second}");
        }
    }
}
