//! The real Salt and Saltern, side by side.
//!
//! A test names installations ([`Salt`]), builds masters and minions from them in a [`Sandbox`], and drives them with
//! the programs that a user would run. "Ours" and "theirs" differ only in the folder of the programs, so every scenario
//! runs on any mix of the two; with `SALTERN_INTEROP_OURS=3008.5` even the real Salt against itself, which is how the
//! scenarios themselves were checked.
//!
//! | variable | meaning |
//! |---|---|
//! | `SALTERN_SALT_DIR` | where the virtual environments of the real Salt are (default `~/.cache/saltern/salt`) |
//! | `SALTERN_SALTGUI_DIR` | the directory `saltgui` of a checkout of SaltGUI, for the subject `saltgui` |
//! | `SALTERN_BIN` | the program under test (default: `saltern` of the newest build beside the test) |
//! | `SALTERN_INTEROP_OURS` | a line (`3008.5`) or a folder whose programs replace Saltern's |
//! | `SALTERN_NATS_SERVER` | the program `nats-server` (default: the one in `PATH`) |
//! | `SALTERN_INTEROP_KEEP` | keep the scratch directories |
//! | `CI` | `true` makes a missing real Salt a failure instead of a skip |

mod api;
mod checks;
mod compare;
mod master;
pub mod measure;
mod minion;
mod nats;
mod process;
mod salt;
mod sandbox;
mod settings;
mod slots;
mod wait;

pub use api::password_file;
pub use checks::Checks;
pub use compare::{differences, stable};
pub use master::{Master, MasterBuilder, Transport};
pub use minion::{Minion, MinionBuilder};
pub use nats::{nats_server, nats_server_or_skip};
pub use process::{Daemon, Output, Program};
pub use salt::{LINES, Salt, clients, missing};
pub use sandbox::{Sandbox, scenario};
pub use settings::Settings;
pub use slots::Slot;
pub use wait::{until, until_some};
