//! The store of leases in JetStream, as a key-value bucket of which only compare-and-set is used.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::context::{Context, ContextBuilder};
use async_nats::jetstream::stream::{
    ClusterInfo, Config, DeleteMessageErrorKind, DiscardPolicy, RetentionPolicy, StorageType,
};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::bucket::{Bucket, BucketError, OpenError, Opened, Stored};
use crate::names;
use crate::objects::{self, TIMEOUT};

/// A store of leases in JetStream.
pub struct JetStreamBucket {
    context: Context,
    /// The name of the bucket.
    name: String,
    lease_time: Duration,
}

impl JetStreamBucket {
    /// Creates the store of a set, whose name is written as in subjects. `lease_time` is the option `cluster_lease_time`, which all its
    /// masters must share.
    pub fn new(client: Client, set: &str, lease_time: Duration) -> JetStreamBucket {
        JetStreamBucket { context: context(client), name: names::bucket(set), lease_time }
    }

    fn stream(&self) -> String {
        format!("KV_{}", self.name)
    }

    fn subject(&self, name: &str) -> String {
        format!("$KV.{}.{}", self.name, names::part(name))
    }

    fn config(&self) -> Config {
        Config {
            name: self.stream(),
            subjects: vec![format!("$KV.{}.>", self.name)],
            description: Some("Who does what a set of Saltern masters does once".to_owned()),
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            max_messages_per_subject: 1,
            max_age: self.lease_time,
            discard: DiscardPolicy::New,
            allow_direct: false,
            allow_rollup: false,
            deny_delete: false,
            ..Config::default()
        }
    }
}

/// Checks that most servers of a stream have its latest state. One that has lost the others says what it knew for some seconds more.
fn has_majority(cluster: &ClusterInfo) -> Result<(), String> {
    let (all, current) = (cluster.replicas.len() + 1, cluster.replicas.iter().filter(|peer| peer.current).count() + 1);
    match cluster.leader.as_deref() {
        None | Some("") => Err("the stream has no leader".to_owned()),
        Some(_) if current <= all / 2 => Err(format!("{current} of {all} servers have the latest state of the stream")),
        Some(_) => Ok(()),
    }
}

/// Returns what requests to JetStream are made with.
pub(crate) fn context(client: Client) -> Context {
    ContextBuilder::new().timeout(TIMEOUT).ack_timeout(TIMEOUT).build(client)
}

impl Bucket for JetStreamBucket {
    fn open(&self) -> BoxFuture<'_, Result<Opened, OpenError>> {
        async {
            let info = objects::open(&self.context, self.config()).await?;
            if let Some(cluster) = &info.cluster {
                has_majority(cluster).map_err(OpenError::NoAnswer)?;
            }
            let found = info.config.max_age;
            if found != self.lease_time {
                return Err(OpenError::Settings(format!(
                    "the JetStream bucket {} was made with a lease time of {} s, and the option cluster_lease_time of this master is \
                     {} s. Give all masters the same, or stop them all and remove the bucket: nats kv del {}",
                    self.name,
                    found.as_secs_f64(),
                    self.lease_time.as_secs_f64(),
                    self.name
                )));
            }
            let last = info.state.last_sequence;
            Ok(Opened { replicas: info.config.num_replicas, unused: last == 0, last })
        }
        .boxed()
    }

    fn publish<'a>(&'a self, name: &'a str, expected: u64, value: Bytes) -> BoxFuture<'a, Result<u64, BucketError>> {
        async move { objects::publish(&self.context, &self.stream(), self.subject(name), expected, value).await }
            .boxed()
    }

    fn last<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Stored>, BucketError>> {
        async move { objects::last(&self.context, &self.stream(), &self.subject(name)).await }.boxed()
    }

    fn delete(&self, sequence: u64) -> BoxFuture<'_, Result<(), BucketError>> {
        async move {
            let asked = async {
                let stream = self.context.get_stream_no_info(self.stream()).await;
                let stream = stream.map_err(|error| BucketError::Refused(error.to_string()))?;
                match stream.delete_message(sequence).await {
                    Ok(_) => Ok(()),
                    Err(error) => match error.kind() {
                        DeleteMessageErrorKind::JetStream(refused) => Err(objects::refusal(&refused)),
                        _ => Err(BucketError::NoAnswer(error.to_string())),
                    },
                }
            };
            timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(objects::unheard()))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::stream::PeerInfo;

    use super::*;

    fn cluster(leader: Option<&str>, current: &[bool]) -> ClusterInfo {
        let peer = |current: &bool| PeerInfo {
            name: "n".to_owned(),
            current: *current,
            active: Duration::ZERO,
            offline: false,
            lag: None,
        };
        ClusterInfo {
            leader: leader.map(str::to_owned),
            replicas: current.iter().map(peer).collect(),
            ..ClusterInfo::default()
        }
    }

    #[test]
    fn a_stream_that_most_servers_have_lost_is_not_used() {
        assert_eq!(has_majority(&cluster(Some("n1"), &[true, true])), Ok(()));
        assert_eq!(has_majority(&cluster(Some("n1"), &[true, false])), Ok(()));
        assert_eq!(has_majority(&cluster(Some("n1"), &[])), Ok(()), "one copy");
        let lost = has_majority(&cluster(Some("n1"), &[false, false])).unwrap_err();
        assert_eq!(lost, "1 of 3 servers have the latest state of the stream");
        assert!(has_majority(&cluster(Some(""), &[true, true])).is_err() && has_majority(&cluster(None, &[])).is_err());
    }
}
