//! A peer that speaks the wire and follows no rule: raw ZMTP, sign-ins and requests of any shape.
//!
//! The library of the real minion would refuse to send most of this, so requests are put together here.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use crypto::{Crypticle, Encryption, KeyString, PrivateKey};
use value::{Bytes, Map, Value, map};
use wire::envelope::{Envelope, Sealed};
use wire::loads::{AuthAnswer, AuthReply, PillarContent, PillarReply, SignedPillar};
use wire::msgpack::{self, Decode};

/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A ZMTP frame with more frames after it, and one with an eight-byte length.
const MORE: u8 = 0x01;
const LONG: u8 = 0x02;
const COMMAND: u8 = 0x04;

/// A connection to the request port of a master that has exchanged greetings.
pub struct Wire(pub TcpStream);

impl Wire {
    /// Connects and shakes hands as a REQ socket.
    pub fn connect(address: Ipv4Addr, port: u16) -> Result<Self> {
        Self::connect_as(address, port, b"REQ")
    }

    /// Connects and shakes hands as a socket of the given type.
    pub fn connect_as(address: Ipv4Addr, port: u16, socket: &[u8]) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((address, port)), Duration::from_secs(5));
        let stream = stream.with_context(|| format!("failed to connect to {address}:{port}"))?;
        Self::greet(stream, socket)
    }

    /// Shakes hands on an open connection.
    pub fn greet(stream: TcpStream, socket: &[u8]) -> Result<Self> {
        Self::greet_as(stream, socket, b"")
    }

    /// Shakes hands on an open connection and claims a name; nothing for an empty one.
    pub fn greet_as(stream: TcpStream, socket: &[u8], name: &[u8]) -> Result<Self> {
        stream.set_read_timeout(Some(PATIENCE)).context("failed to set a timeout")?;
        // A message is several writes: otherwise the kernel holds each back until the one before is acknowledged, 40 ms later.
        stream.set_nodelay(true).context("failed to set an option")?;
        let mut wire = Wire(stream);
        wire.0.write_all(&greeting()).context("failed to greet")?;
        wire.0.read_exact(&mut [0; 64]).context("no greeting came")?;
        wire.0.write_all(&ready_as(socket, name)).context("failed to say READY")?;
        wire.frame().context("no READY came")?;
        Ok(wire)
    }

    /// Subscribes to everything, as a message of old releases.
    pub fn subscribe(&mut self) -> std::io::Result<()> {
        self.0.write_all(&[0, 1, 1])
    }

    /// Sends a message after the empty frame that REQ sockets put before it.
    pub fn send(&mut self, body: &[u8]) -> std::io::Result<()> {
        self.0.write_all(&[MORE, 0])?;
        self.0.write_all(&head(body.len()))?;
        self.0.write_all(body)
    }

    /// Reads a message, past commands and the empty frame.
    pub fn receive(&mut self) -> Result<Bytes> {
        loop {
            let (flags, body) = self.frame()?;
            if flags & COMMAND == 0 && !(body.is_empty() && flags & MORE != 0) {
                return Ok(body.into());
            }
        }
    }

    fn frame(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut flags = [0];
        self.0.read_exact(&mut flags).context("the master closed the connection")?;
        let length = if flags[0] & LONG == 0 {
            let mut short = [0];
            self.0.read_exact(&mut short)?;
            u64::from(short[0])
        } else {
            let mut long = [0; 8];
            self.0.read_exact(&mut long)?;
            u64::from_be_bytes(long)
        };
        ensure!(length < 1 << 26, "a frame of {length} bytes");
        let mut body = vec![0; usize::try_from(length)?];
        self.0.read_exact(&mut body)?;
        Ok((flags[0], body))
    }
}

/// Connects from an address of this host other than the usual one.
pub fn connect_from(from: Ipv4Addr, master: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        socket.connect(SocketAddr::from((master, port))).await?.into_std()
    });
    let stream = stream.with_context(|| format!("failed to connect from {from} to {master}:{port}"))?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The greeting of ZMTP 3.0 with the NULL mechanism.
pub fn greeting() -> Vec<u8> {
    let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
    greeting.extend(b"NULL");
    greeting.resize(64, 0);
    greeting
}

/// The command READY of a socket type.
pub fn ready(socket: &[u8]) -> Vec<u8> {
    ready_as(socket, b"")
}

/// The command READY of a socket type that claims a name; nothing for an empty one.
fn ready_as(socket: &[u8], name: &[u8]) -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    let identity = (b"Identity".as_slice(), name);
    for (property, value) in [(b"Socket-Type".as_slice(), socket), identity] {
        if !value.is_empty() {
            body.push(u8::try_from(property.len()).unwrap_or_default());
            body.extend(property);
            body.extend(u32::try_from(value.len()).unwrap_or_default().to_be_bytes());
            body.extend(value);
        }
    }
    [&[COMMAND, u8::try_from(body.len()).unwrap_or_default()], body.as_slice()].concat()
}

/// The head of a last frame.
pub fn head(length: usize) -> Vec<u8> {
    [&[LONG], (length as u64).to_be_bytes().as_slice()].concat()
}

/// Sends packed bytes on a new connection and gives the answer's bytes.
pub fn ask_raw(master: Ipv4Addr, body: &[u8]) -> Result<Bytes> {
    let mut wire = Wire::connect(master, 4506)?;
    wire.send(body).context("failed to send")?;
    wire.receive()
}

/// Sends an envelope on a new connection and gives the answer.
pub fn ask(master: Ipv4Addr, envelope: &Envelope) -> Result<Value> {
    let answer = ask_raw(master, &envelope.encode())?;
    msgpack::unpack_bytes(&answer, Decode::Default).context("the answer is no MessagePack")
}

/// Sends a readable request.
pub fn ask_clear(master: Ipv4Addr, load: Map) -> Result<Value> {
    ask(master, &Envelope::clear(load))
}

/// The result of a sign-in.
pub enum SignIn {
    /// The session key, and the key of publications.
    Accepted { session: Crypticle, aes: Crypticle },
    /// The signed answer of a master that did not let it in.
    Refused(Value),
    /// An answer without a signature.
    Unsigned(Value),
}

/// A stranger with a key pair.
pub struct Stranger {
    pub master: Ipv4Addr,
    pub id: String,
    pub key: PrivateKey,
}

impl Stranger {
    /// A stranger with a new key.
    pub fn new(master: Ipv4Addr, id: &str) -> Result<Self> {
        Ok(Self { master, id: id.to_owned(), key: PrivateKey::generate(2048)? })
    }

    /// One that has the key of a minion.
    pub fn with_key_of(master: Ipv4Addr, minion: &interop::Minion) -> Result<Self> {
        let path = minion.root().join("pki/minion.pem");
        let pem = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self { master, id: minion.id().to_owned(), key: PrivateKey::from_pem(&pem, None)? })
    }

    /// The load of an ordinary sign-in.
    pub fn sign_in_load(&self) -> Map {
        map! {
            "cmd" => "_auth",
            "id" => self.id.as_str(),
            "nonce" => nonce(),
            "enc_algo" => "OAEP-SHA1",
            "sig_algo" => "PKCS1v15-SHA1",
            "pub" => crypto::clean_key(&self.key.public().to_pem()),
        }
    }

    /// Signs in with a load.
    pub fn sign_in_with(&self, load: Map) -> Result<SignIn> {
        let answer = ask_clear(self.master, load)?;
        let AuthReply::Signed { load, .. } = AuthReply::from_value(answer.clone()) else {
            return Ok(SignIn::Unsigned(answer));
        };
        match AuthAnswer::decode(&load)? {
            AuthAnswer::Refused(_) => Ok(SignIn::Refused(msgpack::unpack_bytes(&load, Decode::Default)?)),
            AuthAnswer::Accepted(accepted) => {
                let session = accepted.session.context("no session key came")?;
                Ok(SignIn::Accepted { session: self.crypticle(&session)?, aes: self.crypticle(&accepted.aes)? })
            }
        }
    }

    /// Signs in as it should be done, and gives the session key and the key of publications.
    pub fn sign_in(&self) -> Result<(Crypticle, Crypticle)> {
        match self.sign_in_with(self.sign_in_load())? {
            SignIn::Accepted { session, aes } => Ok((session, aes)),
            SignIn::Refused(answer) | SignIn::Unsigned(answer) => bail!("{} was not let in: {answer}", self.id),
        }
    }

    fn crypticle(&self, sealed: &[u8]) -> Result<Crypticle> {
        let text = self.key.decrypt(Encryption::OaepSha1, sealed).context("the key is not for us")?;
        Crypticle::new(&KeyString::parse(&text)?).context("no key string")
    }

    /// Puts nonce, time, token and id into a load, as minions do.
    pub fn filled(&self, load: Map) -> Result<Map> {
        let mut load = load;
        if !load.contains_key("id") {
            load.insert("id", self.id.as_str());
        }
        load.insert("nonce", nonce());
        load.insert("ts", seconds());
        load.insert("tok", Bytes::from(self.key.tok()?));
        Ok(load)
    }

    /// A sealed request of envelope version 3.
    pub fn sealed(&self, session: &Crypticle, load: Map) -> Result<Envelope> {
        let load = self.filled(load)?;
        Ok(self.envelope(session, load, 3))
    }

    /// A sealed request of any version, with the load as it is.
    pub fn envelope(&self, crypticle: &Crypticle, load: Map, version: i64) -> Envelope {
        Envelope::Sealed(Sealed {
            load: crypticle.seal(&load.into(), None),
            version,
            id: Some(self.id.as_str().into()),
            enc_algo: Some("OAEP-SHA1".to_owned()),
            sig_algo: Some("PKCS1v15-SHA1".to_owned()),
        })
    }

    /// Asks for the pillar of an environment and reads it.
    pub fn pillar(&self, session: &Crypticle, pillarenv: Value) -> Result<Value> {
        let load = map! {
            "cmd" => "_pillar", "saltenv" => "base", "pillarenv" => pillarenv, "ver" => "2",
            "grains" => map! { "id" => self.id.as_str() }, "pillar_override" => map! {}, "extra_minion_data" => map! {},
        };
        self.read_pillar(self.ask(session, load)?)
    }

    /// Reads the answer with a pillar, which is encrypted for one key. Its signature is not checked.
    pub fn read_pillar(&self, answer: Value) -> Result<Value> {
        let PillarReply { key, pillar, .. } = PillarReply::from_value(answer)?;
        let signed = SignedPillar::from_value(self.crypticle(&key)?.open(&pillar, None, Decode::Default)?)?;
        let content = msgpack::unpack_bytes(&signed.data, Decode::Default).context("the pillar is no MessagePack")?;
        Ok(PillarContent::from_value(content)?.pillar)
    }

    /// Sends a sealed request; gives what was in the sealed answer, or the readable one.
    pub fn ask(&self, session: &Crypticle, load: Map) -> Result<Value> {
        let load = self.filled(load)?;
        let nonce = load.get_str("nonce").unwrap_or_default().to_owned();
        let answer = ask(self.master, &self.envelope(session, load, 3))?;
        match answer.as_bytes().filter(|bytes| bytes.len() > 64) {
            Some(sealed) => Ok(session.open(sealed, Some(&nonce), Decode::Default)?),
            None => Ok(answer),
        }
    }
}

/// 32 hexadecimal digits, as all releases send.
pub fn nonce() -> String {
    format!("{:032x}", rand::random::<u128>())
}

fn seconds() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or_default()
}
