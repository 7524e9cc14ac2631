/* The segment that the processes of a test share: its lock and its memory. */
#include "mock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The address is free in Go programs, also with the race detector. */
#define SEGMENT ((void *)0x5a0000000000)
#define SEGMENT_BYTES ((size_t)16 << 30)

struct net *net;
pid_t self;

static void first_attach(void)
{
	net->next_qpn = 0x11;
	net->next_bell = 1;
	net->epoch = 1;
	net->next_key = 1;
	net->unused = (char *)net + ((sizeof *net + 4095) & ~(size_t)4095);
}

/* Closes a descriptor after a failed call, and returns -1. It keeps errno. */
static int close_failed(int fd)
{
	int e = errno;

	if (fd >= 0)
		close(fd);
	errno = e;
	return -1;
}

/*
 * Maps the segment: the file "net" in the directory IBVMOCK_DIR if it is set, else memory of this process. It returns 0, or -1
 * and sets errno.
 */
static int attach(void)
{
	const char *dir = getenv("IBVMOCK_DIR");
	int flags = MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd = -1;
	bool first = true;

	if (dir && *dir) {
		char path[4096];
		struct stat st;

		snprintf(path, sizeof path, "%s/net", dir);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX) || fstat(fd, &st))
			return close_failed(fd);
		first = st.st_size == 0;
		if (first && ftruncate(fd, SEGMENT_BYTES))
			return close_failed(fd);
		flags |= MAP_SHARED;
	} else {
		flags |= MAP_PRIVATE | MAP_ANONYMOUS;
	}
	void *p = mmap(SEGMENT, SEGMENT_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		return close_failed(fd);
	net = p;
	self = getpid();
	if (first)
		first_attach();
	if (fd >= 0) {
		flock(fd, LOCK_UN); /* the mapping would keep it after the descriptor is closed */
		close(fd);
	}
	return 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int attach_errno;

static void attach_once(void)
{
	if (attach()) {
		attach_errno = errno ? errno : ENOMEM;
		return;
	}
	control_start();
	timer_start();
}

int net_attach(void)
{
	pthread_once(&once, attach_once);
	errno = attach_errno;
	return attach_errno ? -1 : 0;
}

bool process_exists(pid_t pid) { return !kill(pid, 0) || errno != ESRCH; }

/* A thread that waits for a lock yields so many times, and then sleeps between its polls. */
#define YIELDS 16

/* The lock of a process that was killed is taken over. */
static void wait_for(uint32_t *word, uint32_t mine)
{
	for (unsigned n = 1;; n++) {
		uint32_t owner = __atomic_load_n(word, __ATOMIC_RELAXED);
		if (owner == 0) {
			if (__atomic_compare_exchange_n(word, &owner, mine, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return;
			continue;
		}
		if (n % 64)
			continue;
		if (n < 64 * YIELDS)
			sched_yield();
		else
			nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
		if (n % 8192 == 0 && owner != mine && !process_exists((pid_t)owner))
			__atomic_compare_exchange_n(word, &owner, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	}
}

void spin_lock(uint32_t *word)
{
	uint32_t unlocked = 0;

	if (unlikely(!__atomic_compare_exchange_n(word, &unlocked, (uint32_t)self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
		wait_for(word, (uint32_t)self);
}

void spin_unlock(uint32_t *word) { __atomic_store_n(word, 0, __ATOMIC_RELEASE); }
void net_lock(void) { spin_lock(&net->lock); }
void net_unlock(void) { spin_unlock(&net->lock); }

uint32_t round_up(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static int size_class(size_t n)
{
	int c = 6;

	while (((size_t)1 << c) < n)
		c++;
	return c;
}

/* With -fsanitize=address, memory that was freed may not be used. The sanitizer sees the accesses of one process only. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

/* Returns zeroed memory of the segment. The caller holds net->lock. It returns NULL if the segment is full. */
void *net_alloc(size_t n)
{
	int c = size_class(n);
	void *p = net->free[c];

	if (p) {
		UNPOISON(p, (size_t)1 << c);
		memcpy(&net->free[c], p, sizeof(void *));
		memset(p, 0, (size_t)1 << c);
		return p;
	}
	if (((size_t)1 << c) > (size_t)((char *)SEGMENT + SEGMENT_BYTES - net->unused))
		return NULL;
	p = net->unused;
	net->unused += (size_t)1 << c;
	return p;
}

void net_free(void *p, size_t n)
{
	int c = size_class(n);

	if (!p)
		return;
	memcpy(p, &net->free[c], sizeof(void *));
	net->free[c] = p;
	POISON(p, (size_t)1 << c);
}
