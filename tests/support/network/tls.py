"""Takes TLS connections and hands what they say to the HTTP server of the same namespace.

Arguments: the directory with leaf.pem and leaf.key, the port to serve, the port of the HTTP server. Prints `hello NAME` for each
connection, NAME as the client said it.
"""
import asyncio
import socket
import ssl
import sys

directory, port, behind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def hello(connection, name, context):
    print("hello", name or "-", flush=True)


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    # The address that the client chose: the HTTP server of that address answers, and records it.
    address = writer.get_extra_info("sockname")[0].removeprefix("::ffff:")
    onward, back = await asyncio.open_connection(address, behind)
    await asyncio.gather(pump(reader, back), pump(onward, writer))


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/leaf.pem", f"{directory}/leaf.key")
    context.set_alpn_protocols(["http/1.1"])
    context.sni_callback = hello
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::", port))
    listener.listen(1024)
    server = await asyncio.start_server(serve, sock=listener, ssl=context)
    await server.serve_forever()


asyncio.run(main())
