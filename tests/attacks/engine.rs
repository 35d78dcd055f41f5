//! The common way of an attack: a fresh sandbox for each side, the attack in it, and a look at what changed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Inside;
use crate::raw::{self, Raw};
use crate::support::{Outcome, Sandbox, Side, snapshot};

static ONLY_BARE: AtomicBool = AtomicBool::new(false);

pub fn only_bare() {
    ONLY_BARE.store(true, Ordering::Relaxed);
}

/// Whether the half under `gated-run` is to be run.
pub fn gated_too() -> bool {
    !ONLY_BARE.load(Ordering::Relaxed)
}

pub fn sides() -> &'static [Side] {
    if gated_too() { &[Side::Bare, Side::Gated] } else { &[Side::Bare] }
}

/// Runs an attack to its end on one side. That it came to its end is asserted: an attack that did not run proves nothing.
#[track_caller]
pub fn attack(sandbox: &Sandbox, side: Side, name: &str, args: &[&str]) -> Outcome {
    let outcome = sandbox.on(side, &sandbox.inside(name, args));
    outcome
        .assert(outcome.out().lines().any(|line| line == format!("ran {name}")), "the attack did not come to its end");
    outcome
}

/// A sandbox with the things that attacks are after: `outside/victim`, `outside/dir/inner`, `work/free`.
pub fn with_victims() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file(&sandbox.outside().join("victim"), "original\n");
    sandbox.file(&sandbox.outside().join("dir/inner"), "original\n");
    sandbox.file(&sandbox.workspace().join("free"), "free\n");
    sandbox
}

/// An attack of one or a few calls, by name.
pub type Variant = (&'static str, fn() -> Raw);

/// One family of attacks and how to prepare and judge it.
pub struct Family {
    pub name: &'static str,
    pub prepare: fn() -> Sandbox,
    /// The trees that must not change.
    pub guarded: fn(&Sandbox) -> Vec<PathBuf>,
    pub variants: &'static [Variant],
}

/// Each variant bare: a guarded tree changes; and inside: none does.
#[track_caller]
pub fn run_family(family: &Family) {
    let mut failures = String::new();
    for (variant, _) in family.variants {
        for side in sides() {
            let sandbox = (family.prepare)();
            let look =
                || -> Vec<String> { (family.guarded)(&sandbox).iter().flat_map(|dir| snapshot::of(dir)).collect() };
            let before = look();
            let outcome = attack(&sandbox, *side, "variant", &[family.name, variant]);
            let after = look();
            if (before != after) != (*side == Side::Bare) {
                let what = if *side == Side::Bare { "bare, it changed nothing" } else { "inside, it got through" };
                failures += &format!("{variant}: {what}\n{outcome}");
                for line in after.iter().filter(|line| !before.contains(line)) {
                    failures += &format!("  now: {line}\n");
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// `outside/` and the shell's start file.
pub fn outside_and_home(sandbox: &Sandbox) -> Vec<PathBuf> {
    vec![sandbox.outside(), sandbox.home().join(".bashrc")]
}

const FAMILIES: &[&Family] = &[
    &crate::abi::WIDE_REGISTERS,
    &crate::lasting::LASTING,
    &crate::lasting::FROM_SCRATCH,
    &crate::metadata::METADATA,
    &crate::names::NAMES,
    &crate::names::PROTECTED_BELOW,
    &crate::openers::OPENERS,
    &crate::own_files::OWN_FILES,
    &crate::spellings::SPELLINGS,
];

pub const INSIDE: &[Inside] = &[("variant", variant)];

fn variant(args: &[String]) {
    let [family, name] = args else { panic!("FAMILY VARIANT") };
    let family = FAMILIES.iter().find(|known| known.name == family).expect("a known family");
    let (_, attempt) = family.variants.iter().find(|(known, _)| known == name).expect("a known variant");
    raw::say_result("result", attempt());
}
