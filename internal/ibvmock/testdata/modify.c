/* Which attributes a change of state needs and allows, and which values the driver refuses. */
#include "mock.h"

struct transition {
	enum ibv_qp_state from, to;
	int need[3], may[3]; /* of RC, UC, UD */
};

enum {
	INIT = IBV_QP_PKEY_INDEX | IBV_QP_PORT,
	PATH = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	RETRY = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	LIVE = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE,
	LIVE_UD = IBV_QP_CUR_STATE | IBV_QP_QKEY,
};

#define ALL(x) {x, x, x}

/* The InfiniBand specification, volume 1, section 11.2.5.2. The changes to RESET and ERR are missing: they are always allowed. */
static const struct transition transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, {INIT | IBV_QP_ACCESS_FLAGS, INIT | IBV_QP_ACCESS_FLAGS, INIT | IBV_QP_QKEY}, ALL(0)},
	{IBV_QPS_INIT, IBV_QPS_INIT, ALL(0), {INIT | IBV_QP_ACCESS_FLAGS, INIT | IBV_QP_ACCESS_FLAGS, INIT | IBV_QP_QKEY}},
	{IBV_QPS_INIT, IBV_QPS_RTR, {PATH | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, PATH, 0},
	 {IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
	  IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
	{IBV_QPS_RTR, IBV_QPS_RTS, {RETRY | IBV_QP_SQ_PSN, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN}, {LIVE | IBV_QP_MIN_RNR_TIMER, LIVE, LIVE_UD}},
	{IBV_QPS_RTS, IBV_QPS_RTS, ALL(0), {LIVE | IBV_QP_MIN_RNR_TIMER, LIVE, LIVE_UD}},
	{IBV_QPS_RTS, IBV_QPS_SQD, ALL(0), ALL(IBV_QP_EN_SQD_ASYNC_NOTIFY)},
	{IBV_QPS_SQD, IBV_QPS_RTS, ALL(0), {LIVE | IBV_QP_MIN_RNR_TIMER, LIVE, LIVE_UD}},
	{IBV_QPS_SQD, IBV_QPS_SQD, ALL(0),
	 {IBV_QP_PORT | IBV_QP_AV | RETRY | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
	  IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE,
	  IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
};

static bool is_allowed(const struct qp *q, int mask, enum ibv_qp_state to)
{
	int type = q->ibv.qp_type == IBV_QPT_RC ? 0 : q->ibv.qp_type == IBV_QPT_UC ? 1 : 2;

	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && q->state != IBV_QPS_RESET))
		return !mask;
	for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++) {
		const struct transition *t = &transitions[i];
		if (t->from == q->state && t->to == to)
			return !(t->need[type] & ~mask) && !(mask & ~(t->need[type] | t->may[type]));
	}
	return false;
}

/* Returns the errno with which the driver refuses a change, or 0. */
int check_modify(const struct qp *q, const struct ibv_qp_attr *a, int mask, enum ibv_qp_state to)
{
	const struct profile *p = profile_of(q->device);

	if (!is_allowed(q, mask & ~IBV_QP_STATE, to))
		return EINVAL;
	if ((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != q->state)
		return EINVAL;
	if ((mask & IBV_QP_PORT) && a->port_num != PORT)
		return EINVAL;
	if ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index >= p->pkey_entries)
		return EINVAL;
	if ((mask & IBV_QP_PATH_MTU) && (a->path_mtu < IBV_MTU_256 || a->path_mtu > q->device->active_mtu))
		return EINVAL;
	if ((mask & IBV_QP_DEST_QPN) && a->dest_qp_num >> 24)
		return EINVAL;
	if (((mask & IBV_QP_RQ_PSN) && a->rq_psn >> 24) || ((mask & IBV_QP_SQ_PSN) && a->sq_psn >> 24))
		return EINVAL;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > p->max_init_rd)
		return EINVAL;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > p->max_rd)
		return EINVAL;
	if (((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31) || ((mask & IBV_QP_TIMEOUT) && a->timeout > 31) ||
	    ((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > 7) || ((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > 7))
		return EINVAL;
	return mask & IBV_QP_AV ? check_path(q->device, &a->ah_attr) : 0;
}

/* Stores the attributes that the mask selects. */
void store_attributes(struct qp *q, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr *to = &q->attr;

#define STORE(bit, field) \
	if (mask & (bit)) \
		to->field = a->field
	STORE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	STORE(IBV_QP_PKEY_INDEX, pkey_index);
	STORE(IBV_QP_PORT, port_num);
	STORE(IBV_QP_QKEY, qkey);
	STORE(IBV_QP_AV, ah_attr);
	STORE(IBV_QP_PATH_MTU, path_mtu);
	STORE(IBV_QP_TIMEOUT, timeout);
	STORE(IBV_QP_RETRY_CNT, retry_cnt);
	STORE(IBV_QP_RNR_RETRY, rnr_retry);
	STORE(IBV_QP_RQ_PSN, rq_psn);
	STORE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	STORE(IBV_QP_ALT_PATH, alt_ah_attr);
	STORE(IBV_QP_ALT_PATH, alt_pkey_index);
	STORE(IBV_QP_ALT_PATH, alt_port_num);
	STORE(IBV_QP_ALT_PATH, alt_timeout);
	STORE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	STORE(IBV_QP_SQ_PSN, sq_psn);
	STORE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	STORE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	STORE(IBV_QP_DEST_QPN, dest_qp_num);
#undef STORE
}
