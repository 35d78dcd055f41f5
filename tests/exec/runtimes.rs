//! Run-times that start children in ways of their own: Node by fork and pipes, Java by a helper that it spawns, Go from a
//! thread with a raw clone(2), Python by vfork.

use crate::Test;
use crate::support::{Sandbox, Side};

pub const TESTS: &[Test] = &[
    ("nodes_children_run", || child_of(NODE)),
    ("javas_children_run", || child_of(JAVA)),
    ("gos_children_run", || child_of(GO)),
    ("pythons_children_run", || child_of(PYTHON)),
];

const NODE: &str = "node -e \"const c = require('child_process'); for (let i = 0; i < 5; i++) console.log(c.execFileSync('/bin/echo', ['from node', i]).toString())\"";

const JAVA: &str = "cat > P.java <<'END'
public class P { public static void main(String[] a) throws Exception {
  for (int i = 0; i < 3; i++) new ProcessBuilder(\"/bin/echo\", \"from java\", \"\" + i).inheritIO().start().waitFor(); } }
END
java -Xshare:auto P.java";

const GO: &str = "cat > p.go <<'END'
package main
import (\"fmt\"; \"os/exec\"; \"sync\")
func main() { var all sync.WaitGroup; for i := 0; i < 20; i++ { all.Add(1); go func() { defer all.Done()
  out, err := exec.Command(\"/bin/echo\", \"from go\").Output(); if err != nil { fmt.Println(err) }; fmt.Print(string(out)) }() }
  all.Wait() }
END
GOFLAGS=-mod=mod GOCACHE=$PWD/cache GOTOOLCHAIN=local go run p.go";

const PYTHON: &str = "/usr/bin/python3 -c \"
import subprocess
for i in range(5): print(subprocess.run(['/bin/echo', 'from python', str(i)], capture_output=True).stdout)\"";

fn child_of(script: &str) {
    let [bare, gated] = [Side::Bare, Side::Gated].map(|side| {
        let sandbox = Sandbox::new();
        sandbox.profile(crate::basics::NOTIFY_NOTHING);
        let outcome = sandbox.on(side, &["/bin/sh", "-c", script]);
        outcome.assert_code(0);
        outcome.out()
    });
    assert!(bare.contains("from"), "children ran:\n{bare}");
    assert_eq!(bare, gated);
}
