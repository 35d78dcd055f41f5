# Two packages, one of which needs the other and runs a script at its installation, from tarballs in this directory.
export npm_config_cache="$PWD/cache" npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
mkdir -p make/word/package make/greet/package app
cat >make/word/package/package.json <<'JSON'
{ "name": "word", "version": "1.0.0", "main": "index.js" }
JSON
echo "module.exports = 'hello';" >make/word/package/index.js
tar -czf word-1.0.0.tgz -C make/word package
cat >make/greet/package/package.json <<JSON
{ "name": "greet", "version": "2.0.0", "bin": { "greet": "greet.js" },
  "dependencies": { "word": "file:$PWD/word-1.0.0.tgz" },
  "scripts": { "postinstall": "node made.js" } }
JSON
printf '#!/usr/bin/env node\nconsole.log("says", require("word"));\n' >make/greet/package/greet.js
echo "require('fs').writeFileSync('made.txt', 'made');" >make/greet/package/made.js
tar -czf greet-2.0.0.tgz -C make/greet package
cd app
echo '{ "name": "app", "version": "0.0.0", "private": true }' >package.json
npm install --offline --silent ../greet-2.0.0.tgz
node_modules/.bin/greet
echo "script $(cat node_modules/greet/made.txt)"
echo "mode $(stat -Lc %a node_modules/.bin/greet)"
find node_modules | sort
npm ci --offline --silent
node_modules/.bin/greet
npm uninstall --offline --silent greet
echo "left $(find . -name greet | wc -l)"
