"""Talks to a master as nobody should, and prints the answers as one JSON map.

Arguments: the master's configuration file, an attack, and the attack's own arguments. Only the packing and the cipher of
the real Salt are used; requests are built here, byte by byte, since no client would build them.
"""

import json
import os
import socket
import sys
import time
import uuid

import msgpack
import salt.config
import salt.crypt
import zmq
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

ALGORITHMS = {"enc_algo": "OAEP-SHA1", "sig_algo": "PKCS1v15-SHA1"}


def unpack(packed):
    """Unpacks what may hold bytes packed as text; what is text becomes text."""

    def text(value):
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value
        if isinstance(value, list):
            return [text(item) for item in value]
        if isinstance(value, dict):
            return {text(key): text(item) for key, item in value.items()}
        return value

    return text(msgpack.unpackb(packed, raw=True, strict_map_key=False))


class Master:
    """The request port of a master."""

    def __init__(self, opts):
        self.opts = opts

    def ask(self, payload, timeout=10):
        """Sends a payload on a new connection and gives the answer, or "no answer"."""
        packed = msgpack.packb(payload)
        return self.ask_raw(packed, payload, timeout)

    def ask_raw(self, packed, payload=None, timeout=10):
        address = (self.opts["interface"], self.opts["ret_port"])
        if self.opts["transport"] == "tcp":
            return self._tcp(address, payload if payload is not None else msgpack.unpackb(packed), timeout)
        return self._zeromq(address, packed, timeout)

    def _zeromq(self, address, packed, timeout):
        with zmq.Context.instance().socket(zmq.REQ) as request:
            request.setsockopt(zmq.LINGER, 0)
            request.setsockopt(zmq.RCVTIMEO, timeout * 1000)
            request.connect("tcp://{}:{}".format(*address))
            request.send(packed)
            try:
                return unpack(request.recv())
            except zmq.Again:
                return "no answer"

    def _tcp(self, address, payload, timeout):
        unpacker = msgpack.Unpacker(raw=True, strict_map_key=False)
        with socket.create_connection(address, timeout=timeout) as connection:
            connection.sendall(msgpack.packb({"head": {"mid": 1}, "body": payload}))
            while True:
                try:
                    data = connection.recv(65536)
                except (TimeoutError, ConnectionResetError):
                    return "no answer"
                if not data:
                    return "no answer"
                unpacker.feed(data)
                for message in unpacker:
                    return unpack(msgpack.packb(message[b"body"]))


class Stranger:
    """Somebody with a key pair, signed in or not."""

    def __init__(self, master, minion_id, pem=None):
        self.master, self.id = master, minion_id
        if pem is None:
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            pem = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            )
        self.key = salt.crypt.PrivateKey.from_bytes(pem)
        public = serialization.load_pem_private_key(pem, None).public_key()
        encoded = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.pub = encoded.decode().strip()

    def sign_in(self, **changes):
        """Asks to be let in; returns the inner answer, and keeps the session key when there is one."""
        load = {"cmd": "_auth", "id": self.id, "nonce": uuid.uuid4().hex, **ALGORITHMS, "pub": self.pub, **changes}
        answer = self.master.ask({"enc": "clear", "load": load, "version": 3})
        if not isinstance(answer, dict) or "load" not in answer:
            return answer
        inner = answer["load"]
        inner = unpack(inner) if isinstance(inner, bytes) else inner
        if "session" in inner:
            session = self.key.decrypt(inner["session"], algorithm="OAEP-SHA1").decode()
            self.session = salt.crypt.Crypticle(self.master.opts, session)
        return {name: value for name, value in inner.items() if name in ("ret", "enc", "publish_port")}

    def sealed(self, load, envelope_id=None, token=None, version=3):
        """An encrypted request; ids and token may be somebody else's."""
        load = {
            **load, "nonce": uuid.uuid4().hex, "ts": int(time.time()), "tok": token or self.key.encrypt(b"salt"),
            "id": load.get("id", self.id),
        }
        envelope = {"enc": "aes", "load": self.session.dumps(load), "version": version, "id": envelope_id or self.id}
        return {**envelope, **ALGORITHMS}


def hostile_ids(opts, ids):
    master = Master(opts)
    return {repr(name)[:60]: Stranger.sign_in(Stranger(master, name, KEY)) for name in ids}


def ids(opts):
    """Signs in under names that are paths, too long, or not even text."""
    names = ["../x", "../../etc/x", "/abs", "a/b", "..", ".", "", "nul\0byte", "\0", "x" * 10_000, "a\\b", "minions/../../y",
             "line\nbreak", "esc\x1b[31mred", "right\u202eleft", "zero\u200bwidth", "\ufeffbom", "half\ud800"[:4], "é" * 300]
    answers = hostile_ids(opts, names)
    raw = {"bytes": b"\xff\xfe", "number": 7, "list": ["a"], "map": {"a": 1}, "none": None}
    master = Master(opts)
    for what, value in raw.items():
        answers[what] = Stranger(master, value, KEY).sign_in()
    return answers


def wrong_key(opts, victim):
    """Signs in as somebody else, with a new key and with no key at all."""
    stranger = Stranger(Master(opts), victim)
    return {
        "new key": stranger.sign_in(),
        "no key": stranger.sign_in(pub=""),
        "garbage": stranger.sign_in(pub="-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"),
        "huge": stranger.sign_in(pub="A" * 1_000_000),
        "number": stranger.sign_in(pub=7),
    }


def garbage(opts):
    """Sends what is no request at all."""
    master = Master(opts)
    payloads = {
        "text": "hello", "number": 1, "list": [1, 2], "nothing": None, "empty map": {}, "no load": {"enc": "aes"},
        "no enc": {"load": {}}, "aes without id": {"enc": "aes", "load": b"x" * 64, "version": 3},
        "aes of nobody": {"enc": "aes", "load": b"x" * 64, "version": 3, "id": "nobody"},
        "aes with text": {"enc": "aes", "load": "x", "version": 3, "id": "nobody"},
        "version text": {"enc": "aes", "load": b"x" * 64, "version": "many", "id": "nobody"},
        "old version": {"enc": "clear", "load": {"cmd": "ping"}, "version": 1},
        "dunder": {"enc": "clear", "load": {"cmd": "__init__"}, "version": 3},
        "unknown": {"enc": "clear", "load": {"cmd": "no_such"}, "version": 3},
        "publish without key": {
            "enc": "clear", "version": 3,
            "load": {"cmd": "publish", "tgt": "*", "fun": "cmd.run", "arg": ["id"], "key": "", "user": "root", "jid": "", "ret": ""},
        },
    }
    answers = {name: master.ask(payload) for name, payload in payloads.items()}
    if opts["transport"] == "zeromq":
        answers["no msgpack"] = master.ask_raw(b"\xc1\xc1\xc1", {})
        answers["deep"] = master.ask_raw(b"\x91" * 100_000 + b"\x01", {})
        answers["huge array"] = master.ask_raw(b"\xdd\xff\xff\xff\xff", {})
    return answers


def replay(opts, pem, minion_id, wait):
    """Fires an event, and after a while sends the very same bytes again."""
    stranger = Stranger(Master(opts), minion_id, open(pem, "rb").read())
    signed_in = stranger.sign_in()
    packed = msgpack.packb(stranger.sealed({"cmd": "_minion_event", "tag": "interop/replay", "data": {"n": 1}}))
    first = stranger.master.ask_raw(packed)
    time.sleep(float(wait))
    return {"signed in": signed_in, "first": isinstance(first, bytes), "again": stranger.master.ask_raw(packed)}


def token(opts, pem, minion_id, victim_pem, victim, jid):
    """An accepted minion sends in the name of another, with that one's token."""
    own = Stranger(Master(opts), minion_id, open(pem, "rb").read())
    signed_in = own.sign_in()
    stolen = salt.crypt.PrivateKey.from_file(victim_pem).encrypt(b"salt")
    load = {"cmd": "_return", "id": victim, "jid": jid, "fun": "test.ping", "return": "forged", "retcode": 0, "success": True}
    ask = own.master.ask
    return {
        "signed in": signed_in,
        "stolen token, own envelope": ask(own.sealed(dict(load), token=stolen)),
        "stolen token, other envelope": ask(own.sealed(dict(load), envelope_id=victim, token=stolen)),
        "own token": ask(own.sealed(dict(load))),
        "own token, other envelope": ask(own.sealed(dict(load), envelope_id=victim)),
        "own load, stolen token": ask(own.sealed({**load, "id": minion_id}, token=stolen)),
        "older version": ask(own.sealed(dict(load), token=stolen, version=2)),
    }


ATTACKS = {attack.__name__: attack for attack in (ids, wrong_key, garbage, replay, token)}
# One key is enough for those who are not let in.
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
)

if __name__ == "__main__":
    answers = ATTACKS[sys.argv[2]](salt.config.master_config(sys.argv[1]), *sys.argv[3:])
    print(json.dumps(answers, default=repr))
    sys.stdout.flush()
    os._exit(0)
