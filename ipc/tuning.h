/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef IPC_TUNING_H
#define IPC_TUNING_H

/* Peers that are served at once, and those of them that hold nothing. */
enum {
	ANSWER_PEERS = 256,
	ANSWER_GUESTS = 32,
};

/* Milliseconds that a newcomer leaves a peer that holds nothing, and until the
 * next try when the system has no more descriptors. */
enum {
	ANSWER_GRACE_MS = 100,
	ANSWER_REST_MS = 100,
};

/* Connections that wait to be accepted. */
enum { ANSWER_WAITING = 64 };

/* Seconds that the end of the process waits for its answering thread. */
enum { ANSWER_END_S = 5 };

/* Descriptors in one message; the system allows 253. */
enum { IPC_BATCH = 64 };

/* Milliseconds that a peer may take for one answer, and for all answers that
 * opening needs. */
enum {
	IPC_PATIENCE_MS = 10 * 1000,
	IPC_OPEN_MS = 30 * 1000,
};

/* Records of a process, and physical allocations of a part. */
enum {
	IPC_RECORDS = 1 << 16,
	IPC_PIECES_MAX = 1 << 16,
};

/* Descriptors of one of PyTorch's handles. */
enum { TORCH_FDS_MAX = 4096 };

#endif
