"""Reads events over the WebSocket of salt-api, as its clients do.

Arguments: the master's configuration file, the address of salt-api, a session, and what to do:

  job MINION [QUERY]   get ready, publish test.echo to the minion, and read up to its return
  wait                 get ready, print "open", and read to the end of the connection

Prints a JSON map: the messages, or the code and the reason of the end.
"""

import json
import sys
import urllib.request

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PLACE, SESSION, WHAT = sys.argv[2:5]
READY, RECEIVED = "websocket client ready", "server received message"


def publish(minion):
    command = {"client": "local_async", "tgt": minion, "fun": "test.echo", "arg": ["<b>over a WebSocket</b>"]}
    headers = {"X-Auth-Token": SESSION, "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{PLACE}/", json.dumps(command).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["return"][0]["jid"]


def is_end(message, jid, minion):
    """Returns whether a message has the return of the job."""
    if message.startswith("data: "):
        return json.loads(message[len("data: "):])["tag"] == f"salt/job/{jid}/ret/{minion}"
    return json.loads(message).get("jobs", {}).get(jid, {}).get("state") == "complete"


def job(minion, query=""):
    with connect(f"ws://{PLACE}/ws/{SESSION}{query}") as socket:
        socket.send(READY)
        answer = socket.recv(timeout=60)
        jid = publish(minion)
        messages = [socket.recv(timeout=60)]
        while not is_end(messages[-1], jid, minion):
            messages.append(socket.recv(timeout=60))
    return {"answer": answer, "jid": jid, "messages": messages, "code": socket.protocol.close_code}


def wait():
    with connect(f"ws://{PLACE}/ws/{SESSION}") as socket:
        socket.send(READY)
        assert socket.recv(timeout=60) == RECEIVED
        print("open", flush=True)
        try:
            while True:
                socket.recv(timeout=60)
        except ConnectionClosed as end:
            return {"code": end.rcvd.code, "reason": end.rcvd.reason}


print(json.dumps(job(*sys.argv[5:]) if WHAT == "job" else wait()), flush=True)
