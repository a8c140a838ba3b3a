//! Collects the log lines of the masters of all tests. Each test finds its lines by the names in them.

use std::sync::{Mutex, Once};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static LEAKS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static MORE: Notify = Notify::const_new();

/// A part of each password in these tests, which no line of any level may contain.
pub const SECRET: &str = "pw-never-told";

/// Returns the lines that contain a password.
pub fn leaks() -> Vec<String> {
    LEAKS.lock().unwrap().clone()
}

/// Starts to collect the lines of this process, but for those of the levels `debug` and `trace`.
pub fn keep() {
    static ONCE: Once = Once::new();
    let kept = tracing_subscriber::registry().with(Keep);
    ONCE.call_once(|| tracing::subscriber::set_global_default(kept).unwrap());
}

/// Waits until a line that contains these texts is logged, and returns it.
pub async fn line(texts: &[&str]) -> String {
    let wanted = async {
        loop {
            // Before the look, or a line between both would be missed.
            let more = MORE.notified();
            let found = |line: &&String| texts.iter().all(|text| line.contains(text));
            if let Some(line) = LINES.lock().unwrap().iter().find(found) {
                return line.clone();
            }
            more.await;
        }
    };
    let line = tokio::time::timeout(Duration::from_secs(20), wanted).await;
    line.unwrap_or_else(|_| panic!("no line with {texts:?} among {:#?}", LINES.lock().unwrap()))
}

/// Returns whether a line that contains this text was logged.
pub fn has(text: &str) -> bool {
    LINES.lock().unwrap().iter().any(|line| line.contains(text))
}

struct Keep;

impl<S: Subscriber> Layer<S> for Keep {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::WARN || metadata.target().starts_with("salt")
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Secrets);
        if *event.metadata().level() <= Level::INFO {
            event.record(&mut Message);
            MORE.notify_waiters();
        }
    }
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            LINES.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

struct Secrets;

impl Visit for Secrets {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}");
        if text.contains(SECRET) {
            LEAKS.lock().unwrap().push(text);
        }
    }
}
