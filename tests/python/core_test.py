"""cuda.core on weir: cuda.core itself where it is there, else a double."""

import gc

import pytest
import support

try:
    try:
        import cuda.core as core
        core.MemoryResource
    except (ImportError, AttributeError):
        import cuda.core.experimental as core
except ImportError:
    support.use_double("cuda")
    import cuda.core as core

import weir
import weir.cuda_core


@pytest.fixture
def device():
    device = core.Device(0)
    device.set_current()
    weir.cuda_core.install(0)
    yield device
    gc.collect()
    assert weir.check() == []


def allocated():
    return weir.stats(0)["allocated_bytes.all.current"]


def test_buffers_are_weirs_blocks_of_their_stream(device):
    before = allocated()
    stream = device.create_stream()
    handle = stream.__cuda_stream__()[1] if callable(
        stream.__cuda_stream__) else stream.__cuda_stream__[1]
    buffer = device.allocate(10_000, stream=stream)
    assert allocated() - before == 10_240
    assert weir.stats(0, handle)["allocated_bytes.all.current"] >= 10_240
    weir.copy(int(buffer.handle), bytes(10_000))
    buffer.close(stream)
    assert allocated() == before


def test_a_buffer_is_freed_on_the_stream_it_is_closed_on(device):
    first, second = device.create_stream(), device.create_stream()
    buffer = device.allocate(1 << 20, stream=first)
    address = int(buffer.handle)
    buffer.close(second)
    again = device.allocate(1 << 20, stream=second)
    assert int(again.handle) == address
    again.close(second)


def test_a_resource_has_its_attributes(device):
    resource = weir.cuda_core.WeirMemoryResource(0)
    assert resource.device_id == 0
    assert resource.is_device_accessible and not resource.is_host_accessible
    assert isinstance(resource, core.MemoryResource)
    with pytest.raises(weir.OutOfMemoryError):
        resource.allocate(1 << 50)
