/*
 * Groups: processes that share the memory of a device by a ledger.
 */
#include "allocator/share/member.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/account/totals.h"
#include "tests/support/device.h"
#include "tests/support/peers.h"

TEST(a_lease_covers_what_is_held_and_is_given_back)
{
	share_device();
	join_with("group_limit_mb:64");
	void *ptr = take(20 * MIB, NULL);
	EXPECT_GE(own_lease(), 20 * MIB);
	EXPECT_EQ(own_lease(), stats().reserved_bytes.all.current);
	EXPECT_NO_MEMORY(weir_malloc(60 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_EQ(own_lease(), stats().reserved_bytes.all.current);
	give(ptr);
	EXPECT_OK(weir_trim(0, 0, NULL));
	EXPECT_EQ(own_lease(), stats().reserved_bytes.all.current);
	EXPECT_EQ(own_lease(), 0);
	EXPECT_NULL(ledger_fault(ledger_here()->ledger));
	expect_healthy();
	drop_device();
}

TEST(members_together_have_no_more_than_the_limit)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64");
	EXPECT(tell_peer(&peer, "take", 0, 40));
	join_with("");
	EXPECT_NO_MEMORY(weir_malloc(30 * MIB, NULL), WEIR_ENOMEM);
	void *ptr = take(20 * MIB, NULL);
	EXPECT(!tell_peer(&peer, "take", 1, 10));
	EXPECT_EQ(ledger_charged(ledger_here()->ledger), 60 * MIB);
	give(ptr);
	EXPECT_OK(weir_trim(0, 0, NULL));
	EXPECT(tell_peer(&peer, "take", 1, 20));
	kill_peer(&peer);
	drop_device();
}

TEST(the_lease_of_a_member_that_is_killed_comes_back)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64");
	EXPECT(tell_peer(&peer, "take", 0, 60));
	join_with("");
	EXPECT_NO_MEMORY(weir_malloc(30 * MIB, NULL), WEIR_ENOMEM);
	kill_peer(&peer);
	take(60 * MIB, NULL);
	EXPECT_NULL(ledger_fault(ledger_here()->ledger));
	drop_device();
}

TEST(a_guarantee_is_kept_free_for_its_member)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64,group_guarantee_mb:32");
	EXPECT(tell_peer(&peer, "take", 0, 2));
	join_with("");
	EXPECT_NO_MEMORY(weir_malloc(40 * MIB, NULL), WEIR_ENOMEM);
	take(32 * MIB, NULL);
	EXPECT(tell_peer(&peer, "take", 1, 30));
	EXPECT(!tell_peer(&peer, "take", 2, 2));
	kill_peer(&peer);
	drop_device();
}

TEST(guarantees_beyond_the_limit_are_refused)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64,group_guarantee_mb:40");
	EXPECT(tell_peer(&peer, "take", 0, 2));
	join_with("group_guarantee_mb:40");
	take(2 * MIB, NULL);
	struct ledger_file *file = ledger_here();
	EXPECT_EQ(atomic_load(&file->ledger->slots[file->slot].guarantee), 0);
	EXPECT_NULL(ledger_fault(file->ledger));
	kill_peer(&peer);
	drop_device();
}

TEST(a_limit_is_not_lowered_below_what_members_have)
{
	share_device();
	join_with("group_limit_mb:64,group_guarantee_mb:8");
	take(20 * MIB, NULL);
	struct ledger_file *file = ledger_here();
	int setter = ledger_lock_setter(file);
	EXPECT_GE(setter, 0);
	EXPECT_EQ(ledger_set_limit(file, 16 * MIB), WEIR_ENOMEM);
	EXPECT_EQ(atomic_load(&file->ledger->limit), 64 * MIB);
	EXPECT_OK(ledger_set_limit(file, 20 * MIB));
	EXPECT_NO_MEMORY(weir_malloc(4 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_EQ(ledger_set_guarantee(file, (unsigned)file->slot, 21 * MIB),
	    WEIR_ENOMEM);
	EXPECT_OK(ledger_set_limit(file, 128 * MIB));
	close(setter);
	take(80 * MIB, NULL);
	EXPECT_NULL(ledger_fault(file->ledger));
	drop_device();
}

/* ---- Ledgers that cannot be used ---------------------------------------- */

static void
name_ledger(char *path, size_t size)
{
	char command[256];
	FILE *out;

	snprintf(command, sizeof(command), "ls %s/*.ledger", peers_folder);
	out = popen(command, "r");
	EXPECT_NOT_NULL(out);
	EXPECT_NOT_NULL(fgets(path, (int)size, out));
	path[strcspn(path, "\n")] = '\0';
	pclose(out);
}

TEST(a_ledger_that_is_removed_ends_the_group_and_not_the_program)
{
	char path[256];

	share_device();
	join_with("group_limit_mb:32");
	take(20 * MIB, NULL);
	EXPECT_NO_MEMORY(weir_malloc(20 * MIB, NULL), WEIR_ENOMEM);
	name_ledger(path, sizeof(path));
	EXPECT_EQ(unlink(path), 0);
	take(20 * MIB, NULL);
	EXPECT_NULL(member_file(0));
	drop_device();
}

TEST(a_ledger_that_is_cut_off_ends_the_group_and_not_the_program)
{
	char path[256];

	share_device();
	join_with("group_limit_mb:32");
	take(20 * MIB, NULL);
	name_ledger(path, sizeof(path));
	EXPECT_EQ(truncate(path, 0), 0);
	take(20 * MIB, NULL);
	EXPECT_NULL(member_file(0));
	drop_device();
}

TEST(a_ledger_with_impossible_values_ends_the_group_and_not_the_program)
{
	share_device();
	join_with("group_limit_mb:32");
	take(4 * MIB, NULL);
	struct ledger *ledger = ledger_here()->ledger;
	atomic_store(&ledger->slots[9].lease, UINT64_MAX - 5);
	take(40 * MIB, NULL);
	EXPECT_NULL(member_file(0));
	drop_device();
}

TEST(a_file_of_others_or_of_another_kind_is_no_ledger)
{
	char path[256];

	share_device();
	join_with("group_limit_mb:32");
	take(4 * MIB, NULL);
	name_ledger(path, sizeof(path));
	struct ledger_folder opened;
	struct ledger_device device = { .total_bytes = 256 * MIB };
	struct ledger_file file;
	memcpy(device.uuid, ledger_here()->ledger->uuid, LEDGER_UUID);
	EXPECT_OK(ledger_folder_open(peers_folder, false, &opened));
	EXPECT_OK(ledger_file_open(&opened, "g", &device, 0, &file));
	ledger_file_close(&file);
	EXPECT_EQ(chmod(path, 0644), 0);
	EXPECT_EQ(
	    ledger_file_open(&opened, "g", &device, 0, &file), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "others may use it");
	EXPECT_EQ(chmod(path, 0600), 0);
	device.total_bytes++;
	EXPECT_EQ(
	    ledger_file_open(&opened, "g", &device, 0, &file), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "another group or device");
	device.total_bytes--;
	EXPECT_EQ(unlink(path), 0);
	EXPECT_EQ(mkfifo(path, 0600), 0);
	EXPECT_EQ(
	    ledger_file_open(&opened, "g", &device, 0, &file), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "no plain file");
	close(opened.fd);
	drop_device();
}

TEST(a_folder_that_others_may_write_to_is_refused_unless_it_is_for_several)
{
	struct ledger_folder opened;

	share_device();
	EXPECT_EQ(chmod(peers_folder, 0777), 0);
	EXPECT_EQ(ledger_folder_open(peers_folder, true, &opened), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "no sticky bit");
	EXPECT_EQ(chmod(peers_folder, 01777), 0);
	EXPECT_OK(ledger_folder_open(peers_folder, true, &opened));
	EXPECT(opened.several);
	close(opened.fd);
	EXPECT_EQ(chmod(peers_folder, 0755), 0);
	EXPECT_OK(ledger_folder_open(peers_folder, true, &opened));
	EXPECT(!opened.several);
	close(opened.fd);
	drop_device();
}

TEST(a_full_ledger_leaves_the_next_process_to_its_own_limit)
{
	struct ledger_folder opened;
	struct ledger_device device = { .total_bytes = 256 * MIB };
	struct ledger_file files[LEDGER_MEMBERS];

	share_device();
	join_with("group_limit_mb:16");
	EXPECT_OK(ledger_folder_open(peers_folder, false, &opened));
	strcpy((char *)device.uuid, "simcuda");
	for (int i = 0; i < LEDGER_MEMBERS; i++) {
		EXPECT_OK(ledger_file_open(
		    &opened, "g", &device, 16 * MIB, &files[i]));
		EXPECT_OK(ledger_join(&files[i]));
		EXPECT_EQ(files[i].slot, i);
	}
	take(40 * MIB, NULL);
	EXPECT_NULL(member_file(0));
	close(opened.fd);
	drop_device();
}

TEST(a_bad_name_is_refused_and_the_program_goes_on)
{
	share_device();
	setenv("WEIR_CONF", "group:a/b", 1);
	options_forget();
	take(4 * MIB, NULL);
	EXPECT_NULL(member_file(0));
	drop_device();
}

/* ---- Forks -------------------------------------------------------------- */

TEST(a_forked_child_is_no_member_and_does_not_keep_the_slot)
{
	struct ledger_file *file;
	int ends[2];
	char byte;
	pid_t pid;
	int status;

	share_device();
	EXPECT_EQ(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		join_with("group_limit_mb:64");
		take(60 * MIB, NULL);
		if (fork() == 0) {
			EXPECT_NULL(member_file(0));
			EXPECT_EQ(write(ends[1], "x", 1), 1);
			sleep(TEST_DEFAULT_SECONDS);
		}
		_exit(0);
	}
	EXPECT_EQ(read(ends[0], &byte, 1), 1);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	join_with("");
	take(60 * MIB, NULL);
	file = ledger_here();
	EXPECT_EQ(file->slot, 0);
	drop_device();
}

TEST(a_program_that_closes_all_descriptors_stays_a_member)
{
	struct peer peer;

	share_device();
	peer = new_peer("");
	join_with("group_limit_mb:64");
	take(40 * MIB, NULL);
	for (int fd = fileno(peer.to); fd < 1024; fd++)
		if (fd != fileno(peer.to) && fd != fileno(peer.from))
			close(fd);
	EXPECT(tell_peer(&peer, "take", 0, 10));
	EXPECT(tell_peer(&peer, "take", 1, 10));
	EXPECT(!tell_peer(&peer, "take", 2, 10));
	kill_peer(&peer);
	drop_device();
}
