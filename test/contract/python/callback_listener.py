"""The trainer's side of a callback: POST /callback/task_result with a TaskResult sets the event of its task."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class CallbackListener:
    def __init__(self, host="127.0.0.1"):
        self.results = {}
        self._arrived = threading.Condition()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path != "/callback/task_result":
                    self.send_error(404)
                    return
                with listener._arrived:
                    listener.results[body["task_id"]] = body
                    listener._arrived.notify_all()
                answer = b'{"ok":true}'
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self.url = f"http://{host}:{self._server.server_port}/callback/task_result"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self, task_id, seconds):
        """The TaskResult, or None when it has not come in time."""
        with self._arrived:
            self._arrived.wait_for(lambda: task_id in self.results, seconds)
            return self.results.get(task_id)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
