# A binary, a library that it depends on, a build script; built twice, the second time after a change, and tested.
PATH="$PWD/../toolchain/bin:$PATH"
export PATH CARGO_HOME="$PWD/cargo-home" CARGO_TERM_COLOR=never RUSTUP_TOOLCHAIN=none
mkdir -p app/src app/words/src
cat >app/Cargo.toml <<'TOML'
[package]
name = "app"
version = "0.1.0"
edition = "2021"
build = "build.rs"
[dependencies]
words = { path = "words" }
TOML
cat >app/build.rs <<'RUST'
fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    std::fs::write(format!("{out}/made.rs"), "pub const MADE: &str = \"made\";").unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
RUST
cat >app/src/main.rs <<'RUST'
include!(concat!(env!("OUT_DIR"), "/made.rs"));
fn main() {
    println!("says {MADE} {}", words::word());
}
RUST
cat >app/words/Cargo.toml <<'TOML'
[package]
name = "words"
version = "0.1.0"
edition = "2021"
TOML
printf 'pub fn word() -> &%s str { "first" }\n#[test]\nfn has_a_word() { assert!(!word().is_empty()); }\n' "'static" \
    >app/words/src/lib.rs
cd app
cargo build --offline -q
target/debug/app
sed -i 's/first/second/' words/src/lib.rs
cargo build --offline -q
target/debug/app
cargo test --offline -q -p words 2>&1 | grep -c 'test result: ok' | sed 's/^/passing /'
cargo clean -q
[ ! -e target ] || [ -z "$(ls target)" ]
