//! Writes lines to all outputs, as far as the peer that causes them may.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::caused::Limited;
use crate::format::{Format, Record, put_into};
use crate::level::Level;
use crate::limit::{Limiter, Suppressed, WINDOW};
use crate::sink::Sink;
use crate::{Facts, tame, time};

/// A place for lines, from a level on.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) level: Level,
    pub(crate) format: Format,
    pub(crate) sink: Sink,
}

impl Output {
    /// An output for debugging gets every line.
    fn is_limited(&self) -> bool {
        self.level > Level::DEBUG
    }
}

/// The origin of a line.
pub(crate) struct Line<'a> {
    pub(crate) logger: &'a str,
    pub(crate) level: Level,
    pub(crate) number: u32,
    pub(crate) path: &'a str,
}

/// All outputs.
#[derive(Debug)]
pub(crate) struct Writer {
    outputs: Vec<Output>,
    format_jid: Option<String>,
    format_minion_id: Option<String>,
    limiter: Mutex<Limiter>,
    /// True if a thread waits for the end of a window.
    reporting: AtomicBool,
}

impl Writer {
    pub(crate) fn new(outputs: Vec<Output>, log: &config::Log) -> Self {
        Writer {
            outputs,
            format_jid: log.log_fmt_jid.clone(),
            format_minion_id: log.log_fmt_minion_id.clone(),
            limiter: Mutex::default(),
            reporting: AtomicBool::new(false),
        }
    }

    /// Writes a line; one that a peer causes only while its share lasts.
    pub(crate) fn write(self: &Arc<Self>, line: &Line<'_>, facts: &Facts, peer: Option<&Limited>) {
        let admitted = match peer.zip(peer.and_then(|peer| self.longest(line, facts, peer))) {
            Some((peer, size)) => self.admit(peer, line.level, size),
            None => true,
        };
        let limit = |output: &Output| match peer.filter(|_| output.is_limited()) {
            Some(peer) => peer.group(line.level).longest(),
            None => tame::longest(line.level),
        };
        self.write_to(line, facts, limit, |output| admitted || !output.is_limited());
    }

    /// Returns the length of the longest message that is written to outputs where peers have a share; `None` if there is none.
    fn longest(&self, line: &Line<'_>, facts: &Facts, peer: &Limited) -> Option<usize> {
        let limited = self.outputs.iter().filter(|output| line.level >= output.level && output.is_limited());
        let ids = put_into(self.format_jid.as_deref(), "jid", facts.jid()).len()
            + put_into(self.format_minion_id.as_deref(), "minion_id", facts.minion_id()).len();
        let size = |output: &Output| {
            let (jid, minion_id) = (output.format.shows_jid(), output.format.shows_minion_id());
            let message = facts.message(jid, minion_id);
            let longest = peer.group(line.level).longest();
            // As it is written: escaped text has several times the length of the original.
            let message = tame::message(&message, longest, output.sink.takes_lines()).len();
            message + if jid || minion_id { ids } else { 0 }
        };
        limited.map(size).max()
    }

    fn admit(self: &Arc<Self>, peer: &Limited, level: Level, size: usize) -> bool {
        let now = Instant::now();
        let (ended, admitted, next) = {
            let mut limiter = self.limiter();
            let ended = limiter.end_windows(now);
            let admitted = limiter.admit(peer.group(level), &peer.name(), (level, size), now);
            (ended, admitted, limiter.next_report())
        };
        self.report(ended);
        if next.is_some() && !self.reporting.swap(true, Ordering::AcqRel) {
            self.report_later();
        }
        admitted
    }

    fn write_to(
        &self,
        line: &Line<'_>,
        facts: &Facts,
        limit: impl Fn(&Output) -> usize,
        wanted: impl Fn(&Output) -> bool,
    ) {
        let (seconds, nanos) = time::now();
        let jid = put_into(self.format_jid.as_deref(), "jid", facts.jid());
        let minion_id = put_into(self.format_minion_id.as_deref(), "minion_id", facts.minion_id());
        let mut text = String::with_capacity(160);
        for output in self.outputs.iter().filter(|output| line.level >= output.level && wanted(output)) {
            let message = facts.message(output.format.shows_jid(), output.format.shows_minion_id());
            let message = tame::message(&message, limit(output), output.sink.takes_lines());
            let record = Record {
                name: line.logger,
                level: line.level,
                message: &message,
                line: line.number,
                path: line.path,
                seconds,
                nanos,
                jid: &jid,
                minion_id: &minion_id,
            };
            text.clear();
            output.format.write(&mut text, &record, output.sink.colours());
            output.sink.write(line.level, &text);
        }
    }

    /// Writes what was suppressed in windows that have ended. Outputs for debugging had it all.
    fn report(&self, ended: Vec<Suppressed>) {
        for Suppressed { peer, count, level } in ended {
            let peer = peer.map_or_else(|| "other peers".to_owned(), |peer| tame::field(&peer));
            let seconds = WINDOW.as_secs();
            let text = format!("{count} more messages caused by {peer} were suppressed within {seconds} seconds");
            let line = Line { logger: "salt.log", level, number: line!(), path: file!() };
            self.write_to(&line, &Facts::of_text(text), |_| tame::longest(level), Output::is_limited);
        }
    }

    /// Starts a thread that reports when the window ends, in case no line is logged then.
    fn report_later(self: &Arc<Self>) {
        let writer = Arc::downgrade(self);
        let waiting = std::thread::Builder::new().name("log".into()).spawn(move || {
            // The wait holds no log open.
            while let Some(writer) = writer.upgrade() {
                let now = Instant::now();
                let ended = writer.limiter().end_windows(now);
                writer.report(ended);
                let Some(next) = writer.next_or_done() else { return };
                drop(writer);
                std::thread::sleep(next.saturating_duration_since(now));
            }
        });
        if waiting.is_err() {
            // The next line after the window reports it.
            self.reporting.store(false, Ordering::Release);
        }
    }

    /// Returns when the next window ends, or records that no thread waits for one.
    fn next_or_done(&self) -> Option<Instant> {
        let limiter = self.limiter();
        let next = limiter.next_report();
        if next.is_none() {
            // While the limiter is locked, so that nothing is suppressed between the look and the note.
            self.reporting.store(false, Ordering::Release);
        }
        next
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        // A decision changes counters only, so they are whole after any panic.
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
