use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use config::Master;

use super::*;
use crate::{FileServer, RemoteError};

/// A master's directory, a minion's cache, and the number of requests.
struct Fixture {
    dir: tempfile::TempDir,
    asked: Arc<Counting>,
    client: FileClient,
}

/// Forwards requests and counts them.
struct Counting {
    inner: LocalRemote,
    pieces: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    garbled: AtomicUsize,
    /// The number of chunks after the first that are not answered any more.
    lost: AtomicUsize,
    /// The content that replaces a file when its first chunk is requested.
    becomes: Mutex<Option<(PathBuf, Vec<u8>)>>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = std::result::Result<Value, RemoteError>> + Send + 'a>>;

impl Remote for Counting {
    fn call(&self, load: Map, reply: Reply) -> Answer<'_> {
        Box::pin(async move {
            if load.get_str("cmd") != Some("_serve_file") {
                return self.inner.call(load, reply).await;
            }
            assert_eq!(reply, Reply::Raw);
            self.pieces.fetch_add(1, Ordering::SeqCst);
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(now, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let is_first = load.get("loc").and_then(Value::as_i64) == Some(0);
            if let Some((path, content)) = is_first.then(|| self.becomes.lock().unwrap().take()).flatten() {
                std::fs::write(path, content).unwrap();
            }
            let answer = self.inner.call(load, reply).await;
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            if self.garbled.load(Ordering::SeqCst) > 0 {
                self.garbled.fetch_sub(1, Ordering::SeqCst);
                return Ok("what?".into());
            }
            if !is_first && self.lost.load(Ordering::SeqCst) > 0 {
                self.lost.fetch_sub(1, Ordering::SeqCst);
                return Err("the server is gone".into());
            }
            answer
        })
    }
}

const PIECE: usize = 1000;

fn fixture(files: &[(&str, &[u8])]) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let full = dir.path().join("srv").join(name);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, content).unwrap();
    }
    let srv = dir.path().join("srv");
    let options = map! {
        "file_roots" => map! { "base" => vec![srv.to_str().unwrap()], "dev" => vec![srv.to_str().unwrap()] },
        "file_buffer_size" => PIECE,
    };
    let master = Master::from_options(options).unwrap();
    let server = FileServer::new(&master.files, &master.raw, &dir.path().join("master")).unwrap();
    let asked = Arc::new(Counting {
        inner: LocalRemote(Arc::new(server)),
        pieces: AtomicUsize::new(0),
        at_once: AtomicUsize::new(0),
        most_at_once: AtomicUsize::new(0),
        garbled: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
        becomes: Mutex::new(None),
    });
    let client = FileClient::new(asked.clone(), &dir.path().join("minion"), "sha256").unwrap();
    Fixture { dir, asked, client }
}

impl Fixture {
    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    async fn cache(&self, address: &str) -> Option<PathBuf> {
        self.client.cache_file(address, "base", None).await.unwrap()
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|place| (place * 7 % 251) as u8).collect()
}

#[tokio::test]
async fn a_file_is_downloaded_in_parallel_chunks_and_only_once() {
    let content = bytes(PIECE * 20 + 17);
    let f = fixture(&[("a/big", &content)]);
    let cached = f.cache("salt://a/big").await.unwrap();
    assert_eq!(cached, f.at("minion/files/base/a/big"));
    assert_eq!(std::fs::read(&cached).unwrap(), content);
    assert_eq!(f.asked.pieces.load(Ordering::SeqCst), 21);
    assert!(f.asked.most_at_once.load(Ordering::SeqCst) > 1);
    f.cache("salt://a/big").await.unwrap();
    assert_eq!(f.asked.pieces.load(Ordering::SeqCst), 21);
}

#[tokio::test]
async fn files_around_the_chunk_size_are_complete() {
    for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, PIECE * 2] {
        for gzip in [None, Some(5)] {
            let content = bytes(len);
            let f = fixture(&[("f", &content)]);
            let how = GetFile { gzip, ..GetFile::cached("base") };
            let path = f.client.get_file("salt://f", &how).await.unwrap().unwrap();
            assert_eq!(std::fs::read(path).unwrap(), content, "{len} {gzip:?}");
        }
    }
}

#[tokio::test]
async fn a_changed_file_is_fetched_again_and_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let f = fixture(&[("f", b"one")]);
    let path = f.cache("salt://f").await.unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(f.at("srv/f"), "other").unwrap();
    f.cache("salt://f").await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"other");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(f.at("minion/files/base")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_destination_may_be_given() {
    let f = fixture(&[("a/f", b"content")]);
    let get = async |dest: &Path, slash: &str, makedirs: bool| {
        let dest = Some(format!("{}{slash}", dest.display()));
        f.client.get_file("salt://a/f", &GetFile { dest, makedirs, ..GetFile::cached("base") }).await.unwrap()
    };
    std::fs::create_dir(f.at("out")).unwrap();
    assert_eq!(get(&f.at("out"), "", false).await, Some(f.at("out/f")));
    assert_eq!(get(&f.at("out/g"), "", false).await, Some(f.at("out/g")));
    assert_eq!(get(&f.at("out/none/g"), "", false).await, None);
    assert_eq!(get(&f.at("out/new"), "/", true).await, Some(f.at("out/new/f")));
    assert_eq!(std::fs::read(f.at("out/new/f")).unwrap(), b"content");
    assert!(!f.at("minion/files").exists());
}

#[tokio::test]
async fn malformed_answers_are_retried_a_few_times() {
    let f = fixture(&[("f", b"content")]);
    f.asked.garbled.store(2, Ordering::SeqCst);
    assert!(f.cache("salt://f").await.is_some());
    std::fs::write(f.at("srv/f"), "changed!").unwrap();
    f.asked.garbled.store(100, Ordering::SeqCst);
    let error = f.client.cache_file("salt://f", "base", None).await.unwrap_err().to_string();
    assert!(error.contains('f') && error.contains("malformed answer"), "{error}");
    assert_eq!(std::fs::read(f.at("minion/files/base/f")).unwrap(), b"content");
}

#[tokio::test]
async fn missing_unsafe_and_unsupported_files_differ() {
    let f = fixture(&[("f", b"x")]);
    assert_eq!(f.cache("salt://none").await, None);
    for address in ["http://h/x", "s3://b/x", "ftp://h/x"] {
        let error = f.client.cache_file(address, "base", None).await.unwrap_err().to_string();
        assert!(error.starts_with("not supported: "), "{error}");
    }
    assert!(f.client.cache_file("relative", "base", None).await.is_err());
    let local = f.at("srv/f");
    assert_eq!(f.cache(local.to_str().unwrap()).await, Some(local.clone()));
    assert_eq!(f.cache(&format!("file://{}", local.display())).await, Some(local));
    assert!(f.client.cache_dest("salt://../../x", "base").is_err());
    assert_eq!(f.client.is_cached("salt://../../srv/f", "base"), None);
}

#[tokio::test]
async fn an_environment_in_the_url_takes_precedence() {
    let f = fixture(&[("f", b"x"), ("q?y", b"odd")]);
    assert_eq!(f.cache("salt://f?saltenv=dev").await, Some(f.at("minion/files/dev/f")));
    assert_eq!(f.cache("salt://|q?y").await, Some(f.at("minion/files/base/q?y")));
    let cached = |address: &str| f.client.is_cached(address, "base");
    assert_eq!(cached("salt://f"), None);
    assert_eq!(cached("salt://f?saltenv=dev"), Some(f.at("minion/files/dev/f").display().to_string()));
    assert_eq!(cached("salt://|q?y"), Some(format!("|{}", f.at("minion/files/base/q?y").display())));
    assert_eq!(
        f.client.cache_dest("https://u:p@h:80/a?b=c", "base").unwrap(),
        f.at("minion/extrn_files/base/h80/a-b=c")
    );
}

#[tokio::test]
async fn directories_are_downloaded_completely() {
    let f = fixture(&[
        ("d/e/one", b"1"),
        ("d/e/x/two", b"2"),
        ("d/ee", b"3"),
        ("d/e/q?z", b"4"),
        ("t.sls", b""),
        ("u/init.sls", b""),
    ]);
    std::fs::create_dir(f.at("srv/d/e/void")).unwrap();
    let how = GetFile { dest: Some(f.at("out").display().to_string()), ..GetFile::cached("base") };
    let got = f.client.get_dir("salt://d/e/", &how).await.unwrap();
    assert_eq!(got, ["out/e/one", "out/e/q?z", "out/e/void", "out/e/x/two"].map(|path| f.at(path)));
    let how =
        CachedDir { saltenv: "base".into(), include_empty: true, exclude: Some("*two".into()), ..CachedDir::default() };
    let cached = f.client.cache_dir("salt://d/e", &how).await.unwrap();
    assert_eq!(cached, ["one", "q?z", "void"].map(|name| f.at("minion/files/base/d/e").join(name)));
    assert_eq!(f.client.list_states("base").await.unwrap(), ["t", "u"]);
    assert_eq!(f.client.envs().await.unwrap(), ["base", "dev"]);
    assert_eq!(f.client.cache_master("base").await.unwrap().len(), 6);
    assert_eq!(f.client.file_local_list("base").len(), 6);
}

#[tokio::test]
async fn a_download_starts_over_when_its_server_is_lost() {
    let content = bytes(5500);
    let f = fixture(&[("big", &content)]);
    f.asked.lost.store(1, Ordering::SeqCst);
    let cached = f.cache("salt://big").await.unwrap();
    assert_eq!(std::fs::read(cached).unwrap(), content);
    f.asked.lost.store(2000, Ordering::SeqCst);
    std::fs::write(f.at("srv/big"), bytes(5501)).unwrap();
    let refused = f.client.cache_file("salt://big", "base", None).await.unwrap_err().to_string();
    assert!(refused.contains("big"), "{refused}");
    assert_eq!(std::fs::read(f.at("minion/files/base/big")).unwrap(), content, "the old copy stays");
}

#[tokio::test]
async fn a_file_that_grows_during_the_download_is_complete() {
    let f = fixture(&[("f", &bytes(PIECE * 3))]);
    for grown in [bytes(PIECE * 6), bytes(PIECE * 9 + 1), bytes(PIECE * 2)] {
        *f.asked.becomes.lock().unwrap() = Some((f.at("srv/f"), grown.clone()));
        let cached = f.cache("salt://f").await.unwrap();
        assert!(std::fs::read(cached).unwrap() == grown, "{} bytes", grown.len());
        std::fs::write(f.at("srv/f"), bytes(PIECE * 3)).unwrap();
    }
}

/// Jobs run on any thread, so their futures must be able to move between threads.
#[test]
fn futures_can_move_between_threads() {
    fn check<T: Send>(_: T) {}
    let f = fixture(&[]);
    let (client, how) = (&f.client, GetFile::default());
    check(client.get_file("salt://x", &how));
    check(client.get_url("salt://x", &how));
    check(client.get_dir("salt://x", &how));
    check(client.cache_files(&[], "base"));
    check(client.cache_dir("salt://x", &CachedDir::default()));
    check(client.cache_master("base"));
    check(client.hash_and_stat("salt://x", "base"));
}

#[tokio::test]
async fn hashes_and_local_copies() {
    let f = fixture(&[("f", b"x")]);
    let (hash, stat) = f.client.hash_and_stat("salt://f", "base").await.unwrap().unwrap();
    assert_eq!(hash.get_str("hsum"), Some(HashType::Sha256.hex(b"x").as_str()));
    assert_eq!(stat.as_list().unwrap()[6], Value::Int(1));
    let local = f.at("srv/f");
    assert_eq!(f.client.hash_file(local.to_str().unwrap(), "base").await.unwrap(), Some(hash));
    assert_eq!(f.client.hash_file("/nowhere/x", "base").await.unwrap(), None);
    let copy = f.client.cache_local_file(&local).unwrap();
    assert_eq!(copy, f.at("minion/localfiles").join(local.strip_prefix("/").unwrap()));
}
