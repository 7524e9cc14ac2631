/* Asynchronous events, and the descriptors that say that events wait. */
#include "mock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Within one process a bell is an eventfd. With IBVMOCK_DIR it is a FIFO in that directory, so that other processes can ring it.
 */
static bool bell_path(uint32_t id, char *path, size_t n)
{
	const char *dir = getenv("IBVMOCK_DIR");

	if (!dir || !*dir)
		return false;
	snprintf(path, n, "%s/bell-%u", dir, id);
	return true;
}

int bell_open(struct bell *b)
{
	char path[4096];

	b->pid = self;
	b->id = net->next_bell++;
	if (!bell_path(b->id, path, sizeof path)) {
		b->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
		return b->fd < 0 ? -1 : 0;
	}
	if (mkfifo(path, 0600))
		return -1;
	b->fd = open(path, O_RDWR | O_CLOEXEC);
	return b->fd < 0 ? -1 : 0;
}

void bell_close(struct bell *b)
{
	char path[4096];

	close(b->fd);
	if (bell_path(b->id, path, sizeof path))
		unlink(path);
}

void bell_ring(const struct bell *b)
{
	uint64_t one = 1;
	char path[4096];
	int fd = b->fd;

	if (b->pid != self) {
		if (!bell_path(b->id, path, sizeof path))
			return;
		fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return; /* the process has ended */
	}
	if (write(fd, &one, sizeof one) != sizeof one)
		perror("ibvmock: ring for an event");
	if (b->pid != self)
		close(fd);
}

/* Takes one ring, and blocks unless the descriptor is non-blocking. It returns -1 and sets errno if it fails. */
int bell_wait(const struct bell *b)
{
	uint64_t one;

	return read(b->fd, &one, sizeof one) == sizeof one ? 0 : -1;
}

static void raise_event(struct context *x, struct ibv_async_event ev)
{
	struct event *e = net_alloc(sizeof *e);

	if (!e)
		return;
	e->ev = ev;
	if (!x->events)
		x->last_event = &x->events;
	*x->last_event = e;
	x->last_event = &e->next;
	bell_ring(&x->bell);
}

void raise_port_event(struct device *d, enum ibv_event_type type)
{
	struct ibv_async_event ev = {.event_type = type};

	memset(&ev.element, 0xa5, sizeof ev.element); /* only the int is defined */
	ev.element.port_num = PORT;
	for (struct context *x = d->contexts; x; x = x->next)
		raise_event(x, ev);
}

static struct context *context_of(struct ibv_context *x) { return containerof(x, struct context, verbs.context); }

void raise_qp_event(struct qp *q, enum ibv_event_type type)
{
	raise_event(context_of(q->ibv.context), (struct ibv_async_event){.element.qp = &q->ibv, .event_type = type});
}

void raise_cq_event(struct cq *c)
{
	raise_event(context_of(c->ibv.context), (struct ibv_async_event){.element.cq = &c->ibv, .event_type = IBV_EVENT_CQ_ERR});
}

void raise_srq_event(struct srq *s, enum ibv_event_type type)
{
	raise_event(context_of(s->ibv.context), (struct ibv_async_event){.element.srq = &s->ibv, .event_type = type});
}

/* Removes the events of an object that were not read. */
void drop_events(struct context *x, const void *object)
{
	for (struct event **p = &x->events; *p;) {
		struct event *e = *p;
		bool of_object = false;

		switch (e->ev.event_type) {
		case IBV_EVENT_CQ_ERR:
			of_object = e->ev.element.cq == object;
			break;
		case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
		case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_QP_LAST_WQE_REACHED:
			of_object = e->ev.element.qp == object;
			break;
		case IBV_EVENT_SRQ_ERR: case IBV_EVENT_SRQ_LIMIT_REACHED:
			of_object = e->ev.element.srq == object;
			break;
		default:
			break;
		}
		if (!of_object) {
			p = &e->next;
			continue;
		}
		*p = e->next; /* its ring stays, see ibv_get_async_event */
		net_free(e, sizeof *e);
	}
	x->last_event = &x->events;
	while (*x->last_event)
		x->last_event = &(*x->last_event)->next;
}

/* Counts an event of an object that the program has read. */
static void count_read(const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		containerof(ev->element.cq, struct cq, ibv)->async_read++;
		break;
	case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_QP_LAST_WQE_REACHED:
		containerof(ev->element.qp, struct qp, ibv)->async_read++;
		break;
	case IBV_EVENT_SRQ_ERR: case IBV_EVENT_SRQ_LIMIT_REACHED:
		containerof(ev->element.srq, struct srq, ibv)->async_read++;
		break;
	default:
		break;
	}
}

/* A ring without an event is that of an event whose object was destroyed. */
EXPORT int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	struct context *x = context_of(ctx);
	int refused = enter_call(CALL_GET_ASYNC_EVENT, x->device);

	if (refused) {
		set_errno(refused);
		return -1;
	}
	for (;;) {
		if (bell_wait(&x->bell))
			return -1;
		net_lock();
		struct event *e = x->events;
		if (e) {
			*ev = e->ev;
			count_read(ev);
			x->events = e->next;
			net_free(e, sizeof *e);
		}
		net_unlock();
		if (e)
			return 0;
	}
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		__atomic_add_fetch(&ev->element.cq->async_events_completed, 1, __ATOMIC_SEQ_CST);
		break;
	case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_QP_LAST_WQE_REACHED:
		__atomic_add_fetch(&ev->element.qp->events_completed, 1, __ATOMIC_SEQ_CST);
		break;
	case IBV_EVENT_SRQ_ERR: case IBV_EVENT_SRQ_LIMIT_REACHED:
		__atomic_add_fetch(&ev->element.srq->events_completed, 1, __ATOMIC_SEQ_CST);
		break;
	default:
		break;
	}
}

/* Blocks until the program has acknowledged the events of an object that it has read, as the library does in ibv_destroy_*. */
void wait_for_acks(const uint32_t *acked, uint32_t read)
{
	while (__atomic_load_n(acked, __ATOMIC_SEQ_CST) != read)
		usleep(50);
}
