# Packages whose scripts are run around their installation and their use, by a shell and by node, with programs of their own.
export npm_config_cache="$PWD/cache" npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
mkdir -p tool/bin app
cat >tool/package.json <<'JSON'
{ "name": "tool", "version": "1.0.0", "bin": { "tool": "bin/tool.js" },
  "scripts": {
    "preinstall": "echo pre >>steps; sh -c 'exec env STEP=env sh -c \"echo \\$STEP >>steps\"'",
    "install": "node install.js",
    "postinstall": "printf post | tr a-z A-Z >>steps" } }
JSON
cat >tool/install.js <<'JS'
const { execFileSync, execSync, spawnSync } = require('child_process');
const { appendFileSync } = require('fs');
appendFileSync('steps', execFileSync('printf', ['%s\n', 'file']));
appendFileSync('steps', execSync('echo shell | cat'));
appendFileSync('steps', spawnSync(process.execPath, ['-e', 'console.log("node")']).stdout);
JS
printf '#!/usr/bin/env node\nconsole.log("tool", process.argv.slice(2).join(" "));\n' >tool/bin/tool.js
tar --sort=name --mtime=@0 -cf - tool | gzip -n >tool-1.0.0.tgz
cd app
cat >package.json <<'JSON'
{ "name": "app", "version": "0.0.0", "private": true,
  "scripts": {
    "prepare": "echo prepared >>steps", "prebuild": "echo before >>steps", "build": "tool one 'two three' && node many.js",
    "postbuild": "echo after >>steps", "test": "node -e 'process.exit(3)'" } }
JSON
cat >many.js <<'JS'
const { spawn } = require('child_process');
const one = (number) => new Promise((resolve, reject) => {
  const child = spawn('sh', ['-c', 'echo $0', String(number)]);
  let text = '';
  child.stdout.on('data', (data) => { text += data; });
  child.on('error', reject);
  child.on('close', (code) => code === 0 ? resolve(Number(text)) : reject(code));
});
Promise.all(Array.from({ length: 40 }, (_, number) => one(number)))
  .then((numbers) => console.log('children', numbers.reduce((sum, number) => sum + number, 0)));
JS
npm install --offline --silent ../tool-1.0.0.tgz
tr '\n' ' ' <node_modules/tool/steps
echo
npm install --offline --silent
npm run --silent build
npm test --silent || echo "status $?"
tr '\n' ' ' <steps
echo
