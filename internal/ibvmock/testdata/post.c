/* Send queues: posting requests, and completing them. */
#include "mock.h"

struct wqe *wqe_at(struct qp *q, uint32_t n) { return (struct wqe *)(q->sq + (size_t)(n & q->sq_mask) * q->sq_stride); }

/* Adds the completion of the request w, which is the next one to execute. It also covers the requests before it. */
void complete_send(struct qp *q, const struct wqe *w, enum ibv_wc_status status, uint32_t length)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE, [IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND, [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ, [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD, [IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV, [IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
		[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	};

	if (status == IBV_WC_SUCCESS && !q->signal_all && !(w->flags & IBV_SEND_SIGNALED))
		return;
	struct cqe e = {.wc = {.wr_id = w->wr_id, .status = status, .opcode = opcodes[w->opcode], .byte_len = length, .qp_num = q->num},
			.qp = q, .slots = q->executed + 1 - q->completed};
	if (status != IBV_WC_SUCCESS) { /* nothing else is valid */
		e.wc.opcode = 0xdead;
		e.wc.byte_len = 0xdeadbeef;
		e.wc.vendor_err = 0x88;
	}
	q->completed = q->executed + 1;
	complete(containerof(q->ibv.send_cq, struct cq, ibv), &e);
}

/* Completes the requests of a failed queue pair. */
void flush_sends(struct qp *q)
{
	for (; q->executed != q->posted; q->executed++)
		complete_send(q, wqe_at(q, q->executed), IBV_WC_WR_FLUSH_ERR, 0);
}

static uint32_t allowed(const struct qp *q)
{
	const uint32_t datagrams = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;
	const uint32_t unreliable = datagrams | 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM;
	const uint32_t windows = 1u << IBV_WR_LOCAL_INV | 1u << IBV_WR_BIND_MW | 1u << IBV_WR_SEND_WITH_INV;
	const struct profile *p = profile_of(q->device);
	uint32_t ops = unreliable | 1u << IBV_WR_RDMA_READ;

	if (q->ibv.qp_type == IBV_QPT_UD)
		return datagrams;
	if (p->max_mw)
		ops |= windows;
	if (q->ibv.qp_type == IBV_QPT_UC)
		return ops & ~(1u << IBV_WR_RDMA_READ);
	if (p->atomics != IBV_ATOMIC_NONE)
		ops |= 1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
	return ops;
}

/* Copies inline data. It returns EINVAL if it is too long. */
static int fill_inline(struct qp *q, struct wqe *w, const struct ibv_send_wr *wr)
{
	char *to = (char *)w->sge;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];
		if (w->length + s->length > q->cap.max_inline_data)
			return EINVAL;
		memcpy(to + w->length, (void *)(uintptr_t)s->addr, s->length);
		w->length += s->length;
	}
	return 0;
}

static int fill(struct qp *q, const struct ibv_send_wr *wr)
{
	struct wqe *w = wqe_at(q, q->posted);

	if ((uint32_t)wr->opcode > 31 || !(q->allowed >> wr->opcode & 1))
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > q->cap.max_send_sge)
		return EINVAL;
	if (wr->opcode == IBV_WR_RDMA_READ && ((uint32_t)wr->num_sge > q->max_sge_rd || (wr->send_flags & IBV_SEND_INLINE)))
		return EINVAL;
	w->wr_id = wr->wr_id;
	w->opcode = wr->opcode;
	w->flags = wr->send_flags;
	w->ex = wr->imm_data;
	w->num_sge = (uint32_t)wr->num_sge;
	w->length = 0;
	if (wr->send_flags & IBV_SEND_INLINE) {
		int err = fill_inline(q, w, wr);
		if (err)
			return err;
	} else {
		for (int i = 0; i < wr->num_sge; i++) {
			w->sge[i] = wr->sg_list[i];
			w->length += wr->sg_list[i].length;
		}
	}
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE: case IBV_WR_RDMA_WRITE_WITH_IMM: case IBV_WR_RDMA_READ:
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP: case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->compare_add = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
		break;
	case IBV_WR_BIND_MW:
		w->mw = wr->bind_mw.mw;
		w->rkey = wr->bind_mw.rkey;
		w->bind = wr->bind_mw.bind_info;
		break;
	default:
		if (q->ibv.qp_type != IBV_QPT_UD)
			break;
		if (!wr->wr.ud.ah)
			return EINVAL;
		w->ah = containerof(wr->wr.ud.ah, struct ah, ibv);
		w->remote_qpn = wr->wr.ud.remote_qpn;
		w->remote_qkey = wr->wr.ud.remote_qkey;
	}
	return 0;
}

static int post(struct qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	if (unlikely(!q->allowed)) {
		q->allowed = allowed(q);
		q->max_sge_rd = (uint32_t)profile_of(q->device)->max_sge_rd;
	}
	for (; wr && !err; wr = wr->next) {
		*bad = wr;
		if (q->posted - __atomic_load_n(&q->sq_freed, __ATOMIC_ACQUIRE) >= q->sq_size)
			err = ENOMEM;
		else
			err = fill(q, wr);
		if (!err)
			q->posted++;
	}
	if (q->state == IBV_QPS_ERR)
		flush_sends(q);
	else
		run(q);
	return err;
}

static int post_error(const struct qp *q)
{
	if (unlikely(q->device->lost))
		return EIO;
	return q->state == IBV_QPS_RESET || q->state == IBV_QPS_INIT || q->state == IBV_QPS_RTR ? EINVAL : 0;
}

int mock_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *q = containerof(qp, struct qp, ibv);

	net_lock();
	int err = enter_data_path(CALL_POST_SEND, qp->context);
	*bad = wr;
	if (!err)
		err = post_error(q);
	if (!err)
		err = post(q, wr, bad);
	net_unlock();
	return err;
}

/* Binds a window of type 1. The key changes at once, and the request is executed in order. */
int mock_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *b)
{
	struct qp *q = containerof(qp, struct qp, ibv);
	struct ibv_send_wr *bad, wr = {.wr_id = b->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = b->send_flags};

	net_lock();
	int err = enter_call(CALL_BIND_MW, device_of(qp->context));
	if (!err && (mw->type != IBV_MW_TYPE_1 || (b->bind_info.mr && b->bind_info.mr->pd != mw->pd)))
		err = EINVAL;
	if (!err)
		err = post_error(q);
	if (!err) {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = (mw->rkey & ~0xffu) | ((mw->rkey + 1) & 0xff);
		wr.bind_mw.bind_info = b->bind_info;
		err = post(q, &wr, &bad);
		if (!err)
			mw->rkey = wr.bind_mw.rkey;
	}
	net_unlock();
	return err;
}
