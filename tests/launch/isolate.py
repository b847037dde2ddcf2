"""Namespaces of its own for a test that starts daemons or makes networks: they end with it, however it ends."""

import os
import subprocess
import sys

SKIPPED = 77  # SKIP_RETURN_CODE of ctest
MARK = "TESSERA_ISOLATED"


def isolate(*kinds):
    """Starts the program again in new namespaces of these kinds ("net", "uts", ...) and one of processes, whose init
    reaps and with which all ends. False where that is not allowed; True inside."""
    if os.environ.get(MARK):
        return True
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *("--" + kind for kind in kinds)]
    try:
        subprocess.run([*words, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    os.environ[MARK] = "1"
    os.execvp(words[0], [*words, "sh", "-c", '"$@"; exit $?', "sh", sys.executable, *sys.argv])


def skip(reason):
    print(f"NOT RUN: {reason}")
    sys.exit(SKIPPED)
