#include "tools/weir/live/watch_snapshot.h"

#include <unistd.h>

#include <weir/weir.h>

#include "base/out.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/tool.h"

bool
watch_snapshot(pid_t pid, const char *path, bool json)
{
	const struct watch_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_SNAPSHOT, json };
	static struct watch_reply reply;
	enum watch_answer answer;
	struct out *file;
	int fd;

	if (!watch_reach(pid, WATCH_SNAPSHOT_MS, &fd))
		return false;
	if (out_open(path, &file) != WEIR_OK) {
		complain("%s", weir_last_error());
		close(fd);
		return false;
	}
	answer = watch_ask(fd, &request, file->fd, &reply);
	close(fd);
	if (answer == WATCH_ENDED)
		complain("process %ld has ended", (long)pid);
	if (answer != WATCH_ANSWERED) {
		out_abandon(file);
		return false;
	}
	if (out_close(file) == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}
