//! Copies of repositories on this machine: fetched, switched, damaged, locked.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use saltern_git::{Blobs, Entry, Fetched, GitPillar, Group, LockType, PillarDir, Repository, RequestedEnvs, Role};
use value::{Map, Value, list, map};

const REFSPECS: [&str; 2] = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];

fn git(repository: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").env("GIT_DIR", repository).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A remote repository.
struct Source {
    path: PathBuf,
    time: u64,
}

impl Source {
    fn new(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        git(&path, &["init", "--quiet", "--bare", "--initial-branch=master"]);
        Source { path, time: 1_700_000_000 }
    }

    fn url(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// Adds a commit to a branch.
    fn commit(&mut self, branch: &str, files: &[(&str, &str, &str)]) -> String {
        self.time += 1;
        let from = Command::new("git")
            .env("GIT_DIR", &self.path)
            .args(["rev-parse", "--verify", "--quiet", branch])
            .output()
            .unwrap();
        let mut stream = format!("commit refs/heads/{branch}\ncommitter T <t@e> {} +0000\ndata 1\nm\n", self.time);
        if from.status.success() {
            // Without a parent, each commit would start a new history.
            stream += &format!("from refs/heads/{branch}^0\n");
        }
        for (mode, path, content) in files {
            stream += &format!("M {mode} inline {path}\ndata {}\n{content}\n", content.len());
        }
        let mut import = Command::new("git")
            .env("GIT_DIR", &self.path)
            .args(["fast-import", "--quiet"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
        assert!(import.wait().unwrap().success());
        git(&self.path, &["rev-parse", branch])
    }
}

fn options(more: Map) -> Map {
    let mut options = map! {
        "gitfs_base" => "master", "gitfs_ref_types" => list!["branch", "tag", "sha"],
        "gitfs_refspecs" => Vec::from(REFSPECS), "git_pillar_base" => "master", "git_pillar_branch" => "master",
        "git_pillar_ref_types" => list!["branch", "tag", "sha"], "git_pillar_refspecs" => Vec::from(REFSPECS),
    };
    options.update(more);
    options
}

fn group(remotes: Vec<Value>, cachedir: &Path, more: Map) -> Group {
    let group = Group::new(Role::GitFs, &remotes, &options(more), cachedir).unwrap();
    group.prepare().unwrap();
    group
}

fn content(blobs: &Blobs, repository: &Repository, reference: &str, path: &str) -> Option<String> {
    let tree = repository.tree_of(&repository.snapshot(), reference).unwrap()?;
    let (_, oid) = tree.file(path)?;
    Some(std::fs::read_to_string(blobs.file(repository, oid).unwrap()).unwrap())
}

#[test]
fn branches_tags_and_commits_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    let first = source.commit(
        "master",
        &[("100644", "a", "one"), ("100755", "d/run", "#!"), ("120000", "d/up", "../a"), ("120000", "out", "../../x")],
    );
    git(&source.path, &["tag", "light", &first]);
    let identity = ["-c", "user.name=T", "-c", "user.email=t@e"];
    let tag = [&identity[..], &["tag", "-a", "-m", "x", "heavy", &first]].concat();
    git(&source.path, &tag);
    source.commit("master", &[("100644", "a", "two")]);
    source.commit("dev", &[("100644", "a", "dev")]);
    let group = group(vec![source.url().into()], dir.path(), Map::new());
    let (blobs, repository) = (Blobs::new(group.root().join("blobs")), &group.repositories()[0]);
    assert_eq!(content(&blobs, repository, "master", "a"), None);
    assert_eq!(group.fetch(repository), Some(Fetched::Changed));
    assert_eq!(group.fetch(repository), Some(Fetched::Same));
    for (reference, expected) in
        [("master", "two"), ("dev", "dev"), ("light", "one"), ("heavy", "one"), (&first, "one"), (&first[..10], "one")]
    {
        assert_eq!(content(&blobs, repository, reference, "a").as_deref(), Some(expected), "{reference}");
    }
    assert_eq!(content(&blobs, repository, "master", "d/up").as_deref(), Some("two"));
    for missing in ["out", "d", "d/none", "up/x"] {
        assert_eq!(content(&blobs, repository, "master", missing), None, "{missing}");
    }
    assert_eq!(content(&blobs, repository, "none", "a"), None);
    let tree = repository.tree_of(&repository.snapshot(), "master").unwrap().unwrap();
    assert!(matches!(tree.get("d/run"), Some(Entry::File { mode: 0o100_755, .. })));
    let snapshot = repository.snapshot();
    let envs = repository.remote.envs(snapshot.names());
    assert_eq!(envs.into_iter().collect::<Vec<_>>(), ["base", "dev", "heavy", "light"]);
}

#[test]
fn a_reader_keeps_its_commit_while_others_see_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    source.commit("master", &[("100644", "a", "one")]);
    let (ours, theirs) = (
        group(vec![source.url().into()], dir.path(), Map::new()),
        group(vec![source.url().into()], dir.path(), Map::new()),
    );
    let (mine, yours) = (&ours.repositories()[0], &theirs.repositories()[0]);
    let blobs = Blobs::new(ours.root().join("blobs"));
    ours.fetch(mine);
    let before = yours.snapshot();
    source.commit("master", &[("100644", "a", "two")]);
    ours.fetch(mine);
    let tree = yours.tree_of(&before, "master").unwrap().unwrap();
    let (_, oid) = tree.file("a").unwrap();
    assert_eq!(std::fs::read_to_string(blobs.file(yours, oid).unwrap()).unwrap(), "one");
    assert_eq!(content(&blobs, yours, "master", "a").as_deref(), Some("two"));
    git(&source.path, &["branch", "-m", "master", "main"]);
    ours.fetch(mine);
    assert_eq!(content(&blobs, yours, "master", "a"), None);
    assert_eq!(content(&blobs, yours, "main", "a").as_deref(), Some("two"));
}

#[test]
fn a_dead_remote_affects_only_itself_and_keeps_its_copy() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    source.commit("master", &[("100644", "a", "one")]);
    let gone = format!("file://{}/gone", dir.path().display());
    let group = group(vec![gone.into(), source.url().into()], dir.path(), Map::new());
    let (dead, alive) = (&group.repositories()[0], &group.repositories()[1]);
    assert_eq!(group.fetch(dead), None);
    assert_eq!(group.fetch(alive), Some(Fetched::Changed));
    std::fs::rename(&source.path, dir.path().join("away")).unwrap();
    assert_eq!(group.fetch(alive), None);
    let blobs = Blobs::new(group.root().join("blobs"));
    assert_eq!(content(&blobs, alive, "master", "a").as_deref(), Some("one"));
}

#[test]
fn a_damaged_copy_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    source.commit("master", &[("100644", "a", "one")]);
    let group = group(vec![source.url().into()], dir.path(), Map::new());
    let repository = &group.repositories()[0];
    let place = repository.places().cachedir.clone();
    let blobs = Blobs::new(group.root().join("blobs"));
    // The remains of Salt, or of a copy that was interrupted at its very beginning.
    std::fs::create_dir_all(place.join(".git")).unwrap();
    assert_eq!(group.fetch(repository), Some(Fetched::Changed));
    assert_eq!(content(&blobs, repository, "master", "a").as_deref(), Some("one"));
    // A lost object is noticed when it is needed.
    let second = source.commit("master", &[("100644", "a", "two")]);
    group.fetch(repository);
    let object = |oid: &str| place.join("objects").join(&oid[..2]).join(&oid[2..]);
    let blob = git(&place, &["rev-parse", &format!("{second}:a")]);
    std::fs::remove_file(object(&blob)).unwrap();
    let tree = repository.tree_of(&repository.snapshot(), "master").unwrap().unwrap();
    assert!(blobs.file(repository, tree.file("a").unwrap().1).is_err());
    assert!(group.fetch(repository).is_some());
    assert_eq!(content(&blobs, repository, "master", "a").as_deref(), Some("two"));
    // The commit is lost before anybody reads it.
    let third = source.commit("master", &[("100644", "a", "three")]);
    group.fetch(repository);
    std::fs::write(object(&third), "").unwrap_or_else(|_| {
        std::fs::remove_file(object(&third)).unwrap();
        std::fs::write(object(&third), "").unwrap();
    });
    source.commit("master", &[("100644", "a", "four")]);
    assert_eq!(group.fetch(repository), Some(Fetched::Changed));
    assert_eq!(content(&blobs, repository, "master", "a").as_deref(), Some("four"));
}

#[test]
fn a_truncated_content_is_extracted_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    source.commit("master", &[("100644", "a", "whole")]);
    let group = group(vec![source.url().into()], dir.path(), Map::new());
    let repository = &group.repositories()[0];
    group.fetch(repository);
    let blobs = || Blobs::new(group.root().join("blobs"));
    let tree = repository.tree_of(&repository.snapshot(), "master").unwrap().unwrap();
    let (_, oid) = tree.file("a").unwrap();
    let path = blobs().file(repository, oid).unwrap();
    std::fs::write(&path, "who").unwrap();
    assert_eq!(std::fs::read_to_string(blobs().file(repository, oid).unwrap()).unwrap(), "whole");
    let unused = blobs();
    unused.remove_old(&Default::default(), Duration::ZERO);
    assert!(!path.exists());
    unused.file(repository, oid).unwrap();
    unused.remove_old(&[oid.clone()].into(), Duration::ZERO);
    assert!(path.exists());
}

#[test]
fn a_lock_prevents_fetches() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    source.commit("master", &[("100644", "a", "one")]);
    let group = group(vec![source.url().into()], dir.path(), Map::new());
    let repository = &group.repositories()[0];
    let (locked, failed) = group.set_lock(Some("file://*"));
    assert!(locked[0].starts_with("Set update lock for gitfs remote 'file://") && failed.is_empty(), "{locked:?}");
    assert_eq!(group.fetch(repository), Some(Fetched::Locked));
    assert_eq!(group.clear_lock(Some("https://*"), LockType::Update), (vec![], vec![]));
    let (cleared, _) = group.clear_lock(None, LockType::Update);
    assert!(cleared[0].starts_with("Removed update lock for gitfs remote 'file://"), "{cleared:?}");
    assert_eq!(group.fetch(repository), Some(Fetched::Changed));
    assert!(!repository.places().work.join("update.lk").exists());
}

#[test]
fn masters_that_share_a_cache_fetch_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    source.commit("master", &[("100644", "a", "one")]);
    let masters: Vec<_> = (0..4).map(|_| Arc::new(group(vec![source.url().into()], dir.path(), Map::new()))).collect();
    let fetches = |masters: &[Arc<Group>]| -> Vec<Option<Fetched>> {
        let threads: Vec<_> = masters
            .iter()
            .cloned()
            .map(|group| std::thread::spawn(move || group.fetch(&group.repositories()[0])))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    };
    for round in 0..3 {
        source.commit("master", &[("100644", "a", &format!("round {round}"))]);
        let outcomes = fetches(&masters);
        assert_eq!(outcomes.iter().filter(|fetched| **fetched == Some(Fetched::Changed)).count(), 1, "{outcomes:?}");
        assert!(outcomes.iter().all(Option::is_some), "{outcomes:?}");
        for group in &masters {
            let blobs = Blobs::new(group.root().join("blobs"));
            let found = content(&blobs, &group.repositories()[0], "master", "a");
            assert_eq!(found, Some(format!("round {round}")));
        }
    }
}

#[test]
fn remotes_that_are_no_longer_configured_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    source.commit("master", &[("100644", "a", "one")]);
    let named = |name: &str| map! { source.url() => list![map! { "name" => name }] };
    let first = group(vec![named("one").into()], dir.path(), Map::new());
    first.fetch(&first.repositories()[0]);
    assert!(dir.path().join("gitfs/one/_/HEAD").exists());
    let map = std::fs::read_to_string(dir.path().join("gitfs/remote_map.txt")).unwrap();
    assert!(map.starts_with("# gitfs_remote map") && map.ends_with(&format!("one = {}\n", source.url())), "{map}");
    let second = Group::new(Role::GitFs, &[named("two").into()], &options(Map::new()), dir.path()).unwrap();
    assert!(second.prepare().unwrap());
    assert!(!dir.path().join("gitfs/one").exists() && !second.prepare().unwrap());
    assert_eq!(second.clear_cache(), Vec::<String>::new());
    assert!(!dir.path().join("gitfs").exists());
}

#[test]
fn invalid_options_are_refused_in_salts_words() {
    let key = tempfile::NamedTempFile::new().unwrap();
    let key = key.path().to_str().unwrap();
    for (entry, more, expected) in [
        (
            Value::from(map! { "file:///a" => list![map! { "branch" => "x" }] }),
            Map::new(),
            "Invalid gitfs configuration parameter 'branch' in remote 'file:///a'. Valid parameters are: base, fallback, \
             mountpoint, root, ssl_verify, saltenv_whitelist, saltenv_blacklist, refspecs, disable_saltenv_mapping, \
             ref_types, update_interval, proxy, depth, user, password, pubkey, privkey, passphrase, insecure_auth, \
             all_saltenvs, name, saltenv. See the GitFS Walkthrough in the Salt documentation for further information.",
        ),
        (
            map! { "file:///a" => Value::Null }.into(),
            Map::new(),
            "Invalid per-remote configuration for gitfs remote 'file:///a'. If no per-remote parameters are being \
             specified, there may be a trailing colon after the URL, which should be removed. Check the master \
             configuration file.",
        ),
        (
            map! { "file:///a" => list![map! { "ref_types" => list!["branch", "Note"] }] }.into(),
            Map::new(),
            "The following ref_types for gitfs remote 'file:///a' are invalid: note. The supported values are: branch, \
             tag, sha",
        ),
        (
            map! { "https://h/a" => list![map! { "user" => "me" }] }.into(),
            Map::new(),
            "Incomplete authentication information for gitfs remote 'https://h/a'. Missing parameters: password",
        ),
        (
            "http://h/a".into(),
            map! { "gitfs_user" => "me", "gitfs_password" => "geheim" },
            "Invalid configuration for gitfs remote 'http://h/a'. Authentication is disabled by default on http remotes. \
             Either set gitfs_insecure_auth to True in the master configuration file, set a per-remote config option named \
             'insecure_auth' to True, or use https or ssh-based authentication.",
        ),
        (
            "ssh://h/a".into(),
            map! { "gitfs_privkey" => key },
            "Keypair specified for gitfs remote 'ssh://h/a', but remote URL is missing a username",
        ),
        (
            "git@h:a".into(),
            map! { "gitfs_pubkey" => key },
            "Incomplete authentication information for gitfs remote 'git@h:a'. Missing parameters: privkey",
        ),
        ("file:///a".into(), map! { "gitfs_provider" => "svn" }, "Invalid gitfs_provider 'svn'."),
        (
            map! { "file:///a" => list![map! { "name" => "../x" }] }.into(),
            Map::new(),
            "the name '../x' of gitfs remote 'file:///a' cannot be the name of a directory of its own",
        ),
    ] {
        let error = Group::new(Role::GitFs, &[entry], &options(more), Path::new("/none")).err().unwrap().to_string();
        assert!(error.starts_with(&format!("Failed to load gitfs: {expected}")), "{error}");
        assert!(!error.contains("geheim"), "{error}");
    }
    let twice = [Value::from("file:///a"), "file:///a".into()];
    let error = Group::new(Role::GitFs, &twice, &options(Map::new()), Path::new("/none")).err().unwrap();
    assert!(error.to_string().contains("conflicting cachedirs: file:///a, file:///a. Resolve this using"), "{error}");
    // Salt warns about such URLs and continues with the others.
    let odd = [Value::from("/srv/a"), "ext::sh -c id".into(), "file:///a".into()];
    let group = Group::new(Role::GitFs, &odd, &options(Map::new()), Path::new("/none")).unwrap();
    assert_eq!(group.repositories().len(), 1);
}

fn plain(directories: Vec<PillarDir>) -> Vec<(String, bool, String)> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let one =
        |dir: PillarDir| (dir.env, dir.mounted, read(dir.path.join("top.sls")) + &read(dir.path.join("m/n/x.sls")));
    directories.into_iter().map(one).collect()
}

#[test]
fn pillar_directories_never_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(dir.path().join("source"));
    source
        .commit("master", &[("100644", "top.sls", "master"), ("100644", "sub/x.sls", "x"), ("120000", "l", "top.sls")]);
    source.commit("dev", &[("100644", "top.sls", "dev")]);
    let remotes = list![
        format!("master {}", source.url()),
        map! { format!("__env__ {}", source.url()) => list![map! { "name" => "any" }] },
        map! { format!("dev {}", source.url()) => list![map! { "env" => "prod" }, map! { "name" => "dev" }] },
        map! { format!("master {}", source.url()) => list![
            map! { "name" => "mounted" }, map! { "root" => "sub" }, map! { "mountpoint" => "/m/n/" },
        ] },
        map! { format!("master {}", source.url()) => list![map! { "name" => "rootless" }, map! { "root" => "none" }] },
    ];
    let pillar = GitPillar::new(&remotes, &options(Map::new()), dir.path()).unwrap();
    for repository in pillar.group().repositories() {
        assert_eq!(pillar.fetch(repository), Some(Fetched::Changed), "{}", repository.id());
    }
    let owned = |env: &str, mounted, text: &str| (env.to_owned(), mounted, text.to_owned());
    let first = pillar.directories(&RequestedEnvs::default());
    assert_eq!(
        plain(first.clone()),
        [
            owned("base", false, "master"),
            owned("base", false, "master"),
            owned("prod", false, "dev"),
            owned("base", true, "x"),
        ]
    );
    assert_eq!(std::fs::read_link(first[0].path.join("l")).unwrap(), Path::new("top.sls"));
    let wanted = RequestedEnvs { pillarenv: Some("dev"), saltenv: None };
    assert_eq!(plain(pillar.directories(&wanted))[1], owned("dev", false, "dev"));
    let wanted = RequestedEnvs { pillarenv: Some("none"), saltenv: None };
    assert_eq!(pillar.directories(&wanted).len(), 3);
    source.commit("master", &[("100644", "top.sls", "new")]);
    pillar.fetch(&pillar.group().repositories()[0]);
    assert_eq!(plain(pillar.directories(&RequestedEnvs::default()))[0], owned("base", false, "new"));
    assert_eq!(plain(first)[0], owned("base", false, "master"));
    // A pillar holds secrets: in the repositories that git makes and in the directories of commits.
    assert_closed(pillar.group().root());
}

/// Fails for a file or directory that other users of this machine could read.
fn assert_closed(path: &Path) {
    let found = path.symlink_metadata().unwrap();
    assert!(found.is_symlink() || found.mode() & 0o027 == 0, "{:o} {}", found.mode(), path.display());
    if found.is_dir() {
        path.read_dir().unwrap().for_each(|entry| assert_closed(&entry.unwrap().path()));
    }
}

/// A web server that wants a password and then knows nothing. Returns its address and what it was asked.
fn strict_server() -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::Read;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (asked, answers) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut head, mut piece) = (String::new(), [0; 4096]);
            while !head.contains("\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(len) if len > 0 => head.push_str(&String::from_utf8_lossy(&piece[..len])),
                    _ => break,
                }
            }
            let known = head.to_lowercase().contains("authorization:");
            let answer = match known {
                true => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                false => {
                    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                }
            };
            let _ = stream.write_all(answer.as_bytes());
            if asked.send(head).is_err() {
                return;
            }
        }
    });
    (address, answers)
}

#[test]
fn passwords_reach_only_the_remote() {
    use base64::Engine;
    let dir = tempfile::tempdir().unwrap();
    let (address, asked) = strict_server();
    let wanted = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode("me:geheim \"'$x"));
    let given = map! { "user" => "me", "password" => "geheim \"'$x", "insecure_auth" => true };
    let given: Value = given
        .iter()
        .map(|(key, value)| Value::from([(key.clone(), value.clone())].into_iter().collect::<Map>()))
        .collect();
    let in_address = format!("http://me:geheim%20%22'$x@{address}/a.git");
    for remote in [map! { format!("http://{address}/a.git") => given }.into(), Value::from(in_address)] {
        let group = group(vec![remote], dir.path(), Map::new());
        let repository = &group.repositories()[0];
        let error = repository.fetch().unwrap_err().chain();
        assert!(error.contains("not found") && !error.contains("geheim"), "{error}");
        let heads: Vec<String> = asked.try_iter().collect();
        assert!(heads.iter().any(|head| head.contains(&wanted)), "{heads:?}");
        assert!(!repository.id().contains("geheim") && !repository.url().contains("geheim"), "{}", repository.id());
        // Nothing on the disk has it either.
        let found = Command::new("grep").args(["-r", "geheim"]).arg(dir.path()).output().unwrap();
        assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    }
    // Without a password there is no prompt for one.
    let group = group(vec![format!("http://{address}/a.git").into()], dir.path(), Map::new());
    let error = group.repositories()[0].fetch().unwrap_err().chain();
    assert!(error.contains("could not read Username") || error.contains("Authentication failed"), "{error}");
}
