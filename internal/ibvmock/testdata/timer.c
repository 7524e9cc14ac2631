/* The thread that fails requests without an answer when their time is over. It sleeps while there are none. */
#include "mock.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t awake;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void timer_wake(void)
{
	if (__atomic_exchange_n(&awake, 1, __ATOMIC_SEQ_CST) == 0)
		syscall(SYS_futex, &awake, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Expires the queue pairs of this process. It returns false if none of them waits for a time. */
static bool tick(void)
{
	uint64_t now = now_ns();
	bool more = true;

	net_lock();
	run_stalled();
	for (struct qp *q = net->stalled, *next; q; q = next) {
		next = q->next_stalled;
		if (q->pid == self && q->deadline && q->deadline <= now) {
			expire(q);
			next = net->stalled; /* others may have been removed */
		}
	}
	if (!net->timed) {
		__atomic_store_n(&awake, 0, __ATOMIC_SEQ_CST);
		more = false;
	}
	net_unlock();
	return more;
}

static void *timer(void *unused)
{
	const struct timespec pause = {.tv_nsec = 200000};

	(void)unused;
	for (;;) {
		while (!__atomic_load_n(&awake, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, &awake, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
		while (tick())
			nanosleep(&pause, NULL);
	}
	return NULL;
}

/* The thread takes no signals: those belong to the Go runtime. */
void timer_start(void)
{
	sigset_t all, old;
	pthread_t t;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&t, NULL, timer, NULL))
		perror("ibvmock: start the thread for timeouts");
	else
		pthread_detach(t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
