# gated. `make help` lists the targets.

PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c

TARGET   := $(or $(CARGO_TARGET_DIR),target)
RELEASE  ?= $(TARGET)/release
PROGRAMS := gated-run gatedctl
SERVICES := gatedd gated-session gated-notify
BINARIES := $(addprefix $(RELEASE)/,$(PROGRAMS) $(SERVICES))
PROFILES := $(wildcard policies/*.toml)
SCHEMAS  := $(wildcard policies/*.schema.json)
DOCS     := README.md $(wildcard docs/*.md)
UNITS    := $(wildcard systemd/*.service systemd/*.slice)
TOOLS    := $(TARGET)/tools

# Where things go, each below DESTDIR and each to be had otherwise. systemd looks below /usr and /usr/local; for policy, the
# bus only below /usr/share and /etc, and polkit below /usr/share alone.
searched       := $(or $(filter /usr /usr/local,$(PREFIX)),/usr/local)
bindir         ?= $(PREFIX)/bin
libexecdir     ?= $(PREFIX)/libexec/gated
docdir         ?= $(PREFIX)/share/doc/gated
mandir         ?= $(PREFIX)/share/man
bashdir        ?= $(PREFIX)/share/bash-completion/completions
zshdir         ?= $(PREFIX)/share/zsh/site-functions
fishdir        ?= $(PREFIX)/share/fish/vendor_completions.d
unitdir        ?= $(searched)/lib/systemd/system
userunitdir    ?= $(searched)/lib/systemd/user
catalogdir     ?= $(searched)/lib/systemd/catalog
sysusersdir    ?= $(searched)/lib/sysusers.d
tmpfilesdir    ?= $(searched)/lib/tmpfiles.d
busservicedir  ?= $(searched)/share/dbus-1/system-services
buspolicydir   ?= $(if $(filter /usr,$(PREFIX)),/usr/share,/etc)/dbus-1/system.d
polkitdir      ?= /usr/share/polkit-1/actions
autostartdir   ?= /etc/xdg/autostart
# The built-in profiles, to read and to copy from; the programs hold them themselves.
profiledir     := $(docdir)/profiles
# Of policy files, for editors.
schemadir      ?= $(PREFIX)/share/gated

.DEFAULT_GOAL := help
.PHONY: run build test soak soak-faults fidelity fuzz bench compare growth lint advisories docs install uninstall clean help

run: ## Show the main job: a shell in a demonstration workspace, or a script where there is no terminal
	scripts/install-packages.sh run
	$(CARGO) build --release --locked
	scripts/demo.sh $(RELEASE)

build: ## Build the release binaries
	$(CARGO) build --release --locked

test: ## Install what the tests need and run them all (as root, or with sudo)
	scripts/install-packages.sh test
	scripts/test.sh

MINUTES ?= 30
# KIND=signals is one kind of programs; SEED=N makes other programs.
soak: ## Run random programs of system calls bare and inside for MINUTES, and compare (see docs/fidelity.md)
	scripts/install-packages.sh test
	scripts/test.sh --release --test differential -- --long --minutes $(MINUTES) \
		$(if $(KIND),--kind $(KIND)) $(if $(SEED),--seed $(SEED))

# SUITES="cpython git:t0001-init.sh" is less of it.
fidelity: ## Run the test suites of CPython, git, busybox and SQLite bare and inside, and compare
	scripts/install-packages.sh fidelity
	$(CARGO) build --release --locked
	$(if $(filter 0,$(shell id -u)),,sudo -E) scripts/fidelity/fidelity.py --gated-run $(RELEASE)/gated-run $(SUITES)

fuzz: $(TOOLS)/bin/cargo-fuzz ## Fuzz each target for FUZZ_SECONDS=600, two at a time (FUZZ_TARGETS for some of them)
	scripts/install-packages.sh fuzz
	FUZZER=$< scripts/fuzz.sh $(FUZZ_TARGETS)

soak-faults: ## Run sessions with faults in all of it for MINUTES, and account for everything (see docs/soak.md)
	scripts/install-packages.sh test
	scripts/test.sh --test soak -- --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

bench: ## Measure what a session costs, as a table with the targets (as root, or with sudo)
	scripts/install-packages.sh bench
	scripts/bench.sh

compare: ## Run workloads bare, under gated and under other sandboxes, and write docs/performance.md (as root, or with sudo)
	scripts/install-packages.sh compare
	$(CARGO) build --release --locked
	scripts/compare.sh --binaries $(RELEASE)

growth: ## Measure what more sessions, processes, files and rules cost, for docs/performance.md (as root, or with sudo)
	scripts/install-packages.sh compare
	$(CARGO) build --release --locked
	scripts/compare.sh --growth --binaries $(RELEASE)

lint: $(TOOLS)/bin/cargo-deny ## Formatting, clippy, licences and sources of the dependencies
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	$(TOOLS)/bin/cargo-deny --locked check --hide-inclusion-graph licenses bans sources

# Apart from lint: its answer changes with the day, not with the source, and it fetches the RustSec database.
advisories: $(TOOLS)/bin/cargo-deny ## Known vulnerabilities of the dependencies, by the RustSec database
	$(TOOLS)/bin/cargo-deny --locked check advisories

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install cargo-deny --locked --root $(TOOLS)

$(TOOLS)/bin/cargo-fuzz:
	$(CARGO) install cargo-fuzz --locked --root $(TOOLS)

docs: ## Write docs/syscalls.md and docs/errnos.md from the tables of system calls and of errnos
	GATED_WRITE_DOCS=1 $(CARGO) test --locked --test syscall_table the_page_is_current
	GATED_WRITE_DOCS=1 $(CARGO) test --locked --test differential errnos::the_page_is_current

# Built only if they are not there: `sudo make install` need not find cargo.
$(BINARIES) &:
	$(CARGO) build --locked $(if $(filter %/debug,$(RELEASE)),,--release)

# A data file with the names of places in it: $(call place,FILE,DIRECTORY,NAME).
place = sed 's|@bindir@|$(bindir)|g; s|@libexecdir@|$(libexecdir)|g' $(1) | \
	install -D -m 0644 /dev/stdin $(DESTDIR)$(2)/$(or $(3),$(notdir $(1)))
define each
$(1)

endef

install: $(BINARIES) ## Install into $(DESTDIR)$(PREFIX), /usr/local by default
	install -d $(addprefix $(DESTDIR),$(bindir) $(libexecdir) $(profiledir) $(schemadir))
	install -m 0755 $(addprefix $(RELEASE)/,$(PROGRAMS)) $(DESTDIR)$(bindir)
	install -m 0755 scripts/gated-sh $(DESTDIR)$(bindir)
	install -m 0755 $(addprefix $(RELEASE)/,$(SERVICES)) $(DESTDIR)$(libexecdir)
	install -m 0644 $(DOCS) $(DESTDIR)$(docdir)
	install -m 0644 $(PROFILES) $(DESTDIR)$(profiledir)
	install -m 0644 $(SCHEMAS) $(DESTDIR)$(schemadir)
	$(foreach unit,$(UNITS),$(call each,$(call place,$(unit),$(unitdir))))
	$(call place,systemd/user/gated-notify.service,$(userunitdir))
	$(call place,systemd/user/gated-notify-webhook.service,$(userunitdir))
	install -d $(DESTDIR)$(userunitdir)/graphical-session.target.wants
	ln -sfT ../gated-notify.service $(DESTDIR)$(userunitdir)/graphical-session.target.wants/gated-notify.service
	$(call place,systemd/user/gated-notify.desktop,$(autostartdir))
	$(call place,systemd/gated.catalog,$(catalogdir))
	$(call place,systemd/gated.sysusers,$(sysusersdir),gated.conf)
	$(call place,systemd/gated.tmpfiles,$(tmpfilesdir),gated.conf)
	$(call place,dbus/org.gated.Gated1.conf,$(buspolicydir))
	$(call place,dbus/org.gated.Gated1.service,$(busservicedir))
	$(call place,dbus/org.gated.gated1.policy,$(polkitdir))
	scripts/install-pages.sh $(RELEASE)/gatedctl $(addprefix $(DESTDIR),$(mandir) $(bashdir) $(zshdir) $(fishdir))
	$(if $(DESTDIR),,scripts/after-install.sh)

# Sessions that run lose their supervisor: better than one whose daemon cannot come back.
uninstall: ## Stop everything and remove what `make install` put there
	$(if $(DESTDIR),,scripts/before-uninstall.sh)
	cd $(DESTDIR)$(bindir) && rm -f $(PROGRAMS) gated-sh
	rm -rf $(addprefix $(DESTDIR),$(libexecdir) $(docdir) $(schemadir))
	rm -f $(addprefix $(DESTDIR)$(unitdir)/,$(notdir $(UNITS))) $(addprefix $(DESTDIR),$(userunitdir)/gated-notify.service \
		$(userunitdir)/gated-notify-webhook.service \
		$(userunitdir)/graphical-session.target.wants/gated-notify.service \
		$(autostartdir)/gated-notify.desktop $(catalogdir)/gated.catalog $(sysusersdir)/gated.conf $(tmpfilesdir)/gated.conf \
		$(buspolicydir)/org.gated.Gated1.conf $(busservicedir)/org.gated.Gated1.service $(polkitdir)/org.gated.gated1.policy)
	rm -f $(addprefix $(DESTDIR)$(mandir)/,man1/gated-notify.1 man8/gatedd.8)
	rm -f $(foreach name,$(PROGRAMS),$(addprefix $(DESTDIR),$(mandir)/man1/$(name).1 $(bashdir)/$(name) $(zshdir)/_$(name) \
		$(fishdir)/$(name).fish))
	$(if $(DESTDIR),,scripts/after-install.sh)

clean: ## Remove everything that was built
	$(CARGO) clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
