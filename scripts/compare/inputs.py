"""What workloads need from package registries: fetched once by name, as root, and kept in one cache that everybody can read.

Needs the network the first time. A part that is there already is not fetched again; remove its directory to have it anew.
"""

import os
import shutil
import subprocess
from pathlib import Path

CACHE = Path("/var/cache/gated-compare")

# Pure Python, so that one wheel does for every machine.
WHEELS = ("requests==2.31.0 urllib3==2.0.7 idna==3.4 certifi==2023.7.22 flask==2.3.3 werkzeug==2.3.7 jinja2==3.1.2 click==8.1.7 "
          "itsdangerous==2.1.2 blinker==1.6.2").split()
NPM = {"express": "4.18.2", "mocha": "10.2.0", "lodash": "4.17.21"}
# Old enough for the cargo that Debian has.
CRATES = {"serde": "=1.0.150", "serde_json": "=1.0.90", "itoa": "=1.0.5", "ryu": "=1.0.12", "memchr": "=2.5.0", "libc": "=0.2.139"}


class Missing(Exception):
    """An input that could not be fetched."""


def fetched(name, fetch):
    """The directory of this name in the cache, filled by `fetch` if it is not there."""
    place = CACHE / name
    if place.exists():
        return place
    CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    work = CACHE / f".{name}.{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o755)
    try:
        fetch(work)
        subprocess.run(["chmod", "-R", "a+rX", str(work)], check=True)
        work.rename(place)
    except (subprocess.CalledProcessError, OSError) as error:
        words = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise Missing(f"{name} could not be fetched into {CACHE}: {words[-1] if words else error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return place


def said(argv, **more):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **more)


def wheels():
    def fetch(work):
        said(["/usr/bin/python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(work), *WHEELS])

    return fetched("wheels", fetch)


def npm():
    def fetch(work):
        project = work / "project"
        project.mkdir()
        wanted = ", ".join(f'"{name}": "{version}"' for name, version in NPM.items())
        (project / "package.json").write_text(f'{{"name": "compared", "version": "1.0.0", "dependencies": {{{wanted}}}}}\n')
        # The user that is measured asks the same registry, or would not find its answers in the cache.
        (project / ".npmrc").write_text("registry=" + said(["npm", "config", "get", "registry"], cwd=project).stdout)
        said(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit-lockfile-registry-resolved=false",
              "--cache", str(work / "cache")], cwd=project)
        shutil.rmtree(project / "node_modules")

    return fetched("npm", fetch)


def crate():
    def fetch(work):
        wanted = "".join(f'{name} = "{version}"\n' for name, version in CRATES.items())
        (work / "Cargo.toml").write_text(f'[package]\nname = "compared"\nversion = "1.0.0"\nedition = "2021"\n\n[dependencies]\n{wanted}')
        (work / "src").mkdir()
        (work / "src/main.rs").write_text('fn main() {\n    println!("{}", serde_json::json!({ "compared": [1, 2, 3] }));\n}\n')
        config = said(["cargo", "vendor"], cwd=work).stdout
        (work / ".cargo").mkdir()
        (work / ".cargo/config.toml").write_text(config)
        # Written again by the cargo that builds it, which may not know the format of the one that fetched.
        (work / "Cargo.lock").unlink()
        said(["/usr/bin/cargo", "generate-lockfile", "--offline"], cwd=work, env={"PATH": "/usr/bin:/bin", "HOME": str(work)})
        for rest in (".package-cache", "registry"):
            shutil.rmtree(work / ".cargo" / rest, ignore_errors=True)

    return fetched("crate", fetch)
