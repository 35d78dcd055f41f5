//! curl, wget, and a WebSocket.

use super::case::{Client, Servers, nothing, tls};
use crate::support::network::{Program, World, any};

pub const CLIENTS: &[Client] = &[
    Client {
        name: "curl",
        script: include_str!("../scripts/curl.sh"),
        needs: &[("curl", "curl")],
        servers: tls,
        prepare: nothing,
        hosts: &["www.example.org:80", "www.example.org:443"],
        says: "hello from www.example.org\nhello from www.example.org\nsays 100000\nsays 8\n",
        refused: &["Could not resolve host: www.example.org"],
        connects: true,
    },
    Client {
        name: "wget",
        script: "wget -nv -O - --tries=1 --ca-certificate=\"$1/tls/ca.pem\" https://www.example.org/\n\
                 wget -nv -O - --tries=1 http://www.example.org/\n",
        needs: &[("wget", "wget")],
        servers: tls,
        prepare: nothing,
        hosts: &["www.example.org:80", "www.example.org:443"],
        says: "hello from www.example.org\nhello from www.example.org\n",
        refused: &["unable to resolve host address"],
        connects: true,
    },
    Client {
        name: "websocket",
        script: "exec /usr/bin/python3 - <<'PYTHON'\n\
                 import asyncio, websockets\n\
                 async def main():\n\
                 \x20   async with websockets.connect('ws://www.example.org:8765/') as socket:\n\
                 \x20       for word in ['olleh', 'dlrow']:\n\
                 \x20           await socket.send(word)\n\
                 \x20           print('says', await socket.recv())\n\
                 asyncio.run(main())\n\
                 PYTHON\n",
        needs: &[("/usr/lib/python3/dist-packages/websockets", "python3-websockets")],
        servers: websocket,
        prepare: nothing,
        hosts: &["www.example.org:8765"],
        says: "says hello\nsays world\n",
        refused: &["name resolution", "Name or service not known"],
        connects: true,
    },
];

const WEBSOCKET: &str = "
import asyncio, websockets
async def serve(socket):
    async for word in socket:
        await socket.send(word[::-1])
async def main():
    async with websockets.serve(serve, ['0.0.0.0', '::'], 8765):
        await asyncio.Future()
asyncio.run(main())
";

fn websocket(world: &World) -> Servers {
    let mut command = world.internet.command("/usr/bin/python3");
    command.args(["-c", WEBSOCKET]);
    vec![Box::new(Program::start(&world.internet, command, any(8765), &world.files().join("websocket")))]
}
