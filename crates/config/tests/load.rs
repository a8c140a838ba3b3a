//! Settings read from files.

use std::path::{Path, PathBuf};

use saltern_config::{IpcMode, LoadOptions, Master, MasterType, Minion, Role, Source, Transport};
use value::{Value, map};

/// A scratch directory with files in it.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Tree(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = tree.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn root(&self) -> String {
        self.0.path().display().to_string()
    }

    fn source(&self, role: Role) -> Source {
        Source::find(role, Some(self.0.path()), |_| None)
    }

    fn master(&self) -> Result<Master, saltern_config::Error> {
        Master::load(&self.source(Role::Master), &LoadOptions::default())
    }

    fn minion(&self) -> Result<Minion, saltern_config::Error> {
        Minion::load(&self.source(Role::Minion), &LoadOptions::default())
    }
}

#[test]
fn settings_can_be_made_from_defaults() {
    let master = Master::from_options(map! { "id" => "m" }).unwrap();
    assert_eq!(master.network.ret_port, 4506);
    assert_eq!(master.network.transport, Transport::Zeromq);
    assert_eq!(master.paths.pki_dir, Path::new("/etc/salt/pki/master"));
    assert_eq!(master.files.file_roots.get("base").unwrap().len(), 2);
    assert_eq!(master.jobs.master_job_cache, "embedded");
    let minion = Minion::from_options(map! { "id" => "m" }).unwrap();
    assert_eq!(minion.masters[0].to_string(), "salt:4506");
    assert_eq!(minion.links.master_type, MasterType::Hot);
    assert_eq!(minion.login.auth_tries, 7);
    assert_eq!(minion.network.ipc_mode, IpcMode::Ipc);
    assert_eq!(minion.links.publish_port, None);
}

#[test]
fn everything_goes_below_the_root() {
    let tree = Tree::new(&[("master", "id: m\n")]);
    std::fs::write(tree.path("master"), format!("root_dir: {}\nautosign_file: a/b\n", tree.root())).unwrap();
    let master = tree.master().unwrap();
    let below = |name: &str| tree.path(name);
    assert_eq!(master.paths.pki_dir, below("etc/salt/pki/master"));
    assert_eq!(master.paths.sock_dir, below("var/run/salt/master"));
    assert_eq!(master.paths.autosign_file, Some(below("a/b")));
    assert_eq!(Path::new(&master.log.log_file), below("var/log/salt/master"));
    assert_eq!(master.config_dir, tree.0.path());
    assert!(master.id.ends_with("_master"), "{}", master.id);
}

#[test]
fn files_override_each_other_in_order() {
    let tree = Tree::new(&[
        ("master", "id: m\ntimeout: 7\nnodegroups: {a: 'x'}\ninclude: more/*.yaml\nworker_threads: 9\n"),
        ("master.d/10.conf", "timeout: 8\npeer: {a: [x]}\nfile_ignore_glob: ['*.a']\n"),
        ("master.d/20.conf", "peer: {a: [y], b: [z]}\nfile_ignore_glob: ['*.b', '*.a']\nnodegroups: {b: y}\n"),
        // Editors leave hidden files behind; a star does not match them.
        ("master.d/.hidden.conf", "timeout: 99\n"),
        ("more/1.yaml", "worker_threads: 11\ninclude: deeper.yaml\n"),
        ("more/deeper.yaml", "user: nobody\n"),
    ]);
    let master = tree.master().unwrap();
    assert_eq!(master.client.timeout.as_secs(), 8);
    assert_eq!(master.raw.get("peer").unwrap().to_string(), "{'a': ['x', 'y'], 'b': ['z']}");
    assert_eq!(master.files.file_ignore_glob, ["*.a", "*.b"]);
    assert_eq!(Value::from(master.nodegroups.clone()).to_string(), "{'b': 'y'}");
    assert_eq!((master.network.worker_threads, master.user.as_str()), (11, "nobody"));
    let origin = &master.origins["peer"];
    assert_eq!((origin.file.as_ref(), origin.line), (tree.path("master.d/20.conf").as_path(), Some(1)));
}

#[test]
fn wrong_types_are_refused_with_file_and_line() {
    let cases = [
        ("user: root\nret_port: abc\n", "option 'ret_port' must be a number, not 'abc'", 2),
        ("ret_port: 70000\n", "option 'ret_port' must be a whole number from 0 to 65535, not 70000", 1),
        ("\n\nauto_accept: 'yes'\n", "option 'auto_accept' must be true or false, not 'yes'", 3),
        ("file_roots: [a]\n", "option 'file_roots' must be a map, not ['a']", 1),
        ("transport: ws\n", "option 'transport' must be zeromq or tcp, not 'ws'", 1),
        ("key_pass: [hidden]\n", "option 'key_pass' must be empty or text, not what stands there", 1),
        ("ssl: {verify_flags: [VERIFY_CRL_CHECK_LEAF]}\n", "without 'verify_flags', which is not supported", 1),
        ("ssl: {cert_reqs: CERT_MAYBE}\n", "CERT_NONE, CERT_OPTIONAL or CERT_REQUIRED", 1),
        ("publish_signing_algorithm: MD5\n", "must be one of PKCS1v15-SHA1, PKCS1v15-SHA224, not 'MD5'", 1),
        ("id: a\nhash_type: NoSuch\n", "must be one of md5, sha1, sha224, sha256, sha384, sha512, not 'nosuch'", 2),
        ("user: root\nid: a/b\n", "option 'id' must be a name without '/'", 2),
        ("worker_threads: 0\n", "option 'worker_threads' must be a whole number of at least 1, not 0", 1),
    ];
    for (text, message, line) in cases {
        let tree = Tree::new(&[("master", text)]);
        let error = tree.master().unwrap_err().to_string();
        let place = format!("config: {}:{line}: option", tree.path("master").display());
        assert!(error.starts_with(&place) && error.contains(message), "{error}");
    }
    let tree = Tree::new(&[("minion", "id: a\n"), ("minion.d/x.conf", "# x\nmaster: 'a b'\n")]);
    let error = tree.minion().unwrap_err().to_string();
    let place = format!("config: {}:2: option 'master'", tree.path("minion.d/x.conf").display());
    assert!(error.starts_with(&place), "{error}");
}

#[test]
fn broken_files_are_refused_as_in_salt() {
    let tree = Tree::new(&[("master", "a: b: c\n")]);
    let path = tree.path("master").display().to_string();
    assert_eq!(
        tree.master().unwrap_err().to_string(),
        format!(
            "Error parsing configuration file: {path} - mapping values are not allowed in this context\n  in \"{path}\", line 1, column 5"
        )
    );
    let tree = Tree::new(&[("master", "just text\n")]);
    let error = tree.master().unwrap_err().to_string();
    assert!(error.ends_with("conf should be a document, not str."), "{error}");
    let tree = Tree::new(&[("master", "include: master\n")]);
    assert!(tree.master().unwrap_err().to_string().contains("included more than"));
}

#[test]
fn oddities_are_accepted_with_a_warning() {
    let tree = Tree::new(&[(
        "master",
        "peer:\ncluster_max_voters: None\nunknown_option: [1]\nfile_ignore_regex: ['(', 'ok']\nsecond: sdb://x/y\n",
    )]);
    let master = tree.master().unwrap();
    assert!(master.access.peer.is_empty());
    assert_eq!(master.raw.get("cluster_max_voters"), Some(&Value::Null));
    assert_eq!(master.raw.get("unknown_option").unwrap().to_string(), "[1]");
    assert_eq!(master.files.file_ignore_regex, ["ok"]);
    let all = master.warnings.join("\n");
    for part in ["master:1: option 'peer' is empty", "Unable to parse file_ignore_regex. Skipping: (", "'second'"] {
        assert!(all.contains(part), "{part} in {all}");
    }
}

#[test]
fn misspelt_options_are_named_and_keys_of_operators_are_not() {
    let own = "users: {}\nsites: []\nhosts.file: /x\nmy_company_roots: {}\nschedules.x: 1\nroles: [web]\n";
    let tree = Tree::new(&[
        ("master", &format!("auto_acept: true\n{own}")),
        ("master.d/roots.conf", "# first\nfiel_roots: {}\nfile_roots: {}\n"),
    ]);
    let file = |name: &str| tree.path(name).display().to_string();
    let expected = [
        format!("config: {}:1: option 'auto_acept' is not known. Did you mean 'auto_accept'?", file("master")),
        format!(
            "config: {}:2: option 'fiel_roots' is not known. Did you mean 'file_roots'?",
            file("master.d/roots.conf")
        ),
    ];
    assert_eq!(tree.master().unwrap().warnings, expected);
}

#[test]
fn a_misspelt_list_of_masters_is_named() {
    let tree = Tree::new(&[("minion", "id: a\nmasters: [salt1, salt2]\nmastery: 1\nusers: {}\n")]);
    let near = |line, name| {
        let file = tree.path("minion");
        format!("config: {}:{line}: option '{name}' is not known. Did you mean 'master'?", file.display())
    };
    assert_eq!(tree.minion().unwrap().warnings, [near(2, "masters"), near(3, "mastery")]);
}

#[test]
fn several_masters_in_one_text_are_refused_with_the_remedy() {
    let error = Tree::new(&[("minion", "id: a\nmaster: salt1 salt2\n")]).minion().unwrap_err().to_string();
    let expected = "option 'master' must be the name or address of one master; for several, write a list: [salt1, salt2], \
                    not 'salt1 salt2'";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn a_damaged_saved_schedule_is_renamed() {
    let tree = Tree::new(&[("minion", "id: a\n"), ("minion.d/_schedule.conf", "a: b: c\n")]);
    assert_eq!(tree.minion().unwrap().id, "a");
    assert!(tree.path("minion.d/_schedule.confYAMLError").exists());
    assert!(!tree.path("minion.d/_schedule.conf").exists());
}

#[test]
fn flags_override_everything() {
    let tree = Tree::new(&[("minion", "id: a\nlog_level: info\n")]);
    let load = LoadOptions { overlay: map! { "log_level" => "debug", "user" => "me" }, ..LoadOptions::default() };
    let minion = Minion::load(&tree.source(Role::Minion), &load).unwrap();
    assert_eq!((minion.log.log_level.as_str(), minion.user.as_str()), ("debug", "me"));
    assert_eq!(minion.log.log_level_logfile.as_deref(), Some("info"));
    assert_eq!(minion.raw.get_str("user"), Some("me"));
}

#[test]
fn the_main_file_is_found_by_flag_and_variables() {
    let tree = Tree::new(&[("master", ""), ("other", "")]);
    let (root, other) = (tree.root(), tree.path("other").display().to_string());
    let find = |flag: Option<&str>, set: &[(&str, &str)]| {
        let found = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
        Source::find(Role::Master, flag.map(Path::new), found).path
    };
    assert_eq!(find(None, &[]), Path::new("/etc/salt/master"));
    assert_eq!(find(Some("/x/y"), &[("SALT_MASTER_CONFIG", &other)]), Path::new("/x/y/master"));
    assert_eq!(find(None, &[("SALT_MASTER_CONFIG", &other)]), tree.path("other"));
    assert_eq!(find(None, &[("SALT_MASTER_CONFIG", "/not/there")]), Path::new("/etc/salt/master"));
    assert_eq!(find(None, &[("SALT_CONFIG_DIR", &root)]), tree.path("master"));
}

#[test]
fn several_minions_on_one_machine_have_their_own_directories() {
    let tree = Tree::new(&[("minion", "id: a\nappend_minionid_config_dirs: [pki_dir, cachedir, pidfile]\n")]);
    let minion = tree.minion().unwrap();
    assert_eq!(minion.paths.pki_dir, Path::new("/etc/salt/pki/minion/a"));
    assert_eq!(minion.paths.cachedir, Path::new("/var/cache/salt/minion/a"));
    assert_eq!(minion.paths.pidfile, Path::new("/var/run/salt/a/salt-minion.pid"));
}

#[test]
fn socket_paths_fit_into_their_limit() {
    let deep = format!("/{}", "d".repeat(90));
    let error = Minion::from_options(map! { "id" => "a", "sock_dir" => deep.clone(), "cachedir" => deep }).unwrap_err();
    assert!(error.to_string().contains("at most 107 bytes"), "{error}");
    let moved =
        Minion::from_options(map! { "id" => "a", "cachedir" => "/c", "sock_dir" => "/a/much/longer/path" }).unwrap();
    assert_eq!(moved.paths.sock_dir, Path::new("/c/.salt-unix"));
    let tree = Tree::new(&[("minion", &format!("id: a\nroot_dir: /{}\n", "d".repeat(90)))]);
    tree.minion().unwrap_err();
    let of = |program: &str| LoadOptions { program: program.into(), ..LoadOptions::default() };
    Minion::load(&tree.source(Role::Minion), &of("salt-call")).unwrap();
    Minion::load(&tree.source(Role::Minion), &of("salt-minion")).unwrap_err();
    let tree = Tree::new(&[("master", &format!("root_dir: /{}\n", "d".repeat(90)))]);
    Master::load(&tree.source(Role::Master), &of("salt-master")).unwrap_err();
    // These only connect to sockets, or need none.
    for program in ["salt", "salt-key", "salt-run", "salt-cp"] {
        Master::load(&tree.source(Role::Master), &of(program)).unwrap();
    }
}

#[test]
fn tls_is_read_from_its_map() {
    let text = "ssl: {keyfile: /k, certfile: /c, ca_certs: /a, cert_reqs: CERT_REQUIRED}\ntransport: tcp\n";
    let tls = Tree::new(&[("master", text)]).master().unwrap().network.tls.unwrap();
    assert_eq!(tls.ca_certs.as_deref(), Some(Path::new("/a")));
    assert_eq!(tls.cert_reqs, saltern_config::CertReqs::Required);
    for (text, wanted) in [
        ("ssl: {certfile: /c}\n", saltern_config::CertReqs::Required),
        ("ssl: true\n", saltern_config::CertReqs::Required),
        ("ssl: {cert_reqs: CERT_NONE}\n", saltern_config::CertReqs::None),
    ] {
        assert_eq!(Tree::new(&[("master", text)]).master().unwrap().network.tls.unwrap().cert_reqs, wanted, "{text}");
    }
    assert!(Tree::new(&[("master", "ssl: false\n")]).master().unwrap().network.tls.is_none());
}
