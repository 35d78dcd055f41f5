# gated. `make help` lists the targets.

PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo

TARGET   := $(or $(CARGO_TARGET_DIR),target)
RELEASE  := $(TARGET)/release
BINARIES := $(RELEASE)/gated-run $(RELEASE)/gated-session
PROFILES := $(wildcard policies/*.toml)
DOCS     := README.md $(wildcard docs/*.md)
TOOLS    := $(TARGET)/tools

bindir     := $(DESTDIR)$(PREFIX)/bin
libexecdir := $(DESTDIR)$(PREFIX)/libexec/gated
docdir     := $(DESTDIR)$(PREFIX)/share/doc/gated
# The built-in profiles, to read and to copy from; the programs hold them themselves.
profiledir := $(docdir)/profiles

.DEFAULT_GOAL := help
.PHONY: run build test soak bench lint advisories docs install uninstall clean help

run: ## Show the main job: a shell in a demonstration workspace, or a script where there is no terminal
	scripts/install-packages.sh run
	$(CARGO) build --release --locked
	scripts/demo.sh $(RELEASE)

build: ## Build the release binaries
	$(CARGO) build --release --locked

test: ## Install what the tests need and run them all (as root, or with sudo)
	scripts/install-packages.sh test
	scripts/test.sh

soak: ## Run random file calls bare and under gated for a long time, and compare
	scripts/install-packages.sh test
	scripts/test.sh --release --test differential -- --long

bench: ## Measure what a session costs, as a table with the targets (as root, or with sudo)
	scripts/install-packages.sh run
	scripts/bench.sh

lint: $(TOOLS)/bin/cargo-deny ## Formatting, clippy, licences and sources of the dependencies
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	$(TOOLS)/bin/cargo-deny --locked check --hide-inclusion-graph licenses bans sources

# Apart from lint: its answer changes with the day, not with the source, and it fetches the RustSec database.
advisories: $(TOOLS)/bin/cargo-deny ## Known vulnerabilities of the dependencies, by the RustSec database
	$(TOOLS)/bin/cargo-deny --locked check advisories

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install cargo-deny --locked --root $(TOOLS)

docs: ## Write docs/syscalls.md from the table of system calls
	GATED_WRITE_DOCS=1 $(CARGO) test --locked --test syscall_table the_page_is_current

# Built only if it is not there: `sudo make install` need not find cargo.
$(BINARIES) &:
	$(CARGO) build --release --locked

install: $(BINARIES) ## Install into $(DESTDIR)$(PREFIX), /usr/local by default
	install -d $(bindir) $(libexecdir) $(docdir) $(profiledir)
	install -m 0755 $(RELEASE)/gated-run $(bindir)
	install -m 0755 $(RELEASE)/gated-session $(libexecdir)
	install -m 0644 $(PROFILES) $(profiledir)
	install -m 0644 $(DOCS) $(docdir)

uninstall: ## Remove what `make install` put there
	rm -f $(bindir)/gated-run
	rm -rf $(libexecdir) $(docdir)

clean: ## Remove everything that was built
	$(CARGO) clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
