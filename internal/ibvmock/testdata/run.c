/* Executes the requests of queue pairs in order, and waits for peers that do not answer or are not ready. */
#include "mock.h"

/* The time that a receiver asks for with an RNR NAK, in units of 10 us, by the value of min_rnr_timer. */
static const uint32_t rnr_delay[32] = {65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
				       1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

static uint64_t after(uint64_t ns) { return now_ns() + ns / (knobs.speed ? knobs.speed : 1) + 1; }

/* Returns when a request fails that gets no answer, in ns, or 0 for never. */
static uint64_t deadline(const struct qp *q, enum stall why)
{
	if (why == NO_ANSWER)
		return q->attr.timeout ? after((4096ull << q->attr.timeout) * (q->attr.retry_cnt + 1u)) : 0;
	return q->attr.rnr_retry == 7 ? 0 : after(10000ull * rnr_delay[q->peer->attr.min_rnr_timer & 31] * (q->attr.rnr_retry + 1u));
}

void unstall(struct qp *q)
{
	if (q->stall == RUNNING)
		return;
	*q->stalled_at = q->next_stalled;
	if (q->next_stalled)
		q->next_stalled->stalled_at = q->stalled_at;
	if (q->deadline)
		net->timed--;
	q->stall = RUNNING;
	q->deadline = 0;
}

static void stall(struct qp *q, enum stall why)
{
	if (q->stall == why || !q->num) /* its process may have ended just now */
		return;
	unstall(q);
	q->stall = why;
	q->deadline = deadline(q, why);
	q->next_stalled = net->stalled;
	q->stalled_at = &net->stalled;
	if (net->stalled)
		net->stalled->stalled_at = &q->next_stalled;
	net->stalled = q;
	if (q->deadline) {
		net->timed++;
		timer_wake();
	}
}

static enum outcome execute(struct qp *q, struct wqe *w)
{
	if (unlikely(knobs.instant)) {
		complete_send(q, w, IBV_WC_SUCCESS, (uint32_t)w->length);
		return DONE;
	}
	return q->ibv.qp_type == IBV_QPT_UD ? send_datagram(q, w) : transfer(q, w);
}

/* Executes what is in the send queue. The caller holds net->lock. */
void run(struct qp *q)
{
	while (q->executed != q->posted && q->state == IBV_QPS_RTS) {
		switch (execute(q, wqe_at(q, q->executed))) {
		case DONE:
			q->executed++;
			if (unlikely(q->stall != RUNNING))
				unstall(q);
			break;
		case FAILED:
			q->executed++;
			enter_error(q);
			return;
		case STALLED_NO_ANSWER:
			stall(q, NO_ANSWER);
			return;
		case STALLED_NOT_READY:
			stall(q, NOT_READY);
			return;
		}
	}
}

/* Executes the requests that have waited. A request that is executed may let others go on, or remove them. */
void run_stalled(void)
{
	uint64_t round = ++net->rounds;

	for (struct qp *q = net->stalled; q;) {
		if (q->round == round) {
			q = q->next_stalled;
			continue;
		}
		q->round = round;
		run(q);
		q = q->stall != RUNNING ? q->next_stalled : net->stalled;
	}
}

/* Fails the request that has waited too long. */
void expire(struct qp *q)
{
	enum ibv_wc_status status = q->stall == NO_ANSWER ? IBV_WC_RETRY_EXC_ERR : IBV_WC_RNR_RETRY_EXC_ERR;

	unstall(q);
	complete_send(q, wqe_at(q, q->executed), status, 0);
	q->executed++;
	enter_error(q);
}
