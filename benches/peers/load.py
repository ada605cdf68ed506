"""Loads safetensors files into host memory with one of Python's loaders, and prints what that took.

usage: load.py LOADER FILE...

Every tensor ends up in memory of this process, which the page cache does not own; but for `safetensors-mmap`, which maps
the files and touches every page of every tensor, and is shown since many people load that way. Imports are not timed.
"""

import json
import os
import resource
import sys
import time


def safetensors_mmap(files):
    from safetensors import safe_open
    import torch

    def load():
        tensors = {}
        total = 0
        for file in files:
            with safe_open(file, framework="pt", device="cpu") as opened:
                for name in opened.keys():
                    tensor = opened.get_tensor(name)
                    tensors[name] = tensor
                    total += tensor.numel() * tensor.element_size()
                    # One byte of each page, so that what is counted was read.
                    tensor.view(torch.uint8).reshape(-1)[::4096].sum()
        return tensors, total

    return load


def safetensors_clone(files):
    from safetensors import safe_open
    import torch  # noqa: F401

    def load():
        tensors = {}
        total = 0
        for file in files:
            with safe_open(file, framework="pt", device="cpu") as opened:
                for name in opened.keys():
                    tensor = opened.get_tensor(name).clone()
                    tensors[name] = tensor
                    total += tensor.numel() * tensor.element_size()
        return tensors, total

    return load


def fastsafetensors(files):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    def load():
        loader = SafeTensorsFileLoader(SingleGroup(), device="cpu", nogds=True)
        loader.add_filenames({0: files})
        buffers = loader.copy_files_to_device()
        tensors = {}
        total = 0
        for name in buffers.key_to_rank_lidx:
            tensor = buffers.get_tensor(name)
            tensors[name] = tensor
            total += tensor.numel() * tensor.element_size()
        return (tensors, buffers, loader), total

    return load


def runai_model_streamer(files):
    from runai_model_streamer import SafetensorsStreamer

    def load():
        tensors = {}
        total = 0
        with SafetensorsStreamer() as streamer:
            streamer.stream_files(files)
            for name, tensor in streamer.get_tensors():
                # Its buffer is used again for what comes next.
                tensors[name] = tensor.clone()
                total += tensor.numel() * tensor.element_size()
        return tensors, total

    return load


LOADERS = {
    "safetensors-mmap": safetensors_mmap,
    "safetensors-clone": safetensors_clone,
    "fastsafetensors": fastsafetensors,
    "runai-model-streamer": runai_model_streamer,
}


def main():
    name, files = sys.argv[1], sys.argv[2:]
    load = LOADERS[name](files)
    start = time.perf_counter()
    kept, total = load()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"bytes": total, "seconds": seconds, "peak": peak}), flush=True)
    # Some loaders' clean-up at exit is not part of a load.
    os._exit(0)


if __name__ == "__main__":
    main()
