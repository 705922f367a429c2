"""A Polar client with nothing but the standard library. usage: polar_client.py http://polar:TOKEN@host:8080 < job.json

The job is {"task": TaskRequest, "wait": "callback" | "poll", "cancel": bool}; what came of it is printed as one JSON object.
"""

import base64
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from callback_listener import CallbackListener
from slime_samples import read_task

OVER = ("completed", "failed", "cancelled")
FALLBACK_POLL_SECONDS = 60


class PolarError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Polar:
    def __init__(self, address):
        # urllib takes the userinfo for a part of the host name, so a client of the standard library takes it apart.
        parts = urllib.parse.urlsplit(address)
        self.base = urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
        user, token = (urllib.parse.unquote(part or "") for part in (parts.username, parts.password))
        self.authorization = "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method)
        request.add_header("authorization", self.authorization)
        if data is not None:
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise PolarError(error.code, json.load(error)) from None

    def submit(self, task):
        return self.call("POST", "/rollout/task/submit", task)

    def task(self, task_id):
        return self.call("GET", f"/rollout/task/{urllib.parse.quote(task_id, safe='')}")

    def cancel(self, task_id):
        return self.call("DELETE", f"/rollout/task/{urllib.parse.quote(task_id, safe='')}?register_if_missing=true")


def poll(polar, task_id, interval=0.1):
    while True:
        task = polar.task(task_id)
        if task["status"] in OVER:
            return task
        time.sleep(interval)


def wait(polar, listener, task_id):
    """The callback; where it never comes, the task is asked for now and then."""
    while True:
        result = listener.wait(task_id, FALLBACK_POLL_SECONDS)
        if result is not None:
            return result
        task = polar.task(task_id)
        if task["status"] in OVER:
            return task


def run(polar, job):
    listener = CallbackListener()
    try:
        task, by_callback = job["task"], job["wait"] == "callback"
        submitted = polar.submit({**task, "callback_url": listener.url} if by_callback else task)
        if job.get("cancel"):
            polar.cancel(task["task_id"])
        result = wait(polar, listener, task["task_id"]) if by_callback else poll(polar, task["task_id"])
        return {
            "submitted": submitted,
            "status": result["status"],
            "keys": sorted(result),
            "by_callback": task["task_id"] in listener.results,
            "same": result["results"] == polar.task(task["task_id"])["results"],
            "samples": read_task(result),
        }
    except PolarError as error:
        return {"error": error.status, "body": error.body}
    finally:
        listener.close()


if __name__ == "__main__":
    json.dump(run(Polar(sys.argv[1]), json.load(sys.stdin)), sys.stdout)
