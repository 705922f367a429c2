"""The same client over httpx, which passes the token in the URL as Basic by itself. usage: as polar_client.py"""

import json
import sys
import urllib.parse

import httpx

from polar_client import PolarError, run


class HttpxPolar:
    def __init__(self, address):
        self.address = address
        self.client = httpx.Client(timeout=30)

    def call(self, method, path, body=None):
        response = self.client.request(method, self.address + path, json=body)
        if response.status_code != 200:
            raise PolarError(response.status_code, response.json())
        return response.json()

    def submit(self, task):
        return self.call("POST", "/rollout/task/submit", task)

    def task(self, task_id):
        return self.call("GET", f"/rollout/task/{urllib.parse.quote(task_id, safe='')}")

    def cancel(self, task_id):
        return self.call("DELETE", f"/rollout/task/{urllib.parse.quote(task_id, safe='')}?register_if_missing=true")


if __name__ == "__main__":
    json.dump(run(HttpxPolar(sys.argv[1]), json.load(sys.stdin)), sys.stdout)
