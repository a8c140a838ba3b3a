//! Metrics of a set of masters, which are read on request.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use super::text::{Kind, Page};

/// What a set of masters says of itself.
pub trait SetFigures: Send + Sync {
    /// Reads all figures.
    fn read(&self) -> SetNumbers;
}

/// The figures of a set at one moment.
#[derive(Debug, Default, PartialEq)]
pub struct SetNumbers {
    /// The other members.
    pub peers: Vec<PeerNumbers>,
    /// Records since the start: class, way and number.
    pub records: Vec<(&'static str, &'static str, u64)>,
    /// Minion keys about which members decided differently at the same time.
    pub conflicts: usize,
}

/// The figures of another member.
#[derive(Debug, Default, PartialEq)]
pub struct PeerNumbers {
    /// Its short name.
    pub name: String,
    /// Whether it is linked.
    pub is_up: bool,
    /// How long an answer takes.
    pub rtt: Option<Duration>,
    /// By how many milliseconds its clock is ahead.
    pub clock: Option<i64>,
    /// Bytes that wait to be sent to it.
    pub queue_bytes: usize,
    /// Messages that a full queue has lost.
    pub dropped: u64,
    /// How long ago the copies of both were found equal.
    pub compared: Option<Duration>,
}

/// Where the figures come from; nowhere without a set.
#[derive(Default)]
pub struct SetSource(OnceLock<Box<dyn SetFigures>>);

impl SetSource {
    /// Sets the source, once.
    pub fn set(&self, figures: Box<dyn SetFigures>) {
        // A master starts to share once.
        let _ = self.0.set(figures);
    }

    /// Writes the figures, if there is a set.
    pub fn write(&self, page: &mut Page) {
        if let Some(source) = self.0.get() {
            source.read().write(page);
        }
    }
}

impl fmt::Debug for SetSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetSource").field(&self.0.get().is_some()).finish()
    }
}

impl SetNumbers {
    fn write(&self, page: &mut Page) {
        let gauge = |page: &mut Page, name: &str, help: &str, value: &dyn Fn(&PeerNumbers) -> Option<String>| {
            page.metric(name, Kind::Gauge, help);
            for peer in &self.peers {
                if let Some(value) = value(peer) {
                    page.sample(name, &[("master", &peer.name)], value);
                }
            }
        };
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        gauge(page, "saltern_peer_up", "Whether another master of the set is linked.", &|peer| {
            Some(u8::from(peer.is_up).to_string())
        });
        gauge(page, "saltern_peer_rtt_seconds", "How long another master takes to answer.", &|peer| {
            peer.rtt.map(seconds)
        });
        gauge(page, "saltern_peer_clock_seconds", "By how much the clock of another master is ahead.", &|peer| {
            peer.clock.map(|clock| (clock as f64 / 1_000.0).to_string())
        });
        gauge(page, "saltern_peer_queue_bytes", "Bytes that wait to be sent to another master.", &|peer| {
            Some(peer.queue_bytes.to_string())
        });
        let help = "How long ago another master was found to have an equal copy.";
        gauge(page, "saltern_peer_compared_seconds", help, &|peer| peer.compared.map(seconds));
        let name = "saltern_peer_dropped_total";
        page.metric(name, Kind::Counter, "Messages to another master that a full queue has lost.");
        self.peers.iter().for_each(|peer| page.sample(name, &[("master", &peer.name)], peer.dropped));
        let name = "saltern_records_total";
        page.metric(name, Kind::Counter, "Records that masters of the set sent each other.");
        for (class, way, number) in &self.records {
            page.sample(name, &[("class", class), ("way", way)], number);
        }
        let help = "Minion keys about which masters decided differently at the same time.";
        page.single("saltern_conflicts", Kind::Gauge, help, self.conflicts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl SetFigures for Fixed {
        fn read(&self) -> SetNumbers {
            let away = PeerNumbers { name: "m3".into(), dropped: 7, ..PeerNumbers::default() };
            let linked = PeerNumbers {
                name: "m2".into(),
                is_up: true,
                rtt: Some(Duration::from_micros(250)),
                clock: Some(-1_500),
                queue_bytes: 64,
                dropped: 0,
                compared: Some(Duration::from_secs(3)),
            };
            SetNumbers { peers: vec![linked, away], records: vec![("keys", "sent", 5)], conflicts: 2 }
        }
    }

    #[test]
    fn figures_of_a_set_are_samples_with_the_name_of_the_master() {
        let (source, mut page) = (SetSource::default(), Page::default());
        source.write(&mut page);
        source.set(Box::new(Fixed));
        source.write(&mut page);
        let page = page.finish();
        let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            r#"saltern_peer_up{master="m2"} 1"#,
            r#"saltern_peer_up{master="m3"} 0"#,
            r#"saltern_peer_rtt_seconds{master="m2"} 0.00025"#,
            r#"saltern_peer_clock_seconds{master="m2"} -1.5"#,
            r#"saltern_peer_queue_bytes{master="m2"} 64"#,
            r#"saltern_peer_queue_bytes{master="m3"} 0"#,
            r#"saltern_peer_compared_seconds{master="m2"} 3"#,
            r#"saltern_peer_dropped_total{master="m2"} 0"#,
            r#"saltern_peer_dropped_total{master="m3"} 7"#,
            r#"saltern_records_total{class="keys",way="sent"} 5"#,
            "saltern_conflicts 2",
        ];
        assert_eq!(samples, expected);
    }
}
