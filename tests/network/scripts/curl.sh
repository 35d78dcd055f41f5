# By name, with TLS, much at once, and what is sent.
curl -sS http://www.example.org/
curl -sS --cacert "$1/tls/ca.pem" https://www.example.org/
echo "says $(curl -sS --no-progress-meter --parallel --parallel-immediate 'http://www.example.org/bytes/[10000-10000]' \
    'http://www.example.org/bytes/90000' | wc -c)"
echo "says $(curl -sS -T - http://www.example.org/bytes/8 </dev/null | wc -c)"
