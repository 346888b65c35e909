/*
 * weir in C++: arrays that free themselves, containers in page-locked memory,
 * an allocator, and errors as exceptions.
 *
 *	c++ -std=c++17 -o containers containers.cpp \
 *	    $(pkg-config --cflags --libs weir) -lcudart
 */
#include <cuda_runtime.h>
#include <weir/weir.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

// A column of numbers on the device, as a library would write it: its only
// interface to weir is an allocator.
template <typename Allocator> class column
{
public:
	column(std::size_t n, Allocator allocator)
	    : allocator_(allocator), n_(n), data_(allocator_.allocate(n))
	{
	}
	column(const column &) = delete;
	column &operator=(const column &) = delete;
	~column()
	{
		allocator_.deallocate(data_, n_);
	}

	auto
	data() const
	{
		return data_;
	}

private:
	Allocator allocator_;
	std::size_t n_;
	typename Allocator::pointer data_;
};

int
main()
{
	constexpr std::size_t n = 1 << 20;

	try {
		weir::stream stream = weir::stream::create();
		weir::host_resource pinned;
		std::pmr::vector<int> host(n, &pinned), back(n, &pinned);
		auto array = weir::make_device<int>(n, stream);
		column numbers(n, weir::device_allocator<int>(stream));

		std::iota(host.begin(), host.end(), 0);
		cudaMemcpyAsync(array.get(), host.data(), n * sizeof(int),
		    cudaMemcpyHostToDevice, stream);
		cudaMemcpyAsync(numbers.data(), array.get(), n * sizeof(int),
		    cudaMemcpyDeviceToDevice, stream);
		cudaMemcpyAsync(back.data(), numbers.data(), n * sizeof(int),
		    cudaMemcpyDeviceToHost, stream);
		stream.synchronize();
		std::printf(
		    "the same came back: %s\n", back == host ? "yes" : "no");
		std::printf("page-locked: %s\n",
		    weir_host_is_pinned(host.data()) ? "yes" : "no");

		// An exception leaves no memory behind.
		try {
			auto more = weir::make_device<char>(1 << 20, stream);
			auto all = weir::make_device<char>(
			    std::size_t(1) << 50, stream);
		} catch (const weir::out_of_memory &error) {
			std::printf(
			    "too much: %s\n", weir_status_name(error.status()));
		}
		std::printf("live: %llu MiB\n",
		    (unsigned long long)weir::stats()
			    .allocated_bytes.all.current >>
			20);
	} catch (const std::exception &error) {
		std::fprintf(stderr, "%s\n", error.what());
		return 1;
	}
	std::printf("left: %llu\n",
	    (unsigned long long)weir::stats().allocated_bytes.all.current);
	return 0;
}
