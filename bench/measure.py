#!/usr/bin/env python3
"""What a program took: measure.py PATTERN OUTPUT COMMAND...
measure.py --touch GIB

Runs COMMAND, keeps what it prints in the file OUTPUT, and prints two numbers: seconds from its start to the first line that
matches PATTERN, and its peak resident memory in MiB (wait4). Ends with the command's exit status; 124 if it took longer
than $LIMIT seconds or was stopped, and nothing of it is left running then.

--touch writes to so much memory once and gives it back: whoever runs next does not pay for pages that the host had taken
away. Less where there is less.
"""
import mmap
import os
import re
import signal
import subprocess
import sys
import time


def touch(wanted_gib):
    with open("/proc/meminfo") as lines:
        free_kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    count = min(int(wanted_gib * 2**30), int(free_kib * 1024 * 0.85)) // 2**21 * 2**21
    with mmap.mmap(-1, count) as memory:
        for at in range(0, count, mmap.PAGESIZE):
            memory[at] = 1
    print(f"touched and freed {count / 2**30:.1f} GiB")


def measure(pattern, output, command):
    first = float("nan")
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    late = []

    def stop(*_):
        late.append(True)
        os.killpg(child.pid, signal.SIGKILL)

    for reason in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
        signal.signal(reason, stop)
    signal.alarm(int(os.environ.get("LIMIT", "3600")))
    with open(output, "w") as kept:
        for line in child.stdout:
            kept.write(line)
            if first != first and re.search(pattern, line):
                first = time.monotonic() - start
    _, code, used = os.wait4(child.pid, 0)
    signal.alarm(0)
    child.returncode = os.waitstatus_to_exitcode(code)
    print(f"{first:.3f} {used.ru_maxrss / 1024:.1f}")
    return 124 if late else 1 if child.returncode < 0 else child.returncode


if __name__ == "__main__":
    if sys.argv[1] == "--touch":
        touch(float(sys.argv[2]))
    else:
        sys.exit(measure(sys.argv[1], sys.argv[2], sys.argv[3:]))
