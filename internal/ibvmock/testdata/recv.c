/* Receive queues: of queue pairs, and shared ones. */
#include "mock.h"

#include <pthread.h>

bool recv_queue_open(struct recv_queue *r, uint32_t size, uint32_t max_sge)
{
	r->size = size;
	r->mask = round_up(size ? size : 1) - 1;
	r->max_sge = max_sge;
	r->stride = (uint32_t)(sizeof(struct recv_wqe) + max_sge * sizeof(struct ibv_sge));
	r->slots = net_alloc(((size_t)r->mask + 1) * r->stride);
	return r->slots;
}

void recv_queue_close(struct recv_queue *r) { net_free(r->slots, ((size_t)r->mask + 1) * r->stride); }

static struct recv_wqe *slot(struct recv_queue *r, uint32_t n)
{
	return (struct recv_wqe *)(r->slots + (size_t)(n & r->mask) * r->stride);
}

/* Returns the next receive without taking it, or NULL. */
struct recv_wqe *recv_queue_peek(struct recv_queue *r) { return r->taken == r->posted ? NULL : slot(r, r->taken); }

static struct recv_queue *queue_of(struct qp *q) { return q->srq ? &q->srq->rq : &q->rq; }

/* Takes the next receive of a queue pair, or returns NULL. The slot stays in use until the completion is polled. */
struct recv_wqe *take_receive(struct qp *q)
{
	struct recv_queue *r = queue_of(q);
	struct recv_wqe *w = recv_queue_peek(r);

	if (!w)
		return NULL;
	r->taken++;
	if (q->srq && q->srq->limit && r->posted - r->taken < q->srq->limit) {
		q->srq->limit = 0;
		raise_srq_event(q->srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	}
	return w;
}

/* Adds the completion of a receive that was taken. wc has everything but the number of the queue pair. */
void complete_receive(struct qp *q, const struct ibv_wc *wc, bool solicited)
{
	struct cqe e = {.wc = *wc, .qp = q, .srq = q->srq, .slots = 1, .solicited = solicited, .receive = true};

	e.wc.qp_num = q->num;
	complete(containerof(q->ibv.recv_cq, struct cq, ibv), &e);
}

/* Completes the receives of a failed queue pair. */
void flush_receives(struct qp *q)
{
	struct recv_wqe *w;

	while (!q->srq && (w = take_receive(q))) {
		struct ibv_wc wc = {.wr_id = w->wr_id, .status = IBV_WC_WR_FLUSH_ERR, .opcode = 0xdead, .vendor_err = 0xf9};
		complete_receive(q, &wc, false);
	}
}

/* Adds receives to a queue. It returns an errno, and then sets bad. */
static int post(struct recv_queue *r, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		*bad = wr;
		if (wr->num_sge < 0 || (uint32_t)wr->num_sge > r->max_sge)
			return EINVAL;
		if (r->posted - __atomic_load_n(&r->freed, __ATOMIC_ACQUIRE) >= r->size)
			return ENOMEM;
		struct recv_wqe *w = slot(r, r->posted);
		w->wr_id = wr->wr_id;
		w->num_sge = (uint32_t)wr->num_sge;
		for (int i = 0; i < wr->num_sge; i++)
			w->sge[i] = wr->sg_list[i];
		r->posted++;
	}
	return 0;
}

int mock_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *q = containerof(qp, struct qp, ibv);

	net_lock();
	int err = enter_data_path(CALL_POST_RECV, qp->context);
	*bad = wr;
	if (!err && q->device->lost)
		err = EIO;
	if (!err && (q->state == IBV_QPS_RESET || q->srq))
		err = EINVAL;
	if (!err)
		err = post(&q->rq, wr, bad);
	if (q->state == IBV_QPS_ERR)
		flush_receives(q);
	else if (unlikely(net->stalled != NULL))
		run_stalled();
	net_unlock();
	return err;
}

int mock_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srq *s = containerof(srq, struct srq, ibv);

	net_lock();
	int err = enter_data_path(CALL_POST_SRQ_RECV, srq->context);
	*bad = wr;
	if (!err && device_of(srq->context)->lost)
		err = EIO;
	if (!err)
		err = post(&s->rq, wr, bad);
	if (unlikely(net->stalled != NULL))
		run_stalled();
	net_unlock();
	return err;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	const struct profile *p = profile_of(device_of(pd->context));
	struct ibv_srq_attr *a = &init->attr;
	int refused = enter_call(CALL_CREATE_SRQ, device_of(pd->context));

	if (!refused)
		refused = device_error(pd->context);
	if (!refused && !p->max_srq)
		refused = EOPNOTSUPP;
	if (!refused && (a->max_wr < 1 || a->max_wr > (uint32_t)p->max_srq_wr || a->max_sge > (uint32_t)p->max_srq_sge))
		refused = EINVAL;
	if (refused)
		return fail(refused);
	if (p->power_of_two)
		a->max_wr = round_up(a->max_wr + 1) - 1;
	net_lock();
	struct srq *s = net_alloc(sizeof *s);
	if (s && !recv_queue_open(&s->rq, a->max_wr, a->max_sge)) {
		net_free(s, sizeof *s);
		s = NULL;
	}
	if (s) {
		s->limit = a->srq_limit;
		s->ibv.context = pd->context;
		s->ibv.srq_context = init->srq_context;
		s->ibv.pd = pd;
		s->ibv.handle = ++net->next_handle;
		pthread_mutex_init(&s->ibv.mutex, NULL);
		pthread_cond_init(&s->ibv.cond, NULL);
		containerof(pd, struct pd, ibv)->users++;
	}
	net_unlock();
	return s ? &s->ibv : fail(ENOMEM);
}

/* Moves the receives into another queue. Polls count the slots that they free meanwhile. */
static int resize(struct recv_queue *r, uint32_t size)
{
	struct recv_queue to;

	if (size < r->posted - __atomic_load_n(&r->freed, __ATOMIC_ACQUIRE) || !recv_queue_open(&to, size, r->max_sge))
		return EINVAL;
	for (uint32_t i = r->taken; i != r->posted; i++)
		memcpy(slot(&to, i), slot(r, i), r->stride);
	recv_queue_close(r);
	r->size = to.size;
	r->mask = to.mask;
	r->slots = to.slots;
	return 0;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *a, int mask)
{
	struct srq *s = containerof(srq, struct srq, ibv);
	const struct profile *p = profile_of(device_of(srq->context));
	int err = enter_call(CALL_MODIFY_SRQ, device_of(srq->context));

	if (err || (err = device_error(srq->context)))
		return err;
	if ((mask & IBV_SRQ_MAX_WR) && !p->resizes_srq)
		return EOPNOTSUPP;
	if ((mask & IBV_SRQ_MAX_WR) && a->max_wr > (uint32_t)p->max_srq_wr)
		return EINVAL;
	if ((mask & IBV_SRQ_LIMIT) && a->srq_limit > s->rq.size)
		return EINVAL;
	net_lock();
	if (mask & IBV_SRQ_MAX_WR)
		err = resize(&s->rq, a->max_wr);
	if (!err && (mask & IBV_SRQ_LIMIT))
		s->limit = a->srq_limit;
	net_unlock();
	return err;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *a)
{
	struct srq *s = containerof(srq, struct srq, ibv);
	int err = enter_call(CALL_QUERY_SRQ, device_of(srq->context));

	if (err || (err = device_error(srq->context)))
		return err;
	net_lock();
	*a = (struct ibv_srq_attr){.max_wr = s->rq.size, .max_sge = s->rq.max_sge, .srq_limit = s->limit};
	net_unlock();
	return 0;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct srq *s = containerof(srq, struct srq, ibv);
	int err = enter_call(CALL_DESTROY_SRQ, device_of(srq->context));

	if (err)
		return err;
	if (s->users)
		return EBUSY;
	net_lock();
	drop_events(containerof(srq->context, struct context, verbs.context), srq);
	net_unlock();
	wait_for_acks(&srq->events_completed, s->async_read);
	err = device_error(srq->context);
	net_lock();
	containerof(srq->pd, struct pd, ibv)->users--;
	recv_queue_close(&s->rq);
	net_free(s, sizeof *s);
	net_unlock();
	return err;
}
