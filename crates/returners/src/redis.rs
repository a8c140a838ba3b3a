//! `redis` — stores returns and jobs in a Redis server, under Salt's keys.
//!
//! `ret:<jid>` is a hash of minion and return, `load:<jid>` the publication, `<minion>:<fun>` the last job id, `minions` the set of
//! all minions; all but the last expire after `keep_jobs_seconds`.

mod resp;

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;
use python::json::loads;
use tracing::debug;
use value::{Map, Value};

use crate::{Error, JobStore, Options, Result, Returner, World, json};
use resp::{Connection, Reply, Server};

/// The options, with Salt's names.
const NAMES: [&str; 6] = ["host", "port", "unix_socket_path", "db", "password", "cluster_mode"];

/// The number of keys that one step of a scan requests.
const STEP: &str = "1000";

/// Stores in Redis.
pub struct Redis;

impl Returner for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["redis_return"]
    }

    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let commands = commands(ret, world.keep_jobs_seconds())?;
            connect(world, Some(ret)).await?.all(&commands).await.map(drop)
        })
    }

    fn jobs(&self) -> Option<&dyn JobStore> {
        Some(self)
    }
}

/// The Redis commands of one return.
fn commands(ret: &Map, keep: u64) -> Result<Vec<Vec<String>>> {
    let text = |name: &str| ret.get(name).map(Value::to_string).unwrap_or_default();
    let (minion, jid, fun) = (text("id"), text("jid"), text("fun"));
    let key = format!("ret:{jid}");
    let mut last = vec!["SET".to_owned(), format!("{minion}:{fun}"), jid];
    let mut all = vec![vec!["HSET".to_owned(), key.clone(), minion.clone(), json(&Value::Map(ret.clone()))?]];
    if keep > 0 {
        all.push(vec!["EXPIRE".to_owned(), key, keep.to_string()]);
        last.extend(["EX".to_owned(), keep.to_string()]);
    }
    all.push(last);
    all.push(vec!["SADD".to_owned(), "minions".to_owned(), minion]);
    Ok(all)
}

async fn connect(world: &World, ret: Option<&Map>) -> Result<Connection> {
    Connection::open(&server(&Options::find(world, "redis", &NAMES, Map::new(), ret)?)?).await
}

fn server(options: &Options) -> Result<Server> {
    if options.flag("cluster_mode") {
        return Err(Error::option("not supported: redis.cluster_mode"));
    }
    Ok(Server {
        // A socket wins over host and port, as in the Redis client that Salt uses.
        socket: options.text("unix_socket_path"),
        host: options.text("host").unwrap_or_else(|| "localhost".to_owned()),
        port: options.number("port")?.unwrap_or(6379),
        db: options.text("db").unwrap_or_else(|| "0".to_owned()),
        password: options.text("password"),
    })
}

fn read(text: &str, key: &str) -> Result<Value> {
    loads(text).map_err(|reason| Error::failed(format!("redis: {key} is not JSON: {reason}")))
}

impl JobStore for Redis {
    fn save_load<'a>(&'a self, world: &'a World, jid: &'a str, load: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (key, text) = (format!("load:{jid}"), json(&Value::Map(load.clone()))?);
            let keep = world.keep_jobs_seconds();
            let command = match keep {
                0 => vec!["SET".to_owned(), key, text],
                keep => vec!["SETEX".to_owned(), key, keep.to_string(), text],
            };
            connect(world, None).await?.all(&[command]).await.map(drop)
        })
    }

    fn load<'a>(&'a self, world: &'a World, jid: &'a str) -> BoxFuture<'a, Result<Option<Map>>> {
        Box::pin(async move {
            let key = format!("load:{jid}");
            let found = connect(world, None).await?.one(&["GET", &key]).await?;
            found.text().map(|text| read(text, &key)).transpose().map(|found| found.and_then(Value::into_map))
        })
    }

    fn returns<'a>(&'a self, world: &'a World, jid: &'a str) -> BoxFuture<'a, Result<Map>> {
        Box::pin(async move {
            let key = format!("ret:{jid}");
            let fields = connect(world, None).await?.one(&["HGETALL", &key]).await?.texts();
            // Salt leaves out empty returns.
            let pairs = fields.chunks_exact(2).filter(|pair| !pair[1].is_empty());
            pairs.map(|pair| Ok((Value::from(pair[0].as_str()), read(&pair[1], &key)?))).collect()
        })
    }

    fn all<'a>(&'a self, world: &'a World) -> BoxFuture<'a, Result<Vec<(String, Map)>>> {
        Box::pin(async move {
            let mut connection = connect(world, None).await?;
            let mut jobs = Vec::new();
            for keys in Vec::from_iter(keys(&mut connection, "load:*").await?).chunks(500) {
                let mut command = vec!["MGET"];
                command.extend(keys.iter().map(String::as_str));
                // A key that expired between the scan and this request gives null.
                for text in connection.one(&command).await?.items().iter().filter_map(Reply::text) {
                    if let Some(load) = read(text, "load:*")?.into_map() {
                        jobs.push((load.get("jid").map(Value::to_string).unwrap_or_default(), load));
                    }
                }
            }
            Ok(jobs)
        })
    }

    /// Redis expires keys by itself; only returns that arrived so late that they outlive their job are removed.
    fn clean<'a>(&'a self, world: &'a World) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut connection = connect(world, None).await?;
            let living = keys(&mut connection, "load:*").await?;
            let returns = keys(&mut connection, "ret:*").await?;
            let orphans: Vec<&String> =
                returns.iter().filter(|key| !living.contains(&key.replacen("ret:", "load:", 1))).collect();
            // Bounded commands: a Redis server runs one command at a time, so a long one stops everybody.
            for some in orphans.chunks(500) {
                let mut command = vec!["DEL"];
                command.extend(some.iter().map(|key| key.as_str()));
                connection.one(&command).await?;
                debug!("clean old jobs: {} of them", some.len());
            }
            Ok(())
        })
    }
}

/// Returns all keys that match a pattern, in steps that do not block the server.
async fn keys(connection: &mut Connection, pattern: &str) -> Result<BTreeSet<String>> {
    // SCAN may return a key more than once.
    let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
    loop {
        let reply = connection.one(&["SCAN", &cursor, "MATCH", pattern, "COUNT", STEP]).await?;
        let items = reply.items();
        let (Some(next), Some(some)) = (items.first().and_then(Reply::text), items.get(1)) else {
            return Err(Error::failed("redis: the answer to SCAN is not understood"));
        };
        found.extend(some.texts());
        if next == "0" {
            return Ok(found);
        }
        cursor = next.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;
    use crate::testing;

    #[test]
    fn a_return_is_stored_under_salts_keys() {
        let ret = map! { "return" => true, "jid" => "7", "fun" => "test.ping", "id" => "web1" };
        let text = "{\"return\": true, \"jid\": \"7\", \"fun\": \"test.ping\", \"id\": \"web1\"}";
        let words = |line: &str| line.split('|').map(str::to_owned).collect::<Vec<_>>();
        let expected = [
            words(&format!("HSET|ret:7|web1|{text}")),
            words("EXPIRE|ret:7|60"),
            words("SET|web1:test.ping|7|EX|60"),
            words("SADD|minions|web1"),
        ];
        assert_eq!(commands(&ret, 60).unwrap(), expected);
        assert_eq!(commands(&ret, 0).unwrap()[1], words("SET|web1:test.ping|7"));
    }

    /// A world whose server gives these answers to any request.
    async fn served(answers: String) -> World {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, answers.as_bytes()).await.unwrap();
            // Stays open until the client disconnects.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        });
        testing::world(map! { "redis.host" => "127.0.0.1", "redis.port" => port })
    }

    fn text(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    fn scanned(next: &str, keys: &[&str]) -> String {
        let keys: Vec<String> = keys.iter().map(|key| text(key)).collect();
        format!("*2\r\n{}*{}\r\n{}", text(next), keys.len(), keys.concat())
    }

    #[tokio::test]
    async fn jobs_are_read_as_they_were_stored() {
        let load = "{\"jid\": \"7\", \"fun\": \"test.ping\"}";
        let world = served(text(load)).await;
        assert_eq!(Redis.load(&world, "7").await.unwrap().unwrap().get_str("fun"), Some("test.ping"));
        assert_eq!(Redis.load(&served("$-1\r\n".into()).await, "7").await.unwrap(), None);
        let world = served(format!("*2\r\n{}{}", text("web1"), text("{\"return\": true}"))).await;
        let returns = map! { "web1" => map! { "return" => true } };
        assert_eq!(Redis.returns(&world, "7").await.unwrap(), returns);
        // The keys arrive in two steps, and one job is gone before it is read.
        let answers = [scanned("5", &["load:7"]), scanned("0", &["load:8"]), format!("*2\r\n{}$-1\r\n", text(load))];
        let jobs = Redis.all(&served(answers.concat()).await).await.unwrap();
        assert_eq!(jobs.iter().map(|(jid, _)| jid.as_str()).collect::<Vec<_>>(), ["7"]);
        let answers = [scanned("0", &["load:7"]), scanned("0", &["ret:7", "ret:8"]), ":1\r\n".to_owned()];
        Redis.clean(&served(answers.concat()).await).await.unwrap();
    }

    #[tokio::test]
    async fn invalid_json_is_reported_with_its_key() {
        let error = Redis.load(&served(text("{")).await, "7").await.unwrap_err().to_string();
        assert!(error.starts_with("redis: load:7 is not JSON: "), "{error}");
    }

    #[test]
    fn a_cluster_is_refused() {
        let world = testing::world(map! { "redis.cluster_mode" => true });
        let options = Options::find(&world, "redis", &NAMES, Map::new(), None).unwrap();
        assert_eq!(server(&options).err().unwrap().to_string(), "not supported: redis.cluster_mode");
    }
}
