//! Node: fetch, sockets, and names by c-ares.

use super::case::{Client, nothing, tls};

pub const CLIENTS: &[Client] = &[Client {
    name: "node",
    script: "cat >client.mjs <<'END'\n\
             import dns from 'node:dns/promises';\n\
             import net from 'node:net';\n\
             const text = async url => (await (await fetch(url)).text()).trim();\n\
             console.log('fetch', await text('http://www.example.org/'));\n\
             console.log('tls', await text('https://www.example.org/'));\n\
             const many = await Promise.all(Array.from({ length: 50 }, () => text('http://www.example.org/bytes/100')));\n\
             console.log('many', many.join('').length);\n\
             console.log('c-ares', await dns.resolve4('www.example.org'), await dns.resolve6('www.example.org'));\n\
             console.log('lookup', (await dns.lookup('www.example.org', { family: 4 })).address);\n\
             const socket = net.connect(7, 'www.example.org');\n\
             socket.write('echo');\n\
             for await (const data of socket) { console.log('socket', String(data)); break; }\n\
             END\n\
             NODE_EXTRA_CA_CERTS=\"$1/tls/ca.pem\" exec node client.mjs\n",
    needs: &[("node", "nodejs")],
    servers: tls,
    prepare: nothing,
    hosts: &["www.example.org:80", "www.example.org:443", "www.example.org:7"],
    says: "fetch hello from www.example.org\n\
           tls hello from www.example.org\n\
           many 5000\n\
           c-ares [ '192.0.2.10' ] [ '2001:db8:2::10' ]\n\
           lookup 192.0.2.10\n\
           socket echo\n",
    refused: &["EAI_AGAIN", "ENOTFOUND"],
    connects: true,
}];
