#!/usr/bin/env python3
"""A bridge for gated-notify --webhook: a page with buttons, for a browser on this machine or behind a TLS proxy.

    ./webhook-bridge.py SECRET_FILE [PORT]

prints the address of the page; ~/.config/gated/webhook.toml then says

    url = "http://127.0.0.1:8787/gated"
    reply_url = "http://127.0.0.1:8787/replies"
    secret = "what is in SECRET_FILE"

A chat bot does the same: it takes messages at one path, shows them, and hands out signed replies at another.
"""

import hashlib
import hmac
import html
import http.server
import json
import secrets
import sys
import threading
import time
import urllib.parse

SECRET = open(sys.argv[1], "rb").read().strip()
PORT = int(sys.argv[2]) if len(sys.argv) > 2 else 8787
# Who has the page's address can answer; the secret stays here.
PAGE = "/" + secrets.token_urlsafe(16)

lock = threading.Lock()
waiting = {}  # request -> message
replies = []


def signature(*parts):
    return "v1=" + hmac.new(SECRET, b".".join(parts), hashlib.sha256).hexdigest()


def reply(request, token):
    now = str(int(time.time()))
    signed = signature(now.encode(), request.encode(), token.encode())
    return {"request": request, "token": token, "timestamp": int(now), "signature": signed}


class Handler(http.server.BaseHTTPRequestHandler):
    def from_gated(self, what):
        """Whether the request is signed with the secret and not older than five minutes."""
        when = self.headers.get("X-Gated-Timestamp", "")
        given = self.headers.get("X-Gated-Signature", "")
        fresh = when.isdigit() and abs(time.time() - int(when)) <= 300
        return fresh and hmac.compare_digest(given, signature(when.encode(), what))

    def answer(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1 << 16))
        if self.path == "/gated":
            if not self.from_gated(body):
                return self.answer(403)
            message = json.loads(body)
            with lock:
                if message["event"] == "asked":
                    waiting[message["request"]] = message
                else:
                    waiting.pop(message["request"], None)
            return self.answer(204)
        if self.path == PAGE:
            pressed = urllib.parse.parse_qs(body.decode())
            request, token = pressed.get("request", [""])[0], pressed.get("token", [""])[0]
            with lock:
                # Of what is shown only, and once.
                message = waiting.pop(request, None)
                if message and any(token == answer["token"] for answer in message["answers"]):
                    replies.append(reply(request, token))
            return self.answer(303, Location=PAGE)
        self.answer(404)

    def do_GET(self):
        if self.path.split("?")[0] == "/replies":
            if not self.from_gated(self.path.encode()):
                return self.answer(403)
            with lock:
                ready, replies[:] = replies[:], []
            return self.answer(200, json.dumps({"replies": ready}).encode())
        if self.path == PAGE:
            return self.answer(200, page().encode(), "text/html; charset=utf-8")
        self.answer(404)

    def log_message(self, *words):
        pass  # Addresses are secrets.


def page():
    text = html.escape
    parts = ["<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=3><title>gated</title>"]
    parts.append("<meta name=viewport content='width=device-width'>")
    with lock:
        messages = list(waiting.values())
    for message in messages:
        parts.append("<h2>%s</h2><p>%s on %s, until %s</p><dl>" % tuple(
            text(str(message[key])) for key in ("summary", "user", "host", "deadline")))
        for line in message["details"]:
            parts.append("<dt>%s</dt><dd><code>%s</code></dd>" % (text(line["label"]), text(line["text"])))
        parts.append("</dl><p>%s</p>" % text(message.get("note", "")))
        for answer in message["answers"]:
            parts.append("<form method=post><input type=hidden name=request value='%s'>"
                         "<input type=hidden name=token value='%s'><button>%s</button> %s</form>" % tuple(
                             text(value) for value in (
                                 message["request"], answer["token"], answer["label"], answer["means"])))
    if not messages:
        parts.append("<p>Nothing waits.</p>")
    return "".join(parts)


if __name__ == "__main__":
    if len(SECRET) < 32:
        sys.exit("the secret has fewer than 32 characters: openssl rand -hex 32 > FILE")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    print("http://127.0.0.1:%d%s" % (server.server_address[1], PAGE), flush=True)
    server.serve_forever()
