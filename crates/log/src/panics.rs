//! Panics in the log. Without this they go to standard error alone, which a daemon in the background does not have.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::Once;

use tracing::error;

/// Who logs panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panics {
    /// A daemon logs them.
    Log,
    /// A program shows them on its terminal, as any program does.
    Show,
}

/// Takes care of panics from now on, but not of [expected](rt::panics::expected) ones.
pub(crate) fn attend(panics: Panics) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match panics {
            _ if rt::panics::is_expected() => {}
            Panics::Log => log(panic),
            Panics::Show => usual(panic),
        }));
    });
}

fn log(panic: &PanicHookInfo<'_>) {
    let what = panic.payload_as_str().unwrap_or("of an unknown kind");
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    // Taken if `RUST_BACKTRACE` says so.
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => error!("bug: a panic at {place}: {what}\n{trace}"),
        _ => error!("bug: a panic at {place}: {what}"),
    }
}
