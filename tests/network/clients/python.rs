//! Python: requests, and connections by asyncio.

use super::case::{Client, nothing, tls};

pub const CLIENTS: &[Client] = &[
    Client {
        name: "requests",
        script: "exec /usr/bin/python3 - \"$1/tls/ca.pem\" <<'PYTHON'\n\
                 import requests, sys\n\
                 print(requests.get('https://www.example.org/', verify=sys.argv[1]).text, end='')\n\
                 session = requests.Session()\n\
                 print('says', sum(len(session.get('http://www.example.org/bytes/1000').content) for _ in range(20)))\n\
                 print('says', requests.post('http://www.example.org/bytes/3', data=b'x' * 100000).text)\n\
                 PYTHON\n",
        needs: &[("/usr/lib/python3/dist-packages/requests", "python3-requests")],
        servers: tls,
        prepare: nothing,
        hosts: &["www.example.org:80", "www.example.org:443"],
        says: "hello from www.example.org\nsays 20000\nsays xxx\n",
        refused: &["Temporary failure in name resolution", "Name or service not known"],
        connects: true,
    },
    Client {
        name: "asyncio",
        script: "exec /usr/bin/python3 - <<'PYTHON'\n\
                 import asyncio\n\
                 async def talk(number):\n\
                 \x20   reader, writer = await asyncio.open_connection('www.example.org', 7, happy_eyeballs_delay=0.25)\n\
                 \x20   writer.write(b'%d' % number)\n\
                 \x20   writer.write_eof()\n\
                 \x20   number = int(await reader.read())\n\
                 \x20   writer.close()\n\
                 \x20   return number\n\
                 async def main():\n\
                 \x20   print('says', sum(await asyncio.gather(*[talk(number) for number in range(100)])))\n\
                 asyncio.run(main())\n\
                 PYTHON\n",
        needs: &[("python3", "python3")],
        servers: super::case::no_servers,
        prepare: nothing,
        hosts: &["www.example.org:7"],
        says: "says 4950\n",
        refused: &["Temporary failure in name resolution", "Name or service not known"],
        connects: true,
    },
];
