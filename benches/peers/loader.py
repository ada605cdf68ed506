"""Reads one epoch of samples in batches of tensors with one of Python's loaders, and prints what that took.

usage: loader.py LOADER WORKERS BATCH SEED RECORD_BYTES FILE...

torch-memmap and torch-pread: PyTorch's DataLoader in full random order over one file of records, from a numpy memmap or
by os.pread. webdataset: tar archives in random order through a buffer of 1000 samples; webdataset-in-order: as they lie.
Every batch is one tensor of RECORD_BYTES a row, made by the collate function that PyTorch has by default, and the consumer
counts its bytes and touches none. The clock starts when the first batch is there, and that batch is not counted: starting
workers is not timed, and what they have read ahead by then is to their credit.
"""

import json
import os
import random
import resource
import sys
import time
import warnings


class Memmap:
    """Samples are views of a mapped file: the one copy is the collate function's."""

    def __init__(self, path, record):
        import numpy

        self.records = numpy.memmap(path, dtype=numpy.uint8, mode="r").reshape(-1, record)

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        import torch

        return torch.from_numpy(self.records[index])


class Pread:
    """Samples are read one by one; the workers inherit the descriptor."""

    def __init__(self, path, record):
        self.file = os.open(path, os.O_RDONLY)
        self.record = record
        self.count = os.fstat(self.file).st_size // record

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import torch

        data = os.pread(self.file, self.record, index * self.record)
        if len(data) != self.record:
            raise EOFError(f"record {index}: {len(data)} bytes")
        return torch.frombuffer(data, dtype=torch.uint8)


def of_records(dataset, workers, batch, seed):
    import torch
    from torch.utils.data import DataLoader

    order = torch.Generator().manual_seed(seed)
    # pin_memory is off: the tensors stay on the host.
    return DataLoader(dataset, batch_size=batch, shuffle=True, generator=order, num_workers=workers)


def tensor_of(sample):
    import torch

    return torch.frombuffer(sample["bin"], dtype=torch.uint8)


def of_archives(files, shuffled, workers, batch, seed):
    import webdataset

    random.seed(seed)
    dataset = webdataset.WebDataset(files, shardshuffle=len(files) if shuffled else False, empty_check=False)
    if shuffled:
        dataset = dataset.shuffle(1000)
    dataset = dataset.map(tensor_of)
    # Batches are made in the workers, as webdataset advises to.
    from torch.utils.data import default_collate

    dataset = dataset.batched(batch, collation_fn=default_collate)
    return webdataset.WebLoader(dataset, batch_size=None, num_workers=workers)


def main():
    name = sys.argv[1]
    workers, batch, seed, record = (int(arg) for arg in sys.argv[2:6])
    files = sys.argv[6:]
    # That a view of a mapped file is not to be written to (nobody writes), and that there are more workers than processors.
    warnings.filterwarnings("ignore", message="The given (NumPy array|buffer) is not writable")
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    import torch

    # As in workers: several threads for one small copy wait for each other longer than it takes.
    torch.set_num_threads(1)
    if name == "torch-memmap":
        loader = of_records(Memmap(files[0], record), workers, batch, seed)
    elif name == "torch-pread":
        loader = of_records(Pread(files[0], record), workers, batch, seed)
    elif name in ("webdataset", "webdataset-in-order"):
        loader = of_archives(files, name == "webdataset", workers, batch, seed)
    else:
        sys.exit(f"unknown loader {name}")
    batches = iter(loader)
    first = next(batches)
    assert tuple(first.shape) == (batch, record), first.shape
    start, spent = time.perf_counter(), time.process_time()
    samples = total = 0
    for tensor in batches:
        samples += len(tensor)
        total += tensor.numel() * tensor.element_size()
    seconds = time.perf_counter() - start
    # Of workers it is not known before they end.
    cpu = None if workers else time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    answer = {"samples": samples, "bytes": total, "seconds": seconds, "cpu_seconds": cpu, "peak": peak}
    answer["all"] = samples + len(first)
    print(json.dumps(answer), flush=True)
    # The end of workers is not part of an epoch.
    os._exit(0)


if __name__ == "__main__":
    main()
