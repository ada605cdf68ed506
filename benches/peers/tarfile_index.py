"""Indexes a tar archive with Python's tarfile: how many files are in it, and the seconds that took."""

import sys
import tarfile
import time

start = time.perf_counter()
with tarfile.open(sys.argv[1], "r:") as archive:
    index = {member.name: (member.offset_data, member.size) for member in archive if member.isreg()}
print(len(index), time.perf_counter() - start)
