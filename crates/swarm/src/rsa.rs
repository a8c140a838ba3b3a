//! The cost of RSA in a sign-in on this machine: no master can be faster.

use std::time::{Duration, Instant};

use crypto::{Encryption, PrivateKey, RsaError, Signature};
use serde::Serialize;

/// How long each kind of operation is repeated.
const LONG_ENOUGH: Duration = Duration::from_millis(100);

/// The approximate size of an answer to a sign-in in bytes.
const ANSWER: usize = 1800;

/// The approximate size of a sealed `state.apply` publication in bytes.
const PUBLICATION: usize = 320;

/// The size of an AES key's text in bytes.
const KEY: usize = 76;

/// The processor time of one RSA operation while all processors are busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RsaSpeed {
    /// The number of busy processors.
    pub processors: usize,
    /// The time to sign or decrypt, in milliseconds.
    pub private_ms: f64,
    /// The time to verify or encrypt, in milliseconds.
    pub public_ms: f64,
}

/// The number of RSA operations of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations {
    /// With a private key, at both ends.
    pub private: u32,
    /// With a public key, at both ends.
    pub public: u32,
}

impl Operations {
    /// For a minion that does not know the master's key yet. The master signs its answer, and encrypts its AES key and
    /// a session key; it signs the AES key only once for all minions. The minion verifies both signatures and decrypts
    /// both keys.
    pub const FIRST: Self = Operations { private: 3, public: 4 };

    /// For a minion that knows the master's key. It also sends a token that only the master can decrypt, and expects it
    /// back.
    pub const AGAIN: Self = Operations { private: 5, public: 6 };
}

impl RsaSpeed {
    /// Measures with this key. Takes half a second in which all processors are busy.
    ///
    /// # Errors
    /// If the key cannot sign or decrypt.
    pub fn measure(key: &PrivateKey) -> Result<Self, RsaError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let public = key.public();
        let (answer, text) = (vec![1; ANSWER], [1; KEY]);
        let signature = key.sign(Signature::default(), &answer)?;
        let sealed = public.encrypt(Encryption::default(), &text)?;
        let sign = || key.sign(Signature::default(), &answer).map(drop);
        let decrypt = || key.decrypt(Encryption::default(), &sealed).map(drop);
        let encrypt = || public.encrypt(Encryption::default(), &text).map(drop);
        let verify = || {
            // Otherwise the compiler may drop a verification whose result nobody uses.
            std::hint::black_box(public.verify(Signature::default(), &answer, &signature));
            Ok(())
        };
        // Half the sum in milliseconds: ×1000 ÷ 2.
        let mean = |one: Duration, other: Duration| (one + other).as_secs_f64() * 500.0;
        Ok(RsaSpeed {
            processors,
            private_ms: mean(repeat(processors, sign)?, repeat(processors, decrypt)?),
            public_ms: mean(repeat(processors, encrypt)?, repeat(processors, verify)?),
        })
    }

    /// Returns the number of sign-ins per second if these processors did nothing but RSA for master and minions.
    pub fn sign_ins_per_second(&self, operations: Operations) -> f64 {
        let each = f64::from(operations.private) * self.private_ms + f64::from(operations.public) * self.public_ms;
        self.processors as f64 * 1000.0 / each
    }
}

/// What the signature of a publication costs each side, in microseconds of processor time.
#[derive(Clone, Copy, Debug)]
pub struct SigningCost {
    /// The master signs each publication once, however many minions receive it.
    pub sign_us: f64,
    /// Each minion verifies each publication.
    pub verify_us: f64,
}

impl SigningCost {
    /// Measures with this key, on one processor, with a sealed publication of the usual size. Takes a quarter of a second.
    ///
    /// # Errors
    /// When the key cannot sign.
    pub fn measure(key: &PrivateKey) -> Result<Self, RsaError> {
        let (public, publication) = (key.public(), vec![1; PUBLICATION]);
        let signature = key.sign(Signature::default(), &publication)?;
        let sign = repeat(1, || key.sign(Signature::default(), &publication).map(drop))?;
        let verify = repeat(1, || {
            std::hint::black_box(public.verify(Signature::default(), &publication, &signature));
            Ok(())
        })?;
        Ok(SigningCost { sign_us: sign.as_secs_f64() * 1e6, verify_us: verify.as_secs_f64() * 1e6 })
    }
}

/// Repeats some work on all processors, and returns its mean time on one of them.
fn repeat(processors: usize, work: impl Fn() -> Result<(), RsaError> + Sync) -> Result<Duration, RsaError> {
    let one = || {
        let (began, mut times) = (Instant::now(), 0);
        while began.elapsed() < LONG_ENOUGH {
            work()?;
            times += 1;
        }
        Ok(began.elapsed() / times)
    };
    // On all processors at once: with busy neighbours a core clocks lower and shares its caches, as it does under a
    // real load.
    let all: Vec<Result<Duration, RsaError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("measuring does not panic")).collect()
    });
    let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(all.iter().sum::<Duration>() / all.len().max(1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_operations_take_longer() {
        let speed = RsaSpeed::measure(&PrivateKey::generate(2048).unwrap()).unwrap();
        assert!(speed.private_ms > 2.0 * speed.public_ms && speed.public_ms > 0.0, "{speed:?}");
    }

    #[test]
    fn signing_costs_more_than_verifying() {
        let cost = SigningCost::measure(&PrivateKey::generate(2048).unwrap()).unwrap();
        assert!(cost.sign_us > 2.0 * cost.verify_us && cost.verify_us > 0.0, "{cost:?}");
    }

    #[test]
    fn the_processors_share_what_is_to_be_done() {
        let speed = RsaSpeed { processors: 2, private_ms: 0.3, public_ms: 0.025 };
        assert!((speed.sign_ins_per_second(Operations::FIRST) - 2000.0).abs() < 0.01);
        assert!(speed.sign_ins_per_second(Operations::AGAIN) < 1300.0);
    }
}
