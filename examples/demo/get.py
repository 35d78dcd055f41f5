"""Reads the page at a URL: get.py URL."""

import sys
import urllib.error
import urllib.request

try:
    print(urllib.request.urlopen(sys.argv[1]).readline().decode().strip())
except urllib.error.URLError as error:
    print(error.reason)
