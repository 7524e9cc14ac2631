/* Executes the requests of connected queue pairs: sends, writes, reads, atomic operations, windows. */
#include "mock.h"

enum { MAX_PIECES = 128 };

/* A part of a message, at its address in the process that owns it. */
struct piece {
	uint64_t addr;
	uint64_t length;
};

/* The memory of one side of a copy. */
struct pieces {
	pid_t pid;
	int count;
	struct piece at[MAX_PIECES];
};

/* Used with net->lock only. They are not on the stack, which may be the small one of a goroutine. */
static struct pieces source, destination;

/* Finds the memory of a list, from offset on. It returns false if the queue pair may not use all of it. */
static bool resolve(struct pieces *p, const struct qp *q, const struct ibv_sge *sge, uint32_t n, int access, uint64_t skip)
{
	p->pid = q->pid;
	p->count = 0;
	for (uint32_t i = 0; i < n && p->count < MAX_PIECES; i++) {
		const struct key *k = sge[i].length ? find_local(q, &sge[i], access) : NULL;
		if (!sge[i].length)
			continue;
		if (!k)
			return false;
		uint64_t part = sge[i].length < skip ? sge[i].length : skip;
		skip -= part;
		p->at[p->count++] = (struct piece){real_address(k, sge[i].addr) + part, sge[i].length - part};
	}
	return true;
}

static void one_piece(struct pieces *p, pid_t pid, uint64_t addr, uint64_t n)
{
	p->pid = pid;
	p->count = 1;
	p->at[0] = (struct piece){addr, n};
}

/* Finds what a request sends. Inline data is in the segment, and so in this process. */
static bool resolve_source(const struct qp *q, const struct wqe *w)
{
	if (w->flags & IBV_SEND_INLINE) {
		one_piece(&source, self, (uintptr_t)w->sge, w->length);
		return true;
	}
	return resolve(&source, q, w->sge, w->num_sge, 0, 0);
}

/* Copies n bytes from source to destination. It returns false if a process is gone. */
static bool copy(uint64_t n)
{
	int s = 0, d = 0;
	uint64_t s_off = 0, d_off = 0;

	while (n > 0 && s < source.count && d < destination.count) {
		uint64_t s_left = source.at[s].length - s_off, d_left = destination.at[d].length - d_off;
		uint64_t part = s_left < d_left ? s_left : d_left;

		if (part > n)
			part = n;
		if (!copy_bytes(destination.pid, destination.at[d].addr + d_off, source.pid, source.at[s].addr + s_off, part))
			return false;
		n -= part;
		s_off += part;
		d_off += part;
		if (s_off == source.at[s].length)
			s++, s_off = 0;
		if (d_off == destination.at[d].length)
			d++, d_off = 0;
	}
	return true;
}

/* Copies the message of a datagram behind the header of a posted receive, whose memory was checked. */
bool copy_to_receive(struct qp *from, const struct wqe *w, struct qp *to, const struct recv_wqe *r, uint32_t offset)
{
	return resolve_source(from, w) && resolve(&destination, to, r->sge, r->num_sge, IBV_ACCESS_LOCAL_WRITE, offset) &&
	       copy(w->length);
}

/* Reports whether a queue pair may send the memory of a request. */
bool gather_ok(struct qp *q, const struct wqe *w, int access)
{
	return (w->flags & IBV_SEND_INLINE) || resolve(&source, q, w->sge, w->num_sge, access, 0);
}

/* Returns the queue pair at the other end, or NULL if no packet reaches it now. */
static struct qp *peer_of(struct qp *q)
{
	if (q->route_epoch == net->epoch)
		return q->peer;
	struct qp *p = find_qp(q->attr.dest_qp_num);
	if (p && (p->ibv.qp_type != q->ibv.qp_type || p->attr.dest_qp_num != q->num || !is_reachable(q, p, &q->attr.ah_attr)))
		p = NULL;
	if (p && p->state != IBV_QPS_RTR && p->state != IBV_QPS_RTS && p->state != IBV_QPS_SQD)
		p = NULL;
	q->peer = p;
	q->route_epoch = net->epoch;
	return p;
}

static enum outcome fail_request(struct qp *q, const struct wqe *w, enum ibv_wc_status status)
{
	complete_send(q, w, status, 0);
	return FAILED;
}

/* The responder p refuses a request, and fails. An unreliable connection loses the message instead. */
static enum outcome refuse(struct qp *q, const struct wqe *w, struct qp *p, enum ibv_wc_status status)
{
	if (q->ibv.qp_type == IBV_QPT_UC) {
		complete_send(q, w, IBV_WC_SUCCESS, 0);
		return DONE;
	}
	raise_qp_event(p, status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
	enter_error(p);
	return fail_request(q, w, status);
}

/* A copy has failed: the process at the other end has ended, or has unmapped registered memory. */
static enum outcome gone(struct qp *q, const struct wqe *w, struct qp *p)
{
	pid_t other = p->pid == self ? q->pid : p->pid;

	if (process_exists(other))
		return fail_request(q, w, IBV_WC_LOC_PROT_ERR);
	reap(other);
	return STALLED_NO_ANSWER;
}

static uint64_t capacity(const struct recv_wqe *r)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->num_sge; i++)
		n += r->sge[i].length;
	return n;
}

static void establish(struct qp *p)
{
	if (p->state == IBV_QPS_RTR && !p->established) {
		p->established = true;
		raise_qp_event(p, IBV_EVENT_COMM_EST);
	}
}

/* Completes a receive of p for a request of q. */
static void receive(struct qp *q, const struct wqe *w, struct qp *p, enum ibv_wc_status status)
{
	const struct recv_wqe *r = take_receive(p);
	struct ibv_wc wc = {.wr_id = r->wr_id, .status = status, .opcode = 0xdead, .vendor_err = 0x32, .byte_len = 0xdeadbeef};

	if (status == IBV_WC_SUCCESS) {
		wc = (struct ibv_wc){.wr_id = r->wr_id, .opcode = IBV_WC_RECV, .byte_len = (uint32_t)w->length, .src_qp = q->num,
				     .slid = q->device->lid, .sl = q->attr.ah_attr.sl};
		if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || w->opcode == IBV_WR_SEND_WITH_IMM)
			wc.wc_flags = IBV_WC_WITH_IMM, wc.imm_data = w->ex;
		if (w->opcode == IBV_WR_SEND_WITH_INV)
			wc.wc_flags = IBV_WC_WITH_INV, wc.invalidated_rkey = w->ex;
	}
	complete_receive(p, &wc, w->flags & IBV_SEND_SOLICITED);
}

/* The receive of p cannot take the message: both queue pairs fail, each with its own status. */
static enum outcome spoil(struct qp *q, const struct wqe *w, struct qp *p, enum ibv_wc_status here, enum ibv_wc_status there)
{
	if (q->ibv.qp_type == IBV_QPT_UC) {
		complete_send(q, w, IBV_WC_SUCCESS, 0);
		return DONE;
	}
	receive(q, w, p, there);
	enter_error(p);
	return fail_request(q, w, here);
}

static enum outcome succeed(struct qp *q, const struct wqe *w)
{
	complete_send(q, w, IBV_WC_SUCCESS, (uint32_t)w->length);
	return DONE;
}

static enum outcome send_message(struct qp *q, struct wqe *w, struct qp *p)
{
	struct recv_queue *rq = p->srq ? &p->srq->rq : &p->rq;
	const struct recv_wqe *r = recv_queue_peek(rq);

	if (!r && q->ibv.qp_type == IBV_QPT_UC)
		return succeed(q, w);
	if (!r)
		return STALLED_NOT_READY;
	if (w->length > capacity(r))
		return spoil(q, w, p, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
	if (!resolve(&destination, p, r->sge, r->num_sge, IBV_ACCESS_LOCAL_WRITE, 0))
		return spoil(q, w, p, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
	if (!resolve_source(q, w))
		return fail_request(q, w, IBV_WC_LOC_PROT_ERR);
	if (!copy(w->length))
		return gone(q, w, p);
	if (w->opcode == IBV_WR_SEND_WITH_INV && !invalidate(p, w->ex))
		return spoil(q, w, p, IBV_WC_REM_OP_ERR, IBV_WC_LOC_QP_OP_ERR);
	receive(q, w, p, IBV_WC_SUCCESS);
	return succeed(q, w);
}

static enum outcome write_memory(struct qp *q, struct wqe *w, struct qp *p)
{
	const bool immediate = w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint64_t real = 0;

	if (w->length > 0) {
		if (!(p->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
			return refuse(q, w, p, IBV_WC_REM_INV_REQ_ERR);
		if (!find_remote(p, w->rkey, w->remote_addr, w->length, IBV_ACCESS_REMOTE_WRITE, &real))
			return refuse(q, w, p, IBV_WC_REM_ACCESS_ERR);
	}
	if (immediate && !recv_queue_peek(p->srq ? &p->srq->rq : &p->rq))
		return q->ibv.qp_type == IBV_QPT_UC ? succeed(q, w) : STALLED_NOT_READY;
	if (w->length > 0) {
		if (!resolve_source(q, w))
			return fail_request(q, w, IBV_WC_LOC_PROT_ERR);
		one_piece(&destination, p->pid, real, w->length);
		if (!copy(w->length))
			return gone(q, w, p);
	}
	if (immediate)
		receive(q, w, p, IBV_WC_SUCCESS);
	return succeed(q, w);
}

/* Reports whether both queue pairs were set up for READs and atomic operations. */
static bool has_read_resources(const struct qp *q, const struct qp *p)
{
	return q->attr.max_rd_atomic && p->attr.max_dest_rd_atomic;
}

static enum outcome read_memory(struct qp *q, struct wqe *w, struct qp *p)
{
	uint64_t real = 0;

	if (!has_read_resources(q, p) || !(p->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ))
		return refuse(q, w, p, IBV_WC_REM_INV_REQ_ERR);
	if (w->length == 0)
		return succeed(q, w);
	if (!find_remote(p, w->rkey, w->remote_addr, w->length, IBV_ACCESS_REMOTE_READ, &real))
		return refuse(q, w, p, IBV_WC_REM_ACCESS_ERR);
	if (!resolve(&destination, q, w->sge, w->num_sge, IBV_ACCESS_LOCAL_WRITE, 0))
		return fail_request(q, w, IBV_WC_LOC_PROT_ERR);
	one_piece(&source, p->pid, real, w->length);
	return copy(w->length) ? succeed(q, w) : gone(q, w, p);
}

static enum outcome change_atomically(struct qp *q, struct wqe *w, struct qp *p)
{
	uint64_t real = 0, old;
	bool ok;

	if (!has_read_resources(q, p) || !(p->attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) || (w->remote_addr & 7))
		return refuse(q, w, p, IBV_WC_REM_INV_REQ_ERR);
	if (!find_remote(p, w->rkey, w->remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC, &real))
		return refuse(q, w, p, IBV_WC_REM_ACCESS_ERR);
	if (!resolve(&destination, q, w->sge, w->num_sge, IBV_ACCESS_LOCAL_WRITE, 0))
		return fail_request(q, w, IBV_WC_LOC_PROT_ERR);
	old = atomic_operation(p->pid, real, w, &ok);
	if (!ok)
		return gone(q, w, p);
	net->old_value = old; /* in the segment, so that any process can copy it */
	one_piece(&source, self, (uintptr_t)&net->old_value, 8);
	return copy(8) ? succeed(q, w) : gone(q, w, p);
}

static enum outcome local(struct qp *q, struct wqe *w)
{
	bool ok = w->opcode == IBV_WR_BIND_MW ? bind_window(q, w) : invalidate(q, w->ex);

	return ok ? succeed(q, w) : fail_request(q, w, w->opcode == IBV_WR_BIND_MW ? IBV_WC_MW_BIND_ERR : IBV_WC_LOC_QP_OP_ERR);
}

enum outcome transfer(struct qp *q, struct wqe *w)
{
	const bool reads = w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			   w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	if (w->opcode == IBV_WR_BIND_MW || w->opcode == IBV_WR_LOCAL_INV)
		return local(q, w);
	if (w->length > 1u << 30)
		return fail_request(q, w, IBV_WC_LOC_LEN_ERR);
	if (!gather_ok(q, w, reads ? IBV_ACCESS_LOCAL_WRITE : 0))
		return fail_request(q, w, IBV_WC_LOC_PROT_ERR);
	struct qp *p = peer_of(q);
	if (unlikely(!p))
		return q->ibv.qp_type == IBV_QPT_UC ? succeed(q, w) : STALLED_NO_ANSWER;
	if (unlikely(p->pid != self && p->pid != q->pid && !process_exists(p->pid)))
		return gone(q, w, p);
	if (unlikely(p->state == IBV_QPS_RTR))
		establish(p);
	if (unlikely(q->attr.path_mtu > p->attr.path_mtu && w->length > 128u << p->attr.path_mtu))
		return refuse(q, w, p, IBV_WC_REM_INV_REQ_ERR);
	switch (w->opcode) {
	case IBV_WR_RDMA_WRITE: case IBV_WR_RDMA_WRITE_WITH_IMM:
		return write_memory(q, w, p);
	case IBV_WR_RDMA_READ:
		return read_memory(q, w, p);
	case IBV_WR_ATOMIC_CMP_AND_SWP: case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return change_atomically(q, w, p);
	default:
		return send_message(q, w, p);
	}
}
