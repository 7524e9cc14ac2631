/*
 * The thread that fails requests without an answer when their time is over. It sleeps while there are none. Requests without a
 * time are looked at now and then: the process that they wait for may have ended.
 */
#include "mock.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void timer_wake(void)
{
	if (__atomic_exchange_n(&net->timers_awake, 1, __ATOMIC_SEQ_CST) == 0)
		syscall(SYS_futex, &net->timers_awake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Expires queue pairs, also those of other processes, which may have ended. It returns false if none of them waits for a time. */
static bool tick(void)
{
	uint64_t now = now_ns();
	bool more = true;

	net_lock();
	run_stalled();
	for (struct qp *q = net->stalled, *next; q; q = next) {
		next = q->next_stalled;
		if (q->deadline && q->deadline <= now) {
			expire(q);
			next = net->stalled; /* others may have been removed */
		}
	}
	if (!net->timed) {
		__atomic_store_n(&net->timers_awake, 0, __ATOMIC_SEQ_CST);
		more = false;
	}
	net_unlock();
	return more;
}

static void *timer(void *unused)
{
	const struct timespec pause = {.tv_nsec = 200000}, look = {.tv_nsec = 50000000};

	(void)unused;
	for (;;) {
		syscall(SYS_futex, &net->timers_awake, FUTEX_WAIT, 0, &look, NULL, 0);
		if (__atomic_load_n(&net->timers_awake, __ATOMIC_SEQ_CST) || __atomic_load_n(&net->stalled, __ATOMIC_RELAXED))
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
