"""Memory on streams from Python, and a snapshot of it.

    python3 streams.py [out.pickle]
    weir top out.pickle
    weir view out.pickle -o page.html

A block belongs to the stream that it was allocated for. When it is freed, that
stream can reuse it at once. If another stream uses the block, record_stream()
records that use, and the block is not reused before that work is done.
"""

import sys

import weir


def load_batch(number):
    return weir.full((256, 1024), number, "float32")


def main(path):
    weir.history_start()
    loader = weir.Stream()
    worker = weir.Stream()
    addresses = set()
    total = 0.0
    for number in range(8):
        with loader:
            batch = load_batch(number)
        addresses.add(batch.address)
        worker.wait_stream(loader)
        with worker:
            copy = batch.to("cpu")
        batch.record_stream(worker)
        del batch  # freed here; the worker may still read it
        worker.synchronize()
        total += copy[0, 0].item()
    print(f"sum: {total:.0f}")
    print(f"one block served them all: {len(addresses) == 1}")
    if path is not None:
        weir.snapshot_write(path)
    try:
        weir.malloc(1 << 50)
    except weir.OutOfMemoryError as error:
        print(f"too much: {type(error).__name__}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
