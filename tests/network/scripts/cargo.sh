# A crate of a sparse registry.
export PATH="$HOME/toolchain/bin:$PATH" CARGO_HOME="$PWD/cargo" CARGO_NET_RETRY=0 CARGO_TERM_COLOR=never
export CARGO_REGISTRIES_TEST_INDEX=sparse+http://registry.example.org/index/
mkdir -p app/src
cd app
printf '[package]\nname = "app"\nversion = "0.0.0"\n[dependencies]\nhello = { version = "1", registry = "test" }\n' >Cargo.toml
echo 'fn main() { println!("{}", hello::WORD); }' >src/main.rs
cargo fetch -q
sed -n '/name = "hello"/,/version/ s/version = "\(.*\)"/hello \1/p' Cargo.lock
[ -f "$CARGO_HOME"/registry/src/*/hello-1.0.0/src/lib.rs ]
