/*
 * The thread that answers watchers, at its socket: messages of arbitrary bytes,
 * with descriptors that are no file, and connections that end at any moment. It
 * answers the next client correctly.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "trace/meeting.h"
#include "trace/watch.h"

static int
come(void)
{
	int folder;
	int fd = -1;

	for (unsigned i = 0; i < MEETING_FOLDERS && fd < 0; i++) {
		if (meeting_folder(i, false, &folder) != WEIR_OK)
			continue;
		if (meeting_connect(folder, getpid(), 5000, &fd) != WEIR_OK)
			fd = -1;
		close(folder);
	}
	fuzz_expect(fd >= 0, "nobody answers");
	return fd;
}

static void
say(int fd, const void *bytes, size_t size, int file)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct iovec part = { (void *)bytes, size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	const int files[2] = { file, file };

	if (file >= 0) {
		message.msg_control = control.room;
		message.msg_controllen = sizeof(control.room);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(files));
		memcpy(CMSG_DATA(&control.header), files, sizeof(files));
	}
	if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		return;
}

static void
expect_answer(void)
{
	const struct watch_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_STATS, 0 };
	static struct watch_reply reply;
	int fd = come();

	say(fd, &request, sizeof(request), -1);
	ssize_t n;

	do
		n = recv(fd, &reply, sizeof(reply), 0);
	while (n < 0 && errno == EINTR);
	/* There may be too many connections by now, which it reports. */
	fuzz_expect(n > 0, "no answer");
	close(fd);
}

static void
begin(void)
{
	static char folder[] = "/tmp/weir-fuzz-XXXXXX";
	static bool begun;

	if (begun)
		return;
	fuzz_expect(mkdtemp(folder) != NULL, "mkdtemp");
	setenv("XDG_RUNTIME_DIR", folder, 1);
	setenv("WEIR_CONF", "watch:True", 1);
	fuzz_device();
	fuzz_expect(weir_free(weir_malloc(1000, NULL)) == WEIR_OK, "memory");
	begun = true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };
	static unsigned rounds;
	int fd;

	begin();
	fd = come();
	while (fuzz_more(&steps)) {
		unsigned how = fuzz_byte(&steps);
		size_t n = (size_t)(steps.end - steps.at);

		if (n > how % 64)
			n = how % 64;
		say(fd, steps.at, n, how & 0x80 ? STDIN_FILENO : -1);
		steps.at += n;
	}
	close(fd);
	if (++rounds % 16 == 0)
		expect_answer();
	return 0;
}
