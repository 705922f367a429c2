"""Fetches the results of a task by reference, in MessagePack, with nothing but the standard library.

    python3 fetch_result.py http://polar:TOKEN@127.0.0.1:8080 TASK_ID

Prints one line of JSON per trace.
"""
import base64
import json
import struct
import sys
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen


def fetch(base, path, accept):
    """The body of a GET; the token is the password of `base`, which urllib does not send by itself."""
    parts = urlsplit(base)
    login = base64.b64encode(unquote(f"{parts.username}:{parts.password}").encode()).decode()
    server = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query=""))
    with urlopen(Request(server + path, headers={"Accept": accept, "Authorization": f"Basic {login}"})) as reply:
        return reply.read()


NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
SIZED = {
    0xC4: (bytes, ">B"), 0xC5: (bytes, ">H"), 0xC6: (bytes, ">I"), 0xD9: (str, ">B"), 0xDA: (str, ">H"), 0xDB: (str, ">I"),
    0xDC: (list, ">H"), 0xDD: (list, ">I"), 0xDE: (dict, ">H"), 0xDF: (dict, ">I"),
}
ELEMENTS = {"<i4": "<%di", "<f4": "<%df", "|u1": "%dB"}


def unpack(data, at=0):
    """One MessagePack value at a place, and the place behind it."""

    def read(form):
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)

    kind, at = data[at], at + 1
    if kind < 0x80 or kind >= 0xE0:
        return (kind if kind < 0x80 else kind - 0x100), at
    if kind in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[kind], at
    if kind in NUMBERS:
        return read(NUMBERS[kind])
    if kind in SIZED:
        shape = SIZED[kind][0]
        size, at = read(SIZED[kind][1])
    else:
        shape, size = (str, kind & 0x1F) if kind >= 0xA0 else (list if kind >= 0x90 else dict, kind & 0x0F)
    if shape in (bytes, str):
        raw = data[at : at + size]
        return (raw if shape is bytes else raw.decode()), at + size
    values = []
    for _ in range(size * (2 if shape is dict else 1)):
        value, at = unpack(data, at)
        values.append(value)
    return (dict(zip(values[::2], values[1::2])) if shape is dict else values), at


def numbers(typed):
    """A typed array as a tuple; numpy.frombuffer(typed["data"], typed["dtype"]) is the same in one copy less."""
    return typed and struct.unpack(ELEMENTS[typed["dtype"]] % typed["shape"][0], typed["data"])


def main(base, task):
    status = json.loads(fetch(base, f"/rollout/task/{task}?results=reference", "application/json"))
    for told in status["results"]:
        reference = told["metadata"]["polar_node"]["result"]
        result, _ = unpack(fetch(base, reference["href"], "application/msgpack"))
        for trace in result["trajectory"]["traces"]:
            row = {key: numbers(trace[key]) for key in ("prompt_ids", "response_ids", "loss_mask", "response_logprobs")}
            print(json.dumps({"session_id": result["session_id"], "reward": trace["reward"], **row}))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except HTTPError as refusal:
        sys.exit(f"{refusal.code} {refusal.url}: {refusal.read().decode()}")
    except URLError as problem:
        sys.exit(f"no answer: {problem.reason}")
