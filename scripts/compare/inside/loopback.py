"""Runs inside the sandbox, as the user: small requests to a server of the same session over TCP on the loopback, one by one."""

import os
import socket
import sys

REQUEST = b"*2\r\n$3\r\nGET\r\n$5\r\nfirst\r\n"
REPLY = b"$6\r\nanswer\r\n"


def serve(listener):
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(4096):
        connection.sendall(REPLY)


def main():
    count = int(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        serve(listener)
        os._exit(0)
    connection = socket.create_connection(listener.getsockname())
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(count):
        connection.sendall(REQUEST)
        if connection.recv(4096) != REPLY:
            sys.exit("the reply is another one")
    connection.close()
    os.wait()


main()
