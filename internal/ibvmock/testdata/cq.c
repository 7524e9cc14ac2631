/* Completion queues and completion channels. */
#include "mock.h"

#include <pthread.h>

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *x)
{
	int refused = enter_call(CALL_CREATE_COMP_CHANNEL, device_of(x));

	if (refused || (refused = device_error(x)))
		return fail(refused);
	net_lock();
	struct channel *c = net_alloc(sizeof *c);
	if (c && bell_open(&c->bell)) {
		refused = errno;
		net_free(c, sizeof *c);
		c = NULL;
	}
	if (c) {
		c->ibv.context = x;
		c->ibv.fd = c->bell.fd;
	}
	net_unlock();
	return c ? &c->ibv : fail(refused ? refused : ENOMEM);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	struct channel *c = containerof(ch, struct channel, ibv);
	int refused = enter_call(CALL_DESTROY_COMP_CHANNEL, device_of(ch->context));

	if (refused)
		return refused;
	if (c->users)
		return EBUSY;
	net_lock();
	bell_close(&c->bell);
	net_free(c, sizeof *c);
	net_unlock();
	return 0;
}

/* The number of entries that a queue for n really has. */
static uint32_t granted(const struct profile *p, uint32_t n) { return p->power_of_two ? round_up(n + 1) - 1 : n; }

static size_t ring_bytes(uint32_t mask) { return ((size_t)mask + 1) * sizeof(struct cqe); }

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *x, int n, void *cq_context, struct ibv_comp_channel *ch, int vector)
{
	const struct profile *p = profile_of(device_of(x));
	int refused = enter_call(CALL_CREATE_CQ, device_of(x));

	if (!refused)
		refused = device_error(x);
	if (!refused && (n < 1 || n > p->max_cqe || vector < 0 || vector >= x->num_comp_vectors))
		refused = EINVAL;
	if (refused)
		return fail(refused);
	net_lock();
	struct cq *c = net_alloc(sizeof *c);
	if (c) {
		c->capacity = granted(p, (uint32_t)n);
		c->mask = round_up(c->capacity) - 1;
		c->ring = net_alloc(ring_bytes(c->mask));
		c->ibv.context = x;
		c->ibv.channel = ch;
		c->ibv.cq_context = cq_context;
		c->ibv.handle = ++net->next_handle;
		c->ibv.cqe = (int)c->capacity;
		c->vector = vector;
		pthread_mutex_init(&c->ibv.mutex, NULL);
		pthread_cond_init(&c->ibv.cond, NULL);
		c->channel = ch ? containerof(ch, struct channel, ibv) : NULL;
		if (!c->ring) {
			net_free(c, sizeof *c);
			c = NULL;
		} else if (c->channel) {
			c->channel->users++;
		}
	}
	net_unlock();
	return c ? &c->ibv : fail(ENOMEM);
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int n)
{
	struct cq *c = containerof(cq, struct cq, ibv);
	const struct profile *p = profile_of(device_of(cq->context));
	int refused = enter_call(CALL_RESIZE_CQ, device_of(cq->context));

	if (refused || (refused = device_error(cq->context)))
		return refused;
	if (n < 1 || n > p->max_cqe)
		return EINVAL;
	net_lock();
	spin_lock(&c->lock);
	uint32_t capacity = granted(p, (uint32_t)n), mask = round_up(capacity) - 1;
	struct cqe *ring = c->tail - c->head + c->late_count <= capacity ? net_alloc(ring_bytes(mask)) : NULL;
	if (ring) {
		for (uint64_t i = c->head; i != c->tail; i++)
			ring[i & mask] = c->ring[i & c->mask];
		net_free(c->ring, ring_bytes(c->mask));
		c->ring = ring;
		c->capacity = capacity;
		c->mask = mask;
		cq->cqe = (int)capacity;
	}
	spin_unlock(&c->lock);
	net_unlock();
	return ring ? 0 : EINVAL;
}

/* Removes a queue from the list of those with an event. */
static void unlist(struct cq *c)
{
	struct channel *ch = c->channel;

	for (struct cq **p = &ch->first; *p; p = &(*p)->next_event)
		if (*p == c) {
			*p = c->next_event;
			break;
		}
	ch->last = ch->first;
	while (ch->last && ch->last->next_event)
		ch->last = ch->last->next_event;
}

/* Adds a queue to the end of that list. */
static void list(struct cq *c)
{
	struct channel *ch = c->channel;

	c->next_event = NULL;
	if (ch->first)
		ch->last->next_event = c;
	else
		ch->first = c;
	ch->last = c;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct cq *c = containerof(cq, struct cq, ibv);
	int refused = enter_call(CALL_DESTROY_CQ, device_of(cq->context));

	if (refused)
		return refused;
	if (c->users)
		return EBUSY;
	refused = device_error(cq->context);
	net_lock();
	drop_events(containerof(cq->context, struct context, verbs.context), cq);
	if (c->channel) {
		unlist(c);
		c->channel->users--;
	}
	net_unlock();
	wait_for_acks(&cq->comp_events_completed, c->events_read);
	wait_for_acks(&cq->async_events_completed, c->async_read);
	net_lock();
	while (c->late) {
		struct late *l = c->late;
		c->late = l->next;
		net_free(l, sizeof *l);
	}
	net_free(c->ring, ring_bytes(c->mask));
	net_free(c, sizeof *c);
	net_unlock();
	return refused;
}

/* Raises the event of a queue that was armed. Events that were not read add up, as in the kernel. */
static void notify(struct cq *c)
{
	c->armed = NOT_ARMED;
	if (!c->channel)
		return;
	if (c->events++ == c->events_read)
		list(c);
	bell_ring(&c->channel->bell);
}

static void show(struct cq *c, const struct cqe *e)
{
	if (e->last_wqe) {
		if (e->qp && e->qp->num)
			raise_qp_event(e->qp, IBV_EVENT_QP_LAST_WQE_REACHED);
		return;
	}
	c->ring[c->tail & c->mask] = *e;
	__atomic_store_n(&c->tail, c->tail + 1, __ATOMIC_RELEASE);
	if (unlikely(c->armed != NOT_ARMED) && (c->armed == ARMED || e->solicited || e->wc.status != IBV_WC_SUCCESS))
		notify(c);
}

/* Reports the overrun of a queue. Its further completions are lost. */
static void overrun(struct cq *c)
{
	if (c->failed)
		return;
	c->failed = true;
	raise_cq_event(c);
	if (c->armed != NOT_ARMED)
		notify(c);
}

/* Keeps a completion back until the program has polled some times, or until a test lets it appear. */
static bool delay(struct cq *c, const struct cqe *e)
{
	bool flushed = e->last_wqe || e->wc.status == IBV_WC_WR_FLUSH_ERR;
	uint64_t due = c->polls + (flushed && knobs.flush_late > knobs.late ? knobs.flush_late : knobs.late);
	struct late *l;

	if (!c->late && !knobs.held && due == c->polls)
		return false;
	l = net_alloc(sizeof *l);
	if (!l)
		return false;
	l->cqe = *e;
	l->due = knobs.held ? UINT64_MAX : due;
	if (!c->late)
		c->last_late = &c->late;
	*c->last_late = l;
	c->last_late = &l->next;
	c->late_count += !e->last_wqe;
	return true;
}

/* Adds a completion. The caller holds net->lock. */
void complete(struct cq *c, const struct cqe *e)
{
	uint64_t head = __atomic_load_n(&c->head, __ATOMIC_ACQUIRE);

	if (unlikely(c->failed || (!e->last_wqe && c->tail - head + c->late_count >= c->capacity))) {
		overrun(c);
		return;
	}
	if (unlikely(c->late || knobs.any) && delay(c, e))
		return;
	show(c, e);
}

/* Shows the late completions that are due. Those of one queue pair stay in order. */
static void show_due(struct cq *c)
{
	struct late **p = &c->late, *undue = NULL;

	while (*p) {
		struct late *l = *p;
		bool behind = false;

		for (struct late *u = c->late; u != l && !behind; u = u->next)
			behind = u->cqe.wc.qp_num == l->cqe.wc.qp_num;
		if (l->due > c->polls || behind) {
			undue = l;
			p = &l->next;
			continue;
		}
		*p = l->next;
		c->late_count -= !l->cqe.last_wqe;
		show(c, &l->cqe);
		net_free(l, sizeof *l);
	}
	c->last_late = undue ? &undue->next : &c->late;
}

void show_all(struct cq *c)
{
	for (struct late *l = c->late; l; l = l->next)
		l->due = 0;
	show_due(c);
}

static void free_slots(const struct cqe *e)
{
	if (e->srq)
		__atomic_add_fetch(&e->srq->rq.freed, e->slots, __ATOMIC_RELEASE);
	else if (e->qp && e->receive)
		__atomic_add_fetch(&e->qp->rq.freed, e->slots, __ATOMIC_RELEASE);
	else if (e->qp)
		__atomic_add_fetch(&e->qp->sq_freed, e->slots, __ATOMIC_RELEASE);
}

int mock_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct cq *c = containerof(cq, struct cq, ibv);
	int refused = enter_data_path(CALL_POLL_CQ, cq->context), got = 0;

	if (refused)
		return refused > 0 ? -refused : -1;
	__atomic_store_n(&c->polls, c->polls + 1, __ATOMIC_RELAXED);
	if (unlikely(__atomic_load_n(&c->late, __ATOMIC_RELAXED) != NULL)) {
		net_lock();
		show_due(c);
		net_unlock();
	}
	if (__atomic_load_n(&c->head, __ATOMIC_RELAXED) == __atomic_load_n(&c->tail, __ATOMIC_ACQUIRE))
		return unlikely(c->failed) ? -1 : 0;
	spin_lock(&c->lock);
	uint64_t head = c->head, tail = __atomic_load_n(&c->tail, __ATOMIC_ACQUIRE);
	for (; got < n && head != tail; head++, got++) {
		const struct cqe *e = &c->ring[head & c->mask];
		wc[got] = e->wc;
		free_slots(e);
	}
	__atomic_store_n(&c->head, head, __ATOMIC_RELEASE);
	spin_unlock(&c->lock);
	return got;
}

int mock_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	struct cq *c = containerof(cq, struct cq, ibv);
	int refused = enter_call(CALL_REQ_NOTIFY_CQ, device_of(cq->context));

	if (refused || (refused = device_error(cq->context)))
		return refused;
	net_lock();
	if (!profile_of(device_of(cq->context))->counts_events || c->events == c->events_read) {
		if (c->armed != ARMED)
			c->armed = solicited ? ARMED_SOLICITED : ARMED;
		if (c->late && !knobs.held)
			notify(c); /* so that the program polls until they are due */
	}
	net_unlock();
	return 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)
{
	struct channel *c = containerof(ch, struct channel, ibv);
	int refused = enter_call(CALL_GET_CQ_EVENT, device_of(ch->context));

	if (refused) {
		set_errno(refused);
		return -1;
	}
	for (;;) {
		if (bell_wait(&c->bell))
			return -1;
		net_lock();
		struct cq *first = c->first;
		if (first) {
			unlist(first);
			if (++first->events_read != first->events)
				list(first);
			*cq = &first->ibv;
			*cq_context = first->ibv.cq_context;
		}
		net_unlock();
		if (first)
			return 0;
	}
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	__atomic_add_fetch(&cq->comp_events_completed, n, __ATOMIC_SEQ_CST);
}

/*
 * Removes what a queue holds of a queue pair that is destroyed or reset. Devices that do not do that leave the completions. The
 * slots of a shared receive queue are freed in both cases: it may be destroyed before the completions are polled.
 */
void remove_completions(struct cq *c, struct qp *q)
{
	bool discards = knobs.discards < 0 ? profile_of(q->device)->discards : knobs.discards;

	spin_lock(&c->lock);
	uint64_t keep = c->tail;
	for (uint64_t i = c->tail; i-- > c->head;) {
		struct cqe *e = &c->ring[i & c->mask];
		if (e->qp == q) {
			if (e->srq)
				free_slots(e);
			e->qp = NULL;
			e->srq = NULL;
			if (discards)
				continue;
		}
		c->ring[--keep & c->mask] = *e;
	}
	__atomic_store_n(&c->head, keep, __ATOMIC_RELEASE);
	spin_unlock(&c->lock);
	for (struct late **p = &c->late; *p;) {
		struct late *l = *p;
		if (l->cqe.qp != q) {
			p = &l->next;
			continue;
		}
		if (l->cqe.srq)
			free_slots(&l->cqe);
		*p = l->next;
		c->late_count -= !l->cqe.last_wqe;
		net_free(l, sizeof *l);
	}
	c->last_late = &c->late;
	while (*c->last_late)
		c->last_late = &(*c->last_late)->next;
}
