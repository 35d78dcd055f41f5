"""Serves the directory on port 8000 of localhost and reads a page of it, as a development server and its client do."""

import http.server
import threading
import urllib.request


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("localhost", 8000), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://localhost:8000/README.md").readline().decode().strip())
