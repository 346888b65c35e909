/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef SIMCUDA_TUNING_H
#define SIMCUDA_TUNING_H

/* Pages that are looked at for a small allocation. */
enum { ALLOC_PAGES_TRIED = 16 };

/* Retired slots that wait for the host to know their lines' ends. The slot of
 * the oldest is then used again: what follows on it counts as ordered after its
 * old line, which bounds the size of all knowledge by the number of lines that
 * exist, in programs whose host never waits. */
enum { CLOCK_RETIRED = 256 };

/* Processes that share devices, at most: joint.c. The tests have up to eight at
 * a time, and a server has a few dozen. */
enum { JOINT_PROCESSES = 128 };

/* Edges from a written value that are kept, and those that are followed in a
 * row. */
enum {
	CLOCK_EDGES = 64,
	CLOCK_EDGES_IN_A_ROW = 3,
};

/* Microseconds of a pause while another thread must go on. */
enum { GATE_PAUSE_US = 50 };

/* Bytes of a pool's smallest chunk, and free pieces that are tried. */
enum {
	POOL_CHUNK_MIN = 32 << 20,
	POOL_IDLE_TRIED = 32,
};

/* Violations that are kept. */
enum { RACE_VIOLATIONS = 1000 };

/* Uses of a range from which finished ones are forgotten. */
enum { RANGE_USES_MANY = 8 };

/* Queries while a host function is due before time goes on. */
enum { TIME_PATIENCE = 64 };

/* A node of a vector clock has this many parts: wide enough that the trees are
 * flat, narrow enough that two versions share most. */
enum { FAN_BITS = 4, FAN = 1 << FAN_BITS };

/* Accesses are looked up by chunks of memory of 1 << CHUNK_SHIFT bytes. */
enum { CHUNK_SHIFT = 18 };

#endif
