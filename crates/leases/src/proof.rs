//! What proves that a process which may hold leases wrote an entry.

use crate::bucket::Stored;
use crate::token::Token;

/// Whether an entry counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A process wrote it that may hold leases.
    Counts,
    /// Its writer knows what such processes know, and is not known here as one. It may become known, so the entry counts for a while.
    Unknown,
    /// It counts for nobody.
    Nobodys,
    /// It should count for nobody, but this process cannot tell whether it is itself the one that does not belong here.
    Unsure,
}

/// Proves to others that this process wrote an entry, and checks what others wrote.
pub trait Proof: Send + Sync + 'static {
    /// Returns what stands behind the token in an entry of a lease: words without spaces at the ends.
    ///
    /// # Errors
    /// If nothing can be signed.
    fn prove(&self, lease: &str, token: &[u8]) -> Result<String, String>;

    /// Judges an entry of a lease. `node` is the member that it names, if it is a token at all.
    fn judge(&self, lease: &str, node: Option<[u8; 8]>, token: &[u8], proof: &[u8]) -> Verdict;
}

/// An entry as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// See [`Stored::sequence`].
    pub sequence: u64,
    /// Whose it is; `None` if it says nothing of that kind.
    pub token: Option<Token>,
    /// Whether it counts.
    pub verdict: Verdict,
}

impl Entry {
    /// Reads an entry of a lease.
    pub fn read(stored: &Stored, lease: &str, proof: &dyn Proof) -> Entry {
        let (text, proven) = Token::split(&stored.value);
        let token = Token::unpack(text);
        let verdict = proof.judge(lease, token.map(|token| token.who.node), text, proven);
        Entry { sequence: stored.sequence, token, verdict }
    }
}
