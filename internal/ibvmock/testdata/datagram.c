/* Executes the requests of datagram queue pairs. */
#include "mock.h"

static bool is_attached(const struct qp *q, const union ibv_gid *gid)
{
	for (int i = 0; i < q->group_count; i++)
		if (!memcmp(&q->groups[i], gid, sizeof *gid))
			return true;
	return false;
}

/* Writes the route header of a datagram before its message, as far as programs look at it: the two addresses. */
static bool write_header(struct qp *from, const struct ibv_ah_attr *path, struct qp *to, const struct ibv_sge *first)
{
	struct ibv_grh *h = (struct ibv_grh *)net->bounce;
	struct key *k = find_local(to, first, IBV_ACCESS_LOCAL_WRITE);

	if (!k || first->length < GRH_BYTES)
		return false;
	memset(h, 0, GRH_BYTES);
	h->version_tclass_flow = htobe32(6u << 28 | (uint32_t)path->grh.traffic_class << 20 | path->grh.flow_label);
	h->hop_limit = path->grh.hop_limit;
	h->sgid = from->device->gids[path->grh.sgid_index % MAX_GIDS].gid;
	h->dgid = path->grh.dgid;
	return copy_bytes(to->pid, real_address(k, first->addr), self, (uintptr_t)h, GRH_BYTES);
}

/* Delivers a datagram, or drops it if the receiver is not ready for it. */
static void deliver(struct qp *from, const struct wqe *w, struct qp *to)
{
	const struct ibv_ah_attr *path = &w->ah->attr;
	uint32_t qkey = w->remote_qkey >> 31 ? from->attr.qkey : w->remote_qkey;
	struct recv_wqe *r;
	uint64_t room = 0;

	if (to->ibv.qp_type != IBV_QPT_UD || to->attr.qkey != qkey || (to->state != IBV_QPS_RTR && to->state != IBV_QPS_RTS))
		return;
	r = recv_queue_peek(to->srq ? &to->srq->rq : &to->rq);
	for (uint32_t i = 0; r && i < r->num_sge; i++)
		room += r->sge[i].length;
	if (!r || room < GRH_BYTES + w->length)
		return;
	if (path->is_global && !write_header(from, path, to, &r->sge[0]))
		return;
	if (!copy_to_receive(from, w, to, r, GRH_BYTES))
		return;
	take_receive(to);
	struct ibv_wc wc = {.wr_id = r->wr_id, .opcode = IBV_WC_RECV, .byte_len = (uint32_t)(GRH_BYTES + w->length), .src_qp = from->num,
			    .pkey_index = to->attr.pkey_index, .slid = (uint16_t)(from->device->lid + path->src_path_bits), .sl = path->sl,
			    .wc_flags = path->is_global ? IBV_WC_GRH : 0};
	if (w->opcode == IBV_WR_SEND_WITH_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = w->ex;
	}
	complete_receive(to, &wc, w->flags & IBV_SEND_SOLICITED);
}

static void deliver_to_group(struct qp *from, const struct wqe *w)
{
	for (int i = 0; i < QP_BUCKETS; i++)
		for (struct qp *to = net->buckets[i]; to; to = to->next_in_bucket)
			if (is_linked(from, to) && is_attached(to, &w->ah->attr.grh.dgid))
				deliver(from, w, to);
}

enum outcome send_datagram(struct qp *q, struct wqe *w)
{
	if (w->length > 128u << q->device->active_mtu || !gather_ok(q, w, 0)) {
		complete_send(q, w, w->length > 128u << q->device->active_mtu ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR, 0);
		return FAILED;
	}
	if (net->drop_datagrams > 0) {
		net->drop_datagrams--;
	} else if (w->remote_qpn == MULTICAST_QPN) {
		deliver_to_group(q, w);
	} else {
		struct qp *to = find_qp(w->remote_qpn);
		if (to && is_reachable(q, to, &w->ah->attr))
			deliver(q, w, to);
	}
	complete_send(q, w, IBV_WC_SUCCESS, 0);
	return DONE;
}
