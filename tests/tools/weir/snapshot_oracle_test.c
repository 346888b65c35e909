/*
 * An independent reader in Python gets the same sums.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

TEST(python_counts_the_same_as_weir)
{
	static const char *const names[] = { "train0.pickle", "train1.pickle",
		"train2.pickle", "train3.pickle", "train4.pickle",
		"train5.pickle", "train.json", "segments.pickle",
		"broken.pickle" };
	char *weir = test_build("bin/weir");
	char *script = test_data("../tools/weir/snapshot_oracle.py");
	const char *argv[13] = { "python3", script, weir };

	const char *const asked[] = { "sh", "-c", "command -v python3", NULL };
	struct command_result result = command_run(asked);

	if (result.status != 0)
		SKIP("there is no python3");
	command_free(&result);
	if (access(script, R_OK) != 0)
		SKIP("the sources are not here");
	for (int i = 0; i < 9; i++)
		argv[3 + i] = snapshot_data(names[i]);
	result = command_run(argv);
	if (result.status != 0)
		FAIL("%s%s", result.out, result.err);
	EXPECT_STR_HAS(result.out,
	    "train4.pickle: 7 segments, 118 events, 0 differences\n");
	EXPECT_STR_HAS(result.out, "train.json: 7 segments");
	command_free(&result);
	free(script);
	free(weir);
}
