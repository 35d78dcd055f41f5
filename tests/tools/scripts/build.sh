# A crate, a package and a program, each by its own tool, with the caches where they are by default: in the home directory.
PATH="$PWD/../toolchain/bin:$PATH"
export PATH CARGO_TERM_COLOR=never RUSTUP_TOOLCHAIN=none npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
mkdir -p app/src
printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n' >app/Cargo.toml
echo 'fn main() { println!("crate built"); }' >app/src/main.rs
cd app
cargo build --offline -q
target/debug/app
# What cargo keeps for all builds.
echo fetched >"$HOME/.cargo/registry/cache.txt"
cd ..
mkdir -p word/package web
echo '{ "name": "word", "version": "1.0.0", "main": "index.js" }' >word/package/package.json
echo "module.exports = 'package built';" >word/package/index.js
tar -czf word-1.0.0.tgz -C word package
echo '{ "name": "web", "version": "0.0.0", "private": true }' >web/package.json
cd web
npm install --offline --silent ../word-1.0.0.tgz
node -e 'console.log(require("word"))'
[ -d "$HOME/.npm/_cacache" ] && echo "cache kept"
rm -rf node_modules
cd ..
printf 'all: hello\nhello: hello.c\n\tcc -o $@ $<\nclean:\n\trm -rf hello\n' >Makefile
printf '#include <stdio.h>\nint main(void) { puts("program built"); return 0; }\n' >hello.c
make -s
./hello
make -s clean
[ ! -e hello ] && echo "clean done"
