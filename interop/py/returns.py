"""Publishes jobs to a minion that is no process, answers them in its name from several threads, and prints each
acknowledged jid at once.

Arguments: the master's configuration file, how many jobs. Ends when the master no longer answers.
"""

import os
import sys
import threading

import msgpack
import salt.config
import stranger
import zmq

THREADS = 4


def publish(master, minion):
    """Publishes one job and gives its jid."""
    with open(os.path.join(master.opts["cachedir"], ".{}_key".format(master.opts["user"]))) as key:
        load = {"cmd": "publish", "tgt": minion, "tgt_type": "glob", "fun": "test.echo", "arg": ["x"], "key": key.read(),
                "user": master.opts["user"], "jid": "", "ret": ""}
    answer = master.ask({"enc": "clear", "load": load, "version": 3})
    return answer["load"]["jid"]


def send(master, fake, jids):
    """Answers jobs one after the other on one connection."""
    with zmq.Context.instance().socket(zmq.REQ) as request:
        request.setsockopt(zmq.LINGER, 0)
        request.setsockopt(zmq.RCVTIMEO, 5000)
        request.connect("tcp://{interface}:{ret_port}".format(**master.opts))
        for jid in jids:
            load = {"cmd": "_return", "id": fake.id, "jid": jid, "fun": "test.echo", "fun_args": ["x"],
                    "return": f"return of {jid}", "retcode": 0, "success": True}
            request.send(msgpack.packb(fake.sealed(load)))
            try:
                answer = stranger.unpack(request.recv())
            except zmq.Again:
                return
            assert isinstance(answer, bytes), f"{jid} got {answer}"
            print(jid, flush=True)


if __name__ == "__main__":
    fake = stranger.Stranger(stranger.Master(salt.config.master_config(sys.argv[1])), "fake")
    assert "enc" in fake.sign_in(), "the key was not accepted"
    jids = [publish(fake.master, fake.id) for _ in range(int(sys.argv[2]))]
    print("published", flush=True)
    threads = [threading.Thread(target=send, args=(fake.master, fake, jids[n::THREADS])) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
