//! A machine in the middle between a minion and its master: it forwards connections, reads them, and injects messages.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::stranger::{Wire, head};

/// A proxy for both ports of a master at another address.
pub struct Between {
    subscribers: Arc<Mutex<Vec<TcpStream>>>,
    requests: Arc<Mutex<Vec<TcpStream>>>,
    swallowing: Arc<AtomicBool>,
    published: Arc<Mutex<Vec<u8>>>,
}

impl Between {
    /// Forwards connections to `address` to the master.
    pub fn open(address: Ipv4Addr, master: Ipv4Addr) -> Result<Self> {
        let between = Between {
            subscribers: Arc::default(),
            requests: Arc::default(),
            swallowing: Arc::default(),
            published: Arc::default(),
        };
        for port in [4505, 4506] {
            let listener = TcpListener::bind((address, port)).context("failed to listen")?;
            let kept = if port == 4505 { between.subscribers.clone() } else { between.requests.clone() };
            let swallowing = between.swallowing.clone();
            let recorder = (port == 4505).then(|| between.published.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if port == 4506 && swallowing.load(Ordering::Relaxed) {
                        keep(&kept, &stream);
                        std::thread::spawn(move || answer_nothing(stream, master));
                    } else if let Ok(other) = TcpStream::connect((master, port)) {
                        pass_on(stream, other, &kept, recorder.clone());
                    }
                }
            });
        }
        Ok(between)
    }

    /// From now on requests get an unencrypted empty answer, and do not reach the master.
    pub fn swallow(&self, swallowing: bool) {
        self.swallowing.store(swallowing, Ordering::Relaxed);
    }

    /// Returns what the master has sent to its subscribers since the last call, and forgets it.
    pub fn take_published(&self) -> Vec<u8> {
        std::mem::take(&mut *self.published.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends recorded bytes to all subscribers.
    pub fn repeat(&self, recorded: &[u8]) {
        for stream in self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            let _ = stream.write_all(recorded);
        }
    }

    /// Sends a message to all subscribers as if it came from the master.
    pub fn inject(&self, message: &[u8]) {
        for stream in self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            let _ = stream.write_all(&head(message.len())).and_then(|()| stream.write_all(message));
        }
    }

    /// Closes all request connections, so that the minion opens new ones.
    pub fn cut_requests(&self) {
        for stream in self.requests.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn keep(all: &Mutex<Vec<TcpStream>>, stream: &TcpStream) {
    if let Ok(copy) = stream.try_clone() {
        all.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
    }
}

/// What a recorder keeps of one direction.
type Recorder = Option<Arc<Mutex<Vec<u8>>>>;

fn pass_on(near: TcpStream, far: TcpStream, kept: &Mutex<Vec<TcpStream>>, recorder: Recorder) {
    keep(kept, &near);
    let clone = |stream: &TcpStream| stream.try_clone().ok();
    let (Some(near_out), Some(far_out)) = (clone(&near), clone(&far)) else { return };
    for (from, to, recorder) in [(near, far_out, None), (far, near_out, recorder)] {
        std::thread::spawn(move || copy(from, to, recorder));
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, recorder: Recorder) {
    let mut buffer = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if let Some(recorder) = &recorder {
            recorder.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}

/// Forwards sign-ins, whose answers are signed, and answers all encrypted requests itself.
fn answer_nothing(stream: TcpStream, master: Ipv4Addr) {
    let (Ok(mut minion), Ok(mut master)) = (Wire::greet(stream, b"REP"), Wire::connect(master, 4506)) else { return };
    let _ = minion.0.set_read_timeout(Some(Duration::from_secs(60)));
    // Values that look like a receipt: an empty map, nothing, no, no bytes.
    let mut receipts = [&b"\x80"[..], b"\xc0", b"\xc2", b"\xc4\x00"].into_iter().cycle();
    while let Ok(request) = minion.receive() {
        let sealed = request.windows(4).take(200).any(|bytes| bytes == b"\xa3aes");
        let answered = if sealed {
            minion.send(receipts.next().unwrap_or_default())
        } else {
            let answer = master.send(&request).ok().and_then(|()| master.receive().ok());
            minion.send(&answer.unwrap_or_default())
        };
        if answered.is_err() {
            return;
        }
    }
}
