/*
 * Processes that share a simulated device, and are members of a group.
 */
#ifndef TESTS_SUPPORT_PEERS_H
#define TESTS_SUPPORT_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "allocator/share/member.h"

/* The folder of the ledgers, and the file of the shared device. */
extern char peers_folder[64];
extern char peers_device[64];

/* Make a device of 256 MiB that processes share, and a folder for ledgers; the
 * test is skipped on a GPU. Remove both again. */
void share_device(void);
void drop_device(void);

/* Be a member of group g, with further options, from the first allocation
 * on. */
void join_with(const char *more);

/* The ledger of this process, which must be a member; and its lease. */
struct ledger_file *ledger_here(void);
uint64_t own_lease(void);

/* A member in another process. It does what it is told, a line at a time. */
struct peer {
	pid_t pid;
	FILE *to;
	FILE *from;
};

/* As a process under `weir run --may-sleep`, which holds its launches. Of a
 * member, or of this process: then launch_held() comes before each launch. */
void hold_launches(void);
void launch_held(void);

/* Start one, before this process calls the driver. */
struct peer new_peer(const char *options);

/* Tell it to "take" a block i of so many MiB, to "give" it back, or to "trim";
 * to "fill" block i with bytes that depend on i and their place, or to "test"
 * that these are its bytes, both as launches of a program under `weir run
 * --may-sleep`; to say whether it "slept"; to "sleep" or "wake" by its own
 * will; to "begin" or "end" a capture; to keep a stream "busy" for so many
 * milliseconds; to "train": then its default stream always has work, of so many
 * milliseconds each, between which the program takes and gives memory; to
 * "explain" its latest error on stderr. False if it could not. "quit" ends it,
 * which has no answer. */
bool tell_peer(struct peer *peer, const char *word, unsigned i, size_t mib);

/* Tell it so, and wait for no answer; wait for it. */
void tell_peer_only(struct peer *peer, const char *word, unsigned i, size_t n);
bool await_peer(struct peer *peer);

void kill_peer(struct peer *peer);

#endif
