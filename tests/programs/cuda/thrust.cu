// Thrust's vectors and algorithms over weir's allocator. A GPU runs it.
#include <cstdio>

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <weir/weir.hpp>

int
main()
{
	using allocator =
	    weir::device_allocator<int, thrust::device_ptr<int>>;
	weir::stream stream = weir::stream::create();
	weir::device_allocator<char> bytes(stream);
	auto policy = thrust::cuda::par_nosync(bytes).on(stream);
	allocator on(stream);

	{
		thrust::device_vector<int, allocator> values(1 << 20, 0, on);

		stream.wait(nullptr);
		thrust::sequence(policy, values.rbegin(), values.rend());
		thrust::sort(policy, values.begin(), values.end());
		std::printf("first: %d\n", (int)values[0]);
		std::printf("sum: %lld\n",
		    thrust::reduce(policy, values.begin(), values.end(), 0LL));
		std::printf("live: %d\n",
		    weir::stats().allocated_bytes.all.current >= 4 << 20);
	}
	stream.synchronize();
	std::printf("left: %llu\n",
	    (unsigned long long)weir::stats().allocated_bytes.all.current);
	return 0;
}
