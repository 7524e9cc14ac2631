/* Queue pairs: creation, states, destruction. */
#include "mock.h"

#include <pthread.h>

static struct qp **bucket(uint32_t num) { return &net->buckets[num % QP_BUCKETS]; }

struct qp *find_qp(uint32_t num)
{
	struct qp *q = *bucket(num);

	while (q && q->num != num)
		q = q->next_in_bucket;
	return q;
}

static uint32_t new_number(void)
{
	do
		net->next_qpn = (net->next_qpn + 1) & 0xffffff;
	while (net->next_qpn < 0x11 || net->next_qpn == MULTICAST_QPN || find_qp(net->next_qpn));
	return net->next_qpn;
}

/* Returns the errno with which the driver refuses a queue pair, or 0. It changes the sizes to those that it grants. */
static int check_init(const struct profile *p, struct ibv_qp_init_attr *a)
{
	struct ibv_qp_cap *c = &a->cap;
	uint32_t most = a->qp_type == IBV_QPT_UD ? p->max_inline_ud : p->max_inline;

	if (a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC && a->qp_type != IBV_QPT_UD)
		return EINVAL;
	if (a->qp_type == IBV_QPT_UC && !p->has_uc)
		return EOPNOTSUPP;
	if (c->max_send_wr > (uint32_t)p->max_qp_wr || c->max_recv_wr > (uint32_t)p->max_qp_wr || c->max_send_sge > (uint32_t)p->max_sge ||
	    c->max_recv_sge > (uint32_t)p->max_sge || !a->send_cq || !a->recv_cq)
		return EINVAL;
	if (c->max_inline_data > most) {
		if (p->inline_policy == INLINE_REFUSED || c->max_inline_data > 1 << 16)
			return EINVAL;
		c->max_inline_data = most;
	}
	if (a->srq)
		c->max_recv_wr = c->max_recv_sge = 0;
	if (p->power_of_two) {
		c->max_send_wr = c->max_send_wr ? round_up(c->max_send_wr) : 0;
		c->max_recv_wr = c->max_recv_wr ? round_up(c->max_recv_wr) : 0;
	}
	return 0;
}

static bool open_queues(struct qp *q)
{
	size_t list = q->cap.max_send_sge * sizeof(struct ibv_sge);

	if (list < q->cap.max_inline_data)
		list = q->cap.max_inline_data;
	q->sq_size = q->cap.max_send_wr;
	q->sq_mask = round_up(q->sq_size ? q->sq_size : 1) - 1;
	q->sq_stride = (uint32_t)((sizeof(struct wqe) + list + 63) & ~(size_t)63);
	q->sq = net_alloc(((size_t)q->sq_mask + 1) * q->sq_stride);
	if (!q->sq)
		return false;
	if (q->srq || recv_queue_open(&q->rq, q->cap.max_recv_wr, q->cap.max_recv_sge))
		return true;
	net_free(q->sq, ((size_t)q->sq_mask + 1) * q->sq_stride);
	return false;
}

static void use_parts(struct qp *q, int n)
{
	containerof(q->ibv.pd, struct pd, ibv)->users += n;
	containerof(q->ibv.send_cq, struct cq, ibv)->users += n;
	containerof(q->ibv.recv_cq, struct cq, ibv)->users += n;
	if (q->srq)
		q->srq->users += n;
}

static struct qp *new_qp(struct ibv_pd *pd, const struct ibv_qp_init_attr *a)
{
	struct qp *q = net_alloc(sizeof *q);

	if (!q)
		return NULL;
	q->device = device_of(pd->context);
	q->pid = self;
	q->cap = a->cap;
	q->signal_all = a->sq_sig_all;
	q->srq = a->srq ? containerof(a->srq, struct srq, ibv) : NULL;
	q->ibv.context = pd->context;
	q->ibv.qp_context = a->qp_context;
	q->ibv.pd = pd;
	q->ibv.send_cq = a->send_cq;
	q->ibv.recv_cq = a->recv_cq;
	q->ibv.srq = a->srq;
	q->ibv.qp_type = a->qp_type;
	q->ibv.handle = ++net->next_handle;
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	if (!open_queues(q)) {
		net_free(q, sizeof *q);
		return NULL;
	}
	q->num = q->ibv.qp_num = new_number();
	q->next_in_bucket = *bucket(q->num);
	*bucket(q->num) = q;
	use_parts(q, 1);
	net->epoch++;
	return q;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	int refused = enter_call(CALL_CREATE_QP, device_of(pd->context));

	if (refused || (refused = device_error(pd->context)) || (refused = check_init(profile_of(device_of(pd->context)), a)))
		return fail(refused);
	net_lock();
	struct qp *q = new_qp(pd, a);
	net_unlock();
	return q ? &q->ibv : fail(ENOMEM);
}

/* Removes a queue pair from the network. The caller holds net->lock. */
static void disconnect(struct qp *q)
{
	struct qp **p = bucket(q->num);

	while (*p && *p != q)
		p = &(*p)->next_in_bucket;
	if (*p)
		*p = q->next_in_bucket;
	unstall(q);
	q->num = 0;
	net->epoch++;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct qp *q = containerof(qp, struct qp, ibv);
	int refused = enter_call(CALL_DESTROY_QP, device_of(qp->context));

	if (refused)
		return refused;
	if (q->group_count)
		return EBUSY;
	refused = device_error(qp->context);
	net_lock();
	drop_events(containerof(qp->context, struct context, verbs.context), qp);
	disconnect(q);
	remove_completions(containerof(qp->send_cq, struct cq, ibv), q);
	remove_completions(containerof(qp->recv_cq, struct cq, ibv), q);
	use_parts(q, -1);
	if (net->stalled)
		run_stalled(); /* the time of a peer begins that has waited for a receive */
	for (uint32_t i = 0; i < net->next_key; i++)
		if (net->keys[i].kind == KEY_WINDOW && net->keys[i].bound_to == q)
			net->keys[i].bound_to = NULL, net->keys[i].length = 0;
	net_unlock();
	wait_for_acks(&qp->events_completed, q->async_read);
	net_lock();
	net_free(q->sq, ((size_t)q->sq_mask + 1) * q->sq_stride);
	if (!q->srq)
		recv_queue_close(&q->rq);
	net_free(q, sizeof *q);
	net_unlock();
	return refused;
}

/* Removes the queue pairs of a process that has ended, and lets their peers run into their timeouts. */
void reap(pid_t pid)
{
	for (int i = 0; i < QP_BUCKETS; i++)
		for (struct qp *q = net->buckets[i], *next; q; q = next) {
			next = q->next_in_bucket;
			if (q->pid == pid)
				disconnect(q);
		}
}

/* Brings a queue pair to the error state, where its requests are flushed. The caller holds net->lock. */
void enter_error(struct qp *q)
{
	bool first = q->state != IBV_QPS_ERR;

	q->state = IBV_QPS_ERR;
	if (first)
		net->epoch++;
	unstall(q);
	flush_sends(q);
	flush_receives(q);
	if (first && q->srq) {
		struct cqe e = {.qp = q, .last_wqe = true, .wc.qp_num = q->num};
		complete(containerof(q->ibv.recv_cq, struct cq, ibv), &e);
	}
}

static void reset(struct qp *q)
{
	struct recv_queue *r = &q->rq;

	unstall(q);
	remove_completions(containerof(q->ibv.send_cq, struct cq, ibv), q);
	remove_completions(containerof(q->ibv.recv_cq, struct cq, ibv), q);
	q->posted = q->executed = q->completed = q->sq_freed = 0;
	r->posted = r->taken = r->freed = 0;
	q->state = IBV_QPS_RESET;
	q->established = false;
	memset(&q->attr, 0, sizeof q->attr);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	struct qp *q = containerof(qp, struct qp, ibv);
	int err = enter_call(CALL_MODIFY_QP, device_of(qp->context));

	record_modify(a, mask);
	if (err || (err = device_error(qp->context)))
		return err;
	net_lock();
	enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : q->state;
	err = check_modify(q, a, mask, to);
	if (!err) {
		store_attributes(q, a, mask);
		if (to == IBV_QPS_RESET) {
			reset(q);
		} else if (to == IBV_QPS_ERR) {
			enter_error(q);
		} else {
			if (q->state == IBV_QPS_RTS && to == IBV_QPS_SQD && a->en_sqd_async_notify && mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
				raise_qp_event(q, IBV_EVENT_SQ_DRAINED);
			q->state = to;
		}
		qp->state = to;
		net->epoch++;
		run(q);
		if (net->stalled)
			run_stalled();
	}
	net_unlock();
	return err;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *q = containerof(qp, struct qp, ibv);
	int err = enter_call(CALL_QUERY_QP, device_of(qp->context));

	(void)mask;
	if (err || (err = device_error(qp->context)))
		return err;
	net_lock();
	*a = q->attr;
	a->qp_state = a->cur_qp_state = q->state;
	a->cap = q->cap;
	*init = (struct ibv_qp_init_attr){.qp_context = qp->qp_context, .send_cq = qp->send_cq, .recv_cq = qp->recv_cq, .srq = qp->srq,
					  .cap = q->cap, .qp_type = qp->qp_type, .sq_sig_all = q->signal_all};
	net_unlock();
	return 0;
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct qp *q = containerof(qp, struct qp, ibv);
	int err = enter_call(CALL_ATTACH_MCAST, device_of(qp->context));

	(void)lid;
	if (err)
		return err;
	if (qp->qp_type != IBV_QPT_UD || q->group_count == 4 || !is_multicast(gid))
		return EINVAL;
	net_lock();
	q->groups[q->group_count++] = *gid;
	net_unlock();
	return 0;
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct qp *q = containerof(qp, struct qp, ibv);
	int err = enter_call(CALL_DETACH_MCAST, device_of(qp->context));

	(void)lid;
	if (err)
		return err;
	err = EINVAL;
	net_lock();
	for (int i = 0; err && i < q->group_count; i++)
		if (!memcmp(&q->groups[i], gid, sizeof *gid)) {
			q->groups[i] = q->groups[--q->group_count];
			err = 0;
		}
	net_unlock();
	return err;
}
