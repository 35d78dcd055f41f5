# An environment with pip, a wheel from this directory in it, removed again.
python3 - <<'PYTHON'
import zipfile
with zipfile.ZipFile("hello-1.0-py3-none-any.whl", "w") as wheel:
    info = "hello-1.0.dist-info/"
    files = {
        "hello/__init__.py": "def main():\n    print('says hello')\n",
        "hello/data/table.txt": "table\n",
        info + "METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "entry_points.txt": "[console_scripts]\nhello = hello:main\n",
    }
    for name, text in files.items():
        wheel.writestr(name, text)
    record = "".join(f"{name},,\n" for name in [*files, info + "RECORD"])
    wheel.writestr(info + "RECORD", record)
PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONHASHSEED=0
python3 -m venv venv
venv/bin/pip install -q --no-index ./hello-1.0-py3-none-any.whl
venv/bin/hello
venv/bin/python -c 'import hello, os; print("in", os.path.dirname(hello.__file__))'
venv/bin/pip list --format=freeze | grep '^hello' | sed 's/^/installed /'
venv/bin/pip check
echo "mode $(stat -c %a venv/bin/hello)"
find venv ! -name '*.pyc' | sort | sha256sum
venv/bin/pip uninstall -q -y hello
echo "left $(find venv -name 'hello*' | wc -l)"
