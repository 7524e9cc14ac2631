/*
 * The C side of "ibrun bench versus": the same measurements as package bench makes in Go, loop for loop, over any MPI.
 *
 *   peer OP SIZES MS WINDOW ITERATIONS WARMUP
 *
 * SIZES is a comma list of bytes. ITERATIONS 0 adapts the count so that the timed loop of one size takes about MS
 * milliseconds; WARMUP 0 stands for a tenth of the iterations. Rank 0 prints one line per size:
 *
 *   point SIZE ITERATIONS VALUE
 *
 * VALUE is in microseconds, or in 10^6 bytes per second for bw and bibw, or in messages per second for mbw_mr. Every loop
 * here has a counterpart in pt2pt.go, typed.go, collective.go and immediate.go: change both or none.
 */
#define _POSIX_C_SOURCE 200112L /* nanosleep, posix_memalign */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, TAG = 1, ACK_BYTES = 4 };

static int rank, ranks, window;
static size_t size;           /* bytes of one message; for a reduction, of one vector */
static char *sbuf, *rbuf;     /* separate, page aligned, touched */
static MPI_Request *requests; /* 2 * window */
static int *counts, *displs;  /* one entry per rank, for the v forms and reduce_scatter */

static void check(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "peer: %s\n", what);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
}

/* ---- Point to point. Each loop returns the seconds of its last n iterations; the first skip iterations are warm-up. ---- */

static double ping_pong(long skip, long n)
{
	double start = 0;
	for (long i = -skip; i < n; i++) {
		if (i == 0)
			start = MPI_Wtime();
		if (rank == 0) {
			MPI_Send(sbuf, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
			MPI_Recv(rbuf, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(rbuf, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(sbuf, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
		}
	}
	return MPI_Wtime() - start;
}

/* The first half of the ranks sends windows of messages to its partner in the second half, which acknowledges each window. */
static double stream(long skip, long n)
{
	int pairs = ranks / 2;
	double start = 0;
	for (long i = -skip; i < n; i++) {
		if (i == 0)
			start = MPI_Wtime();
		if (rank < pairs) {
			int to = rank + pairs;
			for (int w = 0; w < window; w++)
				MPI_Isend(sbuf, size, MPI_CHAR, to, TAG, MPI_COMM_WORLD, &requests[w]);
			MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
			MPI_Recv(rbuf, ACK_BYTES, MPI_CHAR, to, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			int from = rank - pairs;
			for (int w = 0; w < window; w++)
				MPI_Irecv(rbuf, size, MPI_CHAR, from, TAG, MPI_COMM_WORLD, &requests[w]);
			MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
			MPI_Send(sbuf, ACK_BYTES, MPI_CHAR, from, TAG, MPI_COMM_WORLD);
		}
	}
	return MPI_Wtime() - start;
}

static double both_ways(long skip, long n)
{
	double start = 0;
	int other = 1 - rank;
	for (long i = -skip; i < n; i++) {
		if (i == 0)
			start = MPI_Wtime();
		for (int w = 0; w < window; w++)
			MPI_Irecv(rbuf, size, MPI_CHAR, other, TAG, MPI_COMM_WORLD, &requests[window + w]);
		for (int w = 0; w < window; w++)
			MPI_Isend(sbuf, size, MPI_CHAR, other, TAG, MPI_COMM_WORLD, &requests[w]);
		MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
		MPI_Waitall(window, requests + window, MPI_STATUSES_IGNORE);
	}
	return MPI_Wtime() - start;
}

/* ---- Derived datatypes. The layouts are those of typed.go. ---- */

enum { COLUMNS = 32, DEPTH = 32, BLOCKS = 5 };

static MPI_Datatype type; /* of the message; of one element for struct */
static int elements;      /* of type in a message */

static double typed_ping_pong(long skip, long n)
{
	double start = 0;
	for (long i = -skip; i < n; i++) {
		if (i == 0)
			start = MPI_Wtime();
		if (rank == 0) {
			MPI_Send(sbuf, elements, type, 1, TAG, MPI_COMM_WORLD);
			MPI_Recv(rbuf, elements, type, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(rbuf, elements, type, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(sbuf, elements, type, 0, TAG, MPI_COMM_WORLD);
		}
	}
	return MPI_Wtime() - start;
}

/* A part of the layout of a message in memory. */
struct block {
	size_t offset, length;
};

/* A layout: its datatype, the number of blocks of a message of bytes, where block i of them is, and the bytes of memory. */
struct layout {
	void (*make)(size_t bytes);
	size_t (*blocks)(size_t bytes);
	struct block (*block)(size_t bytes, size_t i);
	size_t (*memory)(size_t bytes);
};

/* vector: the first column of a matrix of doubles with COLUMNS columns. */

static void make_column(size_t bytes)
{
	elements = 1;
	MPI_Type_vector(bytes / sizeof(double), 1, COLUMNS, MPI_DOUBLE, &type);
}

static size_t column_memory(size_t bytes) { return bytes * COLUMNS; }
static size_t words(size_t bytes) { return bytes / sizeof(double); }

static struct block column_block(size_t bytes, size_t i)
{
	(void)bytes;
	return (struct block){i * COLUMNS * sizeof(double), sizeof(double)};
}

/* struct: an array of structs of mixed fields with padding. 32 of the 40 bytes of each are data. */
struct mixed {
	char kind;
	short codes[5];
	double place[2];
	char flag;
	int count;
};

enum { MIXED_DATA = 32 };

static const struct block fields[BLOCKS] = {
	{offsetof(struct mixed, kind), 1},
	{offsetof(struct mixed, codes), 10},
	{offsetof(struct mixed, place), 16},
	{offsetof(struct mixed, flag), 1},
	{offsetof(struct mixed, count), 4},
};

static void make_mixed(size_t bytes)
{
	int lengths[BLOCKS] = {1, 5, 2, 1, 1};
	MPI_Aint displacements[BLOCKS];
	MPI_Datatype types[BLOCKS] = {MPI_CHAR, MPI_SHORT, MPI_DOUBLE, MPI_CHAR, MPI_INT}, fields_only;
	for (int f = 0; f < BLOCKS; f++)
		displacements[f] = fields[f].offset;
	elements = bytes / MIXED_DATA;
	MPI_Type_create_struct(BLOCKS, lengths, displacements, types, &fields_only);
	MPI_Type_create_resized(fields_only, 0, sizeof(struct mixed), &type);
	MPI_Type_free(&fields_only);
}

static size_t mixed_blocks(size_t bytes) { return bytes / MIXED_DATA * BLOCKS; }
static size_t mixed_memory(size_t bytes) { return bytes / MIXED_DATA * sizeof(struct mixed); }

static struct block mixed_block(size_t bytes, size_t i)
{
	struct block field = fields[i % BLOCKS];
	(void)bytes;
	field.offset += i / BLOCKS * sizeof(struct mixed);
	return field;
}

/*
 * subarray: a face of the inside of a three-dimensional array of doubles, normal to the last dimension, in which the array has
 * DEPTH elements inside. One layer around the inside belongs to neighbours.
 */

/* The first dimension of the face: the largest power of two that divides it, and is not longer than the second dimension. */
static size_t face_rows(size_t bytes)
{
	size_t n = words(bytes), rows = 1;
	while (n % (2 * rows) == 0 && 4 * rows * rows <= n)
		rows *= 2;
	return rows;
}

static void make_face(size_t bytes)
{
	int rows = face_rows(bytes), columns = words(bytes) / rows;
	int sizes[] = {rows + 2, columns + 2, DEPTH + 2}, face[] = {rows, columns, 1}, first[] = {1, 1, 1};
	elements = 1;
	MPI_Type_create_subarray(3, sizes, face, first, MPI_ORDER_C, MPI_DOUBLE, &type);
}

static size_t face_memory(size_t bytes)
{
	size_t rows = face_rows(bytes), columns = words(bytes) / rows;
	return (rows + 2) * (columns + 2) * (DEPTH + 2) * sizeof(double);
}

static struct block face_block(size_t bytes, size_t i)
{
	size_t columns = words(bytes) / face_rows(bytes), row = i / columns + 1, column = i % columns + 1;
	return (struct block){((row * (columns + 2) + column) * (DEPTH + 2) + 1) * sizeof(double), sizeof(double)};
}

static const struct layout column = {make_column, words, column_block, column_memory};
static const struct layout mixed = {make_mixed, mixed_blocks, mixed_block, mixed_memory};
static const struct layout face = {make_face, words, face_block, face_memory};

/* What rank from sends in the byte at an offset of its memory. It is never the byte that receive buffers are filled with. */
static unsigned char pattern(int from, size_t offset) { return (offset * 31 + from * 101) % 251; }

enum { UNTOUCHED = 255 };

/* Exchanges one message each way, and ends the job if a byte is wrong, or if one behind a block has changed. */
static void verify(const struct layout *l)
{
	size_t memory = l->memory(size), blocks = l->blocks(size);
	for (size_t i = 0; i < memory; i++)
		sbuf[i] = pattern(rank, i);
	memset(rbuf, UNTOUCHED, memory);
	typed_ping_pong(0, 1);
	for (size_t i = 0; i < blocks; i++) {
		struct block b = l->block(size, i);
		size_t next = i + 1 < blocks ? l->block(size, i + 1).offset : memory;
		for (size_t at = b.offset; at < b.offset + b.length; at++)
			check((unsigned char)rbuf[at] == pattern(1 - rank, at), "data arrived wrong");
		for (size_t at = b.offset + b.length; at < next && at < b.offset + b.length + 8; at++)
			check((unsigned char)rbuf[at] == UNTOUCHED, "a byte outside the datatype has changed");
	}
}

/* ---- Collectives. One call each; root is rank 0. ---- */

#define WORLD MPI_COMM_WORLD
#define FLOATS ((int)(size / sizeof(float)))

static void barrier(void) { MPI_Barrier(WORLD); }
static void bcast(void) { MPI_Bcast(sbuf, size, MPI_CHAR, 0, WORLD); }
static void reduce(void) { MPI_Reduce(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, 0, WORLD); }
static void allreduce(void) { MPI_Allreduce(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, WORLD); }
static void reduce_scatter(void) { MPI_Reduce_scatter(sbuf, rbuf, counts, MPI_FLOAT, MPI_SUM, WORLD); }
static void scan(void) { MPI_Scan(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, WORLD); }
static void exscan(void) { MPI_Exscan(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, WORLD); }
static void gather(void) { MPI_Gather(sbuf, size, MPI_CHAR, rbuf, size, MPI_CHAR, 0, WORLD); }
static void scatter(void) { MPI_Scatter(sbuf, size, MPI_CHAR, rbuf, size, MPI_CHAR, 0, WORLD); }
static void allgather(void) { MPI_Allgather(sbuf, size, MPI_CHAR, rbuf, size, MPI_CHAR, WORLD); }
static void alltoall(void) { MPI_Alltoall(sbuf, size, MPI_CHAR, rbuf, size, MPI_CHAR, WORLD); }
static void gatherv(void) { MPI_Gatherv(sbuf, size, MPI_CHAR, rbuf, counts, displs, MPI_CHAR, 0, WORLD); }
static void scatterv(void) { MPI_Scatterv(sbuf, counts, displs, MPI_CHAR, rbuf, size, MPI_CHAR, 0, WORLD); }
static void allgatherv(void) { MPI_Allgatherv(sbuf, size, MPI_CHAR, rbuf, counts, displs, MPI_CHAR, WORLD); }
static void alltoallv(void) { MPI_Alltoallv(sbuf, counts, displs, MPI_CHAR, rbuf, counts, displs, MPI_CHAR, WORLD); }

/* The immediate forms, which are waited for at once. */

#define WAITED(start) do { MPI_Request q; start; MPI_Wait(&q, MPI_STATUS_IGNORE); } while (0)

static void ibarrier(void) { WAITED(MPI_Ibarrier(WORLD, &q)); }
static void ibcast(void) { WAITED(MPI_Ibcast(sbuf, size, MPI_CHAR, 0, WORLD, &q)); }
static void ireduce(void) { WAITED(MPI_Ireduce(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, 0, WORLD, &q)); }
static void iallreduce(void) { WAITED(MPI_Iallreduce(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, WORLD, &q)); }
static void ireduce_scatter(void) { WAITED(MPI_Ireduce_scatter(sbuf, rbuf, counts, MPI_FLOAT, MPI_SUM, WORLD, &q)); }
static void iscan(void) { WAITED(MPI_Iscan(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, WORLD, &q)); }
static void iexscan(void) { WAITED(MPI_Iexscan(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, WORLD, &q)); }
static void igather(void) { WAITED(MPI_Igather(sbuf, size, MPI_CHAR, rbuf, size, MPI_CHAR, 0, WORLD, &q)); }
static void iscatter(void) { WAITED(MPI_Iscatter(sbuf, size, MPI_CHAR, rbuf, size, MPI_CHAR, 0, WORLD, &q)); }
static void iallgather(void) { WAITED(MPI_Iallgather(sbuf, size, MPI_CHAR, rbuf, size, MPI_CHAR, WORLD, &q)); }
static void ialltoall(void) { WAITED(MPI_Ialltoall(sbuf, size, MPI_CHAR, rbuf, size, MPI_CHAR, WORLD, &q)); }
static void igatherv(void) { WAITED(MPI_Igatherv(sbuf, size, MPI_CHAR, rbuf, counts, displs, MPI_CHAR, 0, WORLD, &q)); }
static void iscatterv(void) { WAITED(MPI_Iscatterv(sbuf, counts, displs, MPI_CHAR, rbuf, size, MPI_CHAR, 0, WORLD, &q)); }
static void iallgatherv(void) { WAITED(MPI_Iallgatherv(sbuf, size, MPI_CHAR, rbuf, counts, displs, MPI_CHAR, WORLD, &q)); }
static void ialltoallv(void) { WAITED(MPI_Ialltoallv(sbuf, counts, displs, MPI_CHAR, rbuf, counts, displs, MPI_CHAR, WORLD, &q)); }

static void (*call)(void);

/* Barriers back to back: nothing stands between two of them, so the clock is read once around all. */
static double back_to_back(long skip, long n)
{
	double start = 0;
	for (long i = -skip; i < n; i++) {
		if (i == 0)
			start = MPI_Wtime();
		call();
	}
	return MPI_Wtime() - start;
}

/* As OSU does: the time of each call by itself, with a barrier after it that is not counted. */
static double call_by_call(long skip, long n)
{
	double sum = 0;
	for (long i = -skip; i < n; i++) {
		double start = MPI_Wtime();
		call();
		double stop = MPI_Wtime();
		if (i >= 0)
			sum += stop - start;
		MPI_Barrier(MPI_COMM_WORLD);
	}
	return sum;
}

/* The seconds of a blocking Allreduce. */
static double allreduce_time(void)
{
	enum { CALLS = 10 };
	double begin = MPI_Wtime();
	for (int i = 0; i < CALLS; i++)
		allreduce();
	return (MPI_Wtime() - begin) / CALLS;
}

/* Iallreduces, with a call of meanwhile before each Wait: the time of both together, or that of the Wait alone. */
static double time_overlap(long skip, long n, int together, void (*meanwhile)(void))
{
	double sum = 0;
	for (long i = -skip; i < n; i++) {
		MPI_Request q;
		double start = MPI_Wtime();
		MPI_Iallreduce(sbuf, rbuf, FLOATS, MPI_FLOAT, MPI_SUM, WORLD, &q);
		meanwhile();
		if (!together)
			start = MPI_Wtime();
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		double stop = MPI_Wtime();
		if (i >= 0)
			sum += stop - start;
		MPI_Barrier(WORLD);
	}
	return sum;
}

static struct timespec pause_time;
static void pause_ranks(void) { nanosleep(&pause_time, NULL); }

/* What is left of an Iallreduce after all ranks have slept for as long as an Allreduce takes. */
static double overlap(long skip, long n)
{
	double blocking = allreduce_time();
	pause_time = (struct timespec){(time_t)blocking, (long)((blocking - (time_t)blocking) * 1e9)};
	return time_overlap(skip, n, 0, pause_ranks);
}

static uint64_t computed;
static long steps; /* of a computation */

/* Does steps, each of which depends on the one before. */
static void compute(void)
{
	for (long i = 0; i < steps; i++) {
		computed = computed * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(computed));
	}
}

/* An Iallreduce together with a computation that alone takes as long as an Allreduce. */
static double overlap_compute(long skip, long n)
{
	enum { CALIBRATION = 1 << 20 };
	double blocking = allreduce_time(), begin = MPI_Wtime();
	steps = CALIBRATION;
	compute();
	steps = (long)(CALIBRATION * blocking / (MPI_Wtime() - begin));
	return time_overlap(skip, n, 1, compute);
}

/* ---- The table of operations ---- */

enum kind { LATENCY, BANDWIDTH, RATE, COLLECTIVE }; /* the first two between exactly two ranks */

static const struct op {
	const char *name;
	enum kind kind;
	double (*loop)(long skip, long n);
	void (*call)(void);
	int sblocks, rblocks; /* buffers hold this many messages; 0 stands for one per rank */
	const struct layout *layout; /* of the message in memory; NULL: contiguous */
} ops[] = {
	{"latency", LATENCY, ping_pong, 0, 1, 1},
	{"bw", BANDWIDTH, stream, 0, 1, 1},
	{"bibw", BANDWIDTH, both_ways, 0, 1, 1},
	{"mbw_mr", RATE, stream, 0, 1, 1},
	{"vector", LATENCY, typed_ping_pong, 0, 1, 1, &column},
	{"struct", LATENCY, typed_ping_pong, 0, 1, 1, &mixed},
	{"subarray", LATENCY, typed_ping_pong, 0, 1, 1, &face},
	{"barrier", COLLECTIVE, back_to_back, barrier, 1, 1},
	{"bcast", COLLECTIVE, call_by_call, bcast, 1, 1},
	{"reduce", COLLECTIVE, call_by_call, reduce, 1, 1},
	{"allreduce", COLLECTIVE, call_by_call, allreduce, 1, 1},
	{"reduce_scatter", COLLECTIVE, call_by_call, reduce_scatter, 1, 1},
	{"scan", COLLECTIVE, call_by_call, scan, 1, 1},
	{"exscan", COLLECTIVE, call_by_call, exscan, 1, 1},
	{"gather", COLLECTIVE, call_by_call, gather, 1, 0},
	{"scatter", COLLECTIVE, call_by_call, scatter, 0, 1},
	{"allgather", COLLECTIVE, call_by_call, allgather, 1, 0},
	{"alltoall", COLLECTIVE, call_by_call, alltoall, 0, 0},
	{"gatherv", COLLECTIVE, call_by_call, gatherv, 1, 0},
	{"scatterv", COLLECTIVE, call_by_call, scatterv, 0, 1},
	{"allgatherv", COLLECTIVE, call_by_call, allgatherv, 1, 0},
	{"alltoallv", COLLECTIVE, call_by_call, alltoallv, 0, 0},
	{"ibarrier", COLLECTIVE, back_to_back, ibarrier, 1, 1},
	{"ibcast", COLLECTIVE, call_by_call, ibcast, 1, 1},
	{"ireduce", COLLECTIVE, call_by_call, ireduce, 1, 1},
	{"iallreduce", COLLECTIVE, call_by_call, iallreduce, 1, 1},
	{"ireduce_scatter", COLLECTIVE, call_by_call, ireduce_scatter, 1, 1},
	{"iscan", COLLECTIVE, call_by_call, iscan, 1, 1},
	{"iexscan", COLLECTIVE, call_by_call, iexscan, 1, 1},
	{"igather", COLLECTIVE, call_by_call, igather, 1, 0},
	{"iscatter", COLLECTIVE, call_by_call, iscatter, 0, 1},
	{"iallgather", COLLECTIVE, call_by_call, iallgather, 1, 0},
	{"ialltoall", COLLECTIVE, call_by_call, ialltoall, 0, 0},
	{"igatherv", COLLECTIVE, call_by_call, igatherv, 1, 0},
	{"iscatterv", COLLECTIVE, call_by_call, iscatterv, 0, 1},
	{"iallgatherv", COLLECTIVE, call_by_call, iallgatherv, 1, 0},
	{"ialltoallv", COLLECTIVE, call_by_call, ialltoallv, 0, 0},
	{"overlap", COLLECTIVE, overlap, iallreduce, 1, 1},
	{"overlap_compute", COLLECTIVE, overlap_compute, iallreduce, 1, 1},
};

static const struct op *find(const char *name)
{
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
		if (strcmp(ops[i].name, name) == 0)
			return &ops[i];
	return NULL;
}

/* ---- Running one point ---- */

/* Rank 0's wall clock decides for all, since all must run the same number of iterations. */
static double timed(const struct op *op, long skip, long n, double *wall)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	double mine = op->loop(skip, n);
	*wall = MPI_Wtime() - start;
	MPI_Bcast(wall, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	return mine;
}

/* Warm-up until 64 MiB in messages of this size, or 1000 turns, have been run, or 40 budgets have passed: it sets up connections,
   and an implementation may be slow until it has used its memory once. */
static void warm_up(const struct op *op, double budget)
{
	double wall, took = 0;
	long left = size > 0 ? (64 << 20) / (long)size : 1000;
	left = left < 1 ? 1 : left > 1000 ? 1000 : left;
	for (long n = 1; left > 0 && took < 40 * budget; n = 2 * n < left ? 2 * n : left) {
		timed(op, 0, n, &wall);
		left -= n;
		took += wall;
	}
}

/* Turns that take about budget seconds, three at least unless one alone takes longer. The runs that find out are warm-up, too;
   the measurement itself is a fresh run, so that a run which was slow by chance is not the one that counts. */
static long adapt(const struct op *op, double budget)
{
	double wall;
	warm_up(op, budget);
	for (long n = 1;;) {
		timed(op, 0, n, &wall);
		double grow = wall > 0 ? budget / wall : 10;
		if (grow <= 1)
			return n;
		if (grow <= 4)
			return n * grow < 3 ? 3 : (long)(n * grow);
		n = (long)(n * (grow < 10 ? grow : 10)) + 1;
	}
}

/* The mean over the ranks whose clock counts: rank 0, the senders, or all. */
static double mean(const struct op *op, double mine)
{
	int clocks = op->kind == COLLECTIVE ? ranks : op->kind == RATE ? ranks / 2 : 1;
	double sum = 0;
	if (rank >= clocks)
		mine = 0;
	MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	return sum / clocks;
}

static double value(const struct op *op, double seconds, long n)
{
	double messages = (double)n * window;
	switch (op->kind) {
	case LATENCY:
		return seconds * 1e6 / (2.0 * n);
	case BANDWIDTH:
		return messages * size * (op->loop == both_ways ? 2 : 1) / 1e6 / seconds;
	case RATE:
		return messages * (ranks / 2) / seconds;
	default:
		return seconds * 1e6 / n;
	}
}

static void layout(const struct op *op)
{
	int floats = op->call == reduce_scatter || op->call == ireduce_scatter;
	int elements = floats ? FLOATS : (int)size;
	for (int r = 0; r < ranks; r++) {
		counts[r] = elements;
		displs[r] = (int)size * r;
		if (floats)
			counts[r] = elements / ranks + (r < elements % ranks);
	}
}

static void point(const struct op *op, double budget, long iterations, long warmup)
{
	double wall;
	if (op->layout)
		verify(op->layout);
	long n = iterations > 0 ? iterations : adapt(op, budget);
	double seconds = mean(op, timed(op, warmup > 0 ? warmup : n / 10, n, &wall));
	if (rank == 0) {
		printf("point %zu %ld %.9g\n", size, n, value(op, seconds, n));
		fflush(stdout);
	}
}

static char *buffer(size_t bytes, int fill)
{
	void *b = NULL;
	check(posix_memalign(&b, PAGE, bytes + PAGE) == 0, "out of memory");
	memset(b, fill, bytes + PAGE);
	return b;
}

static size_t memory_of(const struct op *op, size_t bytes) { return op->layout ? op->layout->memory(bytes) : bytes; }

static size_t largest(const struct op *op, const char *sizes)
{
	size_t max = ACK_BYTES;
	for (const char *s = sizes; *s; s += *s == ',') {
		char *end;
		size_t n = strtoull(s, &end, 10);
		check(end != s && (*end == ',' || *end == 0), "SIZES is a comma list of bytes");
		n = memory_of(op, n);
		if (n > max)
			max = n;
		s = end;
	}
	return max;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc == 2 && strcmp(argv[1], "init") == 0) {
		MPI_Finalize();
		return 0;
	}
	check(argc == 7, "want OP SIZES MS WINDOW ITERATIONS WARMUP");
	const struct op *op = find(argv[1]);
	check(op != NULL, "no such operation");
	size_t max = largest(op, argv[2]);
	window = atoi(argv[4]);
	check(window > 0, "WINDOW is at least 1");
	check(op->kind > BANDWIDTH || ranks == 2, "is measured between 2 ranks");
	check(op->kind != RATE || ranks % 2 == 0, "is measured between pairs of ranks");

	call = op->call;
	sbuf = buffer(max * (op->sblocks ? op->sblocks : ranks), 1);
	rbuf = buffer(max * (op->rblocks ? op->rblocks : ranks), 2);
	requests = calloc(2 * window, sizeof *requests);
	counts = calloc(ranks, sizeof *counts);
	displs = calloc(ranks, sizeof *displs);
	check(requests && counts && displs, "out of memory");

	double budget = atof(argv[3]) / 1e3;
	int settled = 0;
	for (char *s = argv[2]; *s; s += *s == ',') {
		size = strtoull(s, &s, 10);
		layout(op);
		if (op->layout) {
			op->layout->make(size);
			MPI_Type_commit(&type);
		}
		if (!settled++ && atol(argv[5]) == 0)
			adapt(op, 4 * budget); /* the launcher comes to rest meanwhile */
		point(op, budget, atol(argv[5]), atol(argv[6]));
		if (op->layout)
			MPI_Type_free(&type);
	}
	MPI_Finalize();
	return 0;
}
